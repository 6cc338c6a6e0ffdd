"""Events of a deployment for people: one line each."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

from rota.core.lifecycle import AttemptOutcome
from rota.deploy.scheduler.records import to_zero_warning


def told(fields: Mapping[str, Any], begun: float | None, scale: float = 1.0) -> str:
    """`time  what`; `begun` is the wall time of engine second 0, if it is known."""
    at = float(fields.get("at", 0.0))
    when = f"{at:10,.0f} s" if begun is None else time.strftime("%m-%d %H:%M:%S", time.localtime(begun + at / scale))
    return f"{when}  {described(fields)}"


def described(fields: Mapping[str, Any]) -> str:
    """An event in words."""
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
    return f"job {f['job']} attempt {f['epoch']} {f['outcome']}{code}{detail}{_lost(f)}{_waited(f)}"


def _waited(f: Mapping[str, Any]) -> str:
    """How much of its time the training loop waited for data, if that was measured."""
    waits = {"preparation": float(f.get("prepare_s", 0.0)), "storage": float(f.get("storage_s", 0.0))}
    total_s = float(f.get("compute_s", 0.0)) + sum(waits.values())
    if total_s <= 0:
        return ""
    parts = " and ".join(f"{seconds / total_s:.0%} for {what}" for what, seconds in waits.items())
    return f"; of {total_s:,.0f} s it waited {parts}"


def _lost(f: Mapping[str, Any]) -> str:
    """The work that is lost with an attempt, and what to do if that happens again and again."""
    steps = int(f.get("lost_steps", 0))
    seconds = float(f.get("lost_s", 0.0))
    cut = f["outcome"] == AttemptOutcome.CUT_OFF.value
    if cut or not (steps or seconds):
        lost = ""
    else:
        what = f"{steps:,} steps" if steps else f"{seconds:,.0f} s of work"
        lost = f"; {what} lost"
    warning = to_zero_warning(int(f.get("times_to_zero", 0)), saves=cut)
    return lost + (f"; warning: {warning}" if warning else "")


def _some(jobs: Any) -> str:
    numbers = [str(n) for n in jobs]
    more = f" and {len(numbers) - 8} more" if len(numbers) > 8 else ""
    return f"job{'s' if len(numbers) > 1 else ''} {', '.join(numbers[:8])}{more}"


_WORDS: dict[str, Callable[[Mapping[str, Any]], str]] = {
    "ServiceStarted": lambda f: (
        f"scheduler started: {f['config']['policy']}, {f['config']['mechanism']}, time x {f['config']['time_scale']:g}"
    ),
    "JobAccepted": _accepted,
    "CancelAsked": lambda f: (
        f"job {f['job']} to be cancelled, by {f['by']}" + (f" ({f['reason']})" if f.get("reason") else "")
    ),
    "JobHeld": lambda f: f"job {f['job']} held, by {f['by']}",
    "JobReleased": lambda f: f"job {f['job']} released, by {f['by']}",
    "TimeLimitNear": lambda f: f"job {f['job']}: {f['left_s']:,.0f} s are left of its time limit",
    "ProfileWrong": lambda f: (
        f"job {f['job']} does {f['measured']:,.3g} steps/s on {f['type']}, and profile {f['profile']!r} says "
        f"{f['expected']:,.3g}: what was measured is used"
    ),
    "JobsForgotten": lambda f: f"{f['count']} jobs that were over for long were deleted",
    "CheckpointsClaimed": lambda f: f"checkpoints are in {f['folder']}; job numbers go on from {f['next_job']}",
    "NodeJoined": lambda f: f"node {f['node']} joined: {len(f['devices'])} x {f['type']}",
    "NodeLost": lambda f: f"node {f['node']} lost: {f['reason']}",
    "NodeTroubled": lambda f: f"node {f['node']}: {f['trouble'] or 'its trouble is over'}",
    "NodeDrained": lambda f: f"node {f['node']} {'drained' if f['drained'] else 'back in use'}, by {f['by']}",
    "NodeRemoved": lambda f: f"node {f['node']} removed, by {f['by']}",
    "AttemptStarted": lambda f: f"job {f['job']} attempt {f['epoch']} starts on {_parts(f['parts'])}",
    "AttemptResized": lambda f: f"job {f['job']} attempt {f['epoch']} gets other CPUs and memory",
    "AttemptStopping": lambda f: (
        f"job {f['job']} attempt {f['epoch']} asked to stop: {f['reason']}"
        + (f" ({f['detail']})" if f.get("detail") else "")
    ),
    "JobCanSave": lambda f: f"job {f['job']} can save: {f['how']}",
    "AttemptSaving": lambda f: (
        f"job {f['job']} attempt {f['epoch']} {'begins' if f['saving'] else 'ends'} writing a checkpoint"
    ),
    "StepsSaved": lambda f: f"job {f['job']} saved step {f['step']:,}",
    "AttemptEnded": _ended,
    "LeasesExtended": lambda f: f"leases of {len(f['attempts'])} attempts extended",
    "JobWaits": lambda f: f"job {f['job']} waits: {f['reason']}",
    "JobGivenUp": lambda f: f"job {f['job']} given up: {f['reason']}",
    "JobsArchived": lambda f: f"{_some(f['jobs'])} moved from memory to the table of finished jobs",
    "Audited": lambda f: f"refused {f['times']} x {f['who']}: {f['what']}",
    "SettingsChanged": lambda f: (
        f"settings changed, by {f['by']}: policy {f['config']['policy']}, mechanism {f['config']['mechanism']}"
    ),
    "SuccessionChanged": lambda f: (
        f"{f['standby']} stands by, in term {f['term']}"
        if f["standby"]
        else f"this scheduler is in charge from term {f['term']} on, and nobody stands by"
    ),
    "EventsLost": lambda f: (
        f"the newest events may be missing ({f['why']}): jobs are numbered from {f['next_job']:,} on, attempts from "
        f"{f['first_epoch']:,}"
    ),
    "ClockSet": lambda f: (
        f"the wall clock was set {'forward' if f['by_s'] > 0 else 'back'} by {abs(f['by_s']):,.0f} s"
        + ("" if f["running"] else " while no scheduler ran")
        + "; the scheduler's clock goes on as before"
    ),
    "RunStarted": lambda f: f"first servers are there: {len(f['config']['cluster']['servers'])}",
    "JobsSubmitted": lambda f: f"queue takes {_some(range(f['first_id'], f['first_id'] + len(f['gpus'])))}",
    "JobsRejected": lambda f: f"{_some(f['jobs'])} rejected: {f['reason']}",
    "JobsDropped": lambda f: f"{_some(f['jobs'])} out of the queue: {f['reason']}",
    "JobsFinished": lambda f: f"{_some(f['jobs'])} finished",
    "JobsPinned": lambda f: f"{_some(f['jobs'])} {'must not' if f['pinned'] else 'may'} be stopped for others",
    "JobsParked": lambda f: f"{_some(f['jobs'])} set aside: {f['reason']}",
    "JobsReturned": lambda f: f"{_some(f['jobs'])} back in the queue",
    "Planned": lambda f: f"round {f['round']}: " + ("as before" if f.get("same") else f"{len(f['first'])} tasks"),
    "SolveFailed": lambda f: f"the policy failed, the last allocation stays: {f['reason']}",
    "PlacementFailed": lambda f: f"the mechanism failed, the last placement stays: {f['reason']}",
    "ClusterChanged": lambda f: f"{len(f['cluster']['servers'])} servers in use",
}
