"""Events of a deployment for people: one line each."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any


def told(fields: Mapping[str, Any], begun: float | None, scale: float = 1.0) -> str:
    """`time  what`; `begun` is the wall time of engine second 0, if it is known."""
    at = float(fields.get("at", 0.0))
    when = f"{at:10,.0f} s" if begun is None else time.strftime("%m-%d %H:%M:%S", time.localtime(begun + at / scale))
    return f"{when}  {_what(fields)}"


def _what(fields: Mapping[str, Any]) -> str:
    name = str(fields.get("event", "?"))
    describe = _WORDS.get(name)
    try:
        text = describe(fields) if describe is not None else ""
    except (KeyError, TypeError, ValueError, IndexError):
        text = ""
    return text or name


def _parts(parts: Any) -> str:
    return ", ".join(f"{len(part['devices'])} GPUs of {part['node']}" for part in parts)


def _accepted(f: Mapping[str, Any]) -> str:
    spec = f["spec"]
    name = f" {spec['name']!r}" if spec.get("name") else ""
    return f"job {f['job']}{name} accepted: {spec['gpus']} GPUs, {spec['profile']}, by {f['by']}"


def _ended(f: Mapping[str, Any]) -> str:
    detail = f": {f['detail']}" if f.get("detail") else ""
    code = f", exit code {f['exit_code']}" if f.get("exit_code") else ""
    return f"job {f['job']} attempt {f['epoch']} {f['outcome']}{code}{detail}"


def _some(jobs: Any) -> str:
    numbers = [str(n) for n in jobs]
    more = f" and {len(numbers) - 8} more" if len(numbers) > 8 else ""
    return f"job{'s' if len(numbers) > 1 else ''} {', '.join(numbers[:8])}{more}"


_WORDS: dict[str, Callable[[Mapping[str, Any]], str]] = {
    "ServiceStarted": lambda f: (
        f"scheduler started: {f['config']['policy']}, {f['config']['mechanism']}, time x {f['config']['time_scale']:g}"
    ),
    "JobAccepted": _accepted,
    "CancelAsked": lambda f: f"job {f['job']} to be cancelled, by {f['by']}",
    "NodeJoined": lambda f: f"node {f['node']} joined: {len(f['devices'])} x {f['type']}",
    "NodeLost": lambda f: f"node {f['node']} lost: {f['reason']}",
    "NodeDrained": lambda f: f"node {f['node']} {'drained' if f['drained'] else 'back in use'}, by {f['by']}",
    "AttemptStarted": lambda f: f"job {f['job']} attempt {f['epoch']} starts on {_parts(f['parts'])}",
    "AttemptResized": lambda f: f"job {f['job']} attempt {f['epoch']} gets other CPUs and memory",
    "AttemptStopping": lambda f: (
        f"job {f['job']} attempt {f['epoch']} asked to stop: {f['reason']}"
        + (f" ({f['detail']})" if f.get("detail") else "")
    ),
    "StepsSaved": lambda f: f"job {f['job']} saved step {f['step']:,}",
    "AttemptEnded": _ended,
    "LeasesExtended": lambda f: f"leases of {len(f['attempts'])} attempts extended",
    "JobWaits": lambda f: f"job {f['job']} waits: {f['reason']}",
    "JobGivenUp": lambda f: f"job {f['job']} given up: {f['reason']}",
    "JobsArchived": lambda f: f"{_some(f['jobs'])} moved from memory to the table of finished jobs",
    "Audited": lambda f: f"refused {f['times']} x {f['who']}: {f['what']}",
    "RunStarted": lambda f: f"first servers are there: {len(f['config']['cluster']['servers'])}",
    "JobsSubmitted": lambda f: f"queue takes {_some(range(f['first_id'], f['first_id'] + len(f['gpus'])))}",
    "JobsRejected": lambda f: f"{_some(f['jobs'])} rejected: {f['reason']}",
    "JobsDropped": lambda f: f"{_some(f['jobs'])} out of the queue: {f['reason']}",
    "JobsFinished": lambda f: f"{_some(f['jobs'])} finished",
    "JobsParked": lambda f: f"{_some(f['jobs'])} set aside: {f['reason']}",
    "JobsReturned": lambda f: f"{_some(f['jobs'])} back in the queue",
    "Planned": lambda f: f"round {f['round']}: " + ("as before" if f.get("same") else f"{len(f['first'])} tasks"),
    "SolveFailed": lambda f: f"the policy failed, the last allocation stays: {f['reason']}",
    "PlacementFailed": lambda f: f"the mechanism failed, the last placement stays: {f['reason']}",
    "ClusterChanged": lambda f: f"{len(f['cluster']['servers'])} servers in use",
}
