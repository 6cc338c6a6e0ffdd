"""Which events of the journal others can be told of, under which names, and what is told.

One event may be about several jobs; each is told by itself. What is about a job says its tenant, and is filtered by it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Any

from rota.core.lifecycle import AttemptOutcome, JobPhase, StopReason
from rota.deploy.event_text import described

KINDS: Mapping[str, str] = {
    "job-submitted": "a job was accepted",
    "job-started": "an attempt of a job starts",
    "job-preempted": "a job is asked to save and make room, or to move",
    "attempt-failed": "an attempt failed, hung, was killed or was lost with its server; the job may be tried again",
    "job-finished": "a job did all its steps",
    "job-failed": "a job is given up",
    "job-cancelled": "somebody cancelled a job",
    "job-held": "somebody holds a job back",
    "job-released": "... and lets it go on",
    "time-limit-near": "a job that runs will soon have run for as long as it may (--time-limit)",
    "time-limit-over": "... and is asked to save and stop for good",
    "profile-wrong": "a job is faster or slower than its profile says; what was measured is used from then on",
    "node-joined": "a server registered",
    "node-lost": "a server was not heard of for too long",
    "node-drained": "an operator keeps jobs away from a server",
    "node-undrained": "... and lets them come again",
    "node-removed": "an operator let a lost server be forgotten",
    "node-troubled": "a server says that nothing new can start there, e.g. because its disk is full",
    "node-recovered": "... and that it can again",
    "decision-failed": "the policy or the mechanism failed, or was late; the last decision stays",
    "settings-changed": "an administrator set policy, mechanism, rules or tenants while it runs, or took that back",
    "scheduler-started": "the scheduler came up",
    "scheduler-took-over": "this scheduler is in charge in the place of another one",
    "standby-came": "another scheduler stands by for this one",
    "events-lost": "the newest events may be missing, after a restore or a takeover",
    "clock-set": "somebody set the wall clock of the scheduler's machine",
    "call-refused": "a connection or call was refused (bounded: see the audit trail)",
}
"""Kinds of notifications, with what they mean."""

_STOPS: Mapping[str, str] = {
    StopReason.PREEMPTED.value: "job-preempted",
    StopReason.MOVED.value: "job-preempted",
    StopReason.TIME_LIMIT.value: "time-limit-over",
}
"""Reasons for which an attempt is asked to stop; others are told by another event, or were just asked for."""
_WELL = frozenset(outcome.value for outcome in AttemptOutcome if outcome.well) | {AttemptOutcome.CUT_OFF.value}
_EVENT_NAME = re.compile(r'^\{"event":\s?"(\w+)"')
_LONGEST_TEXT = 2_000
"""Characters of a reason or detail."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobFacts:
    """What is known of a job beside its event."""

    tenant: str
    name: str = ""
    final_phase: JobPhase | None = None
    """How it was decided to end before the engine heard of it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Notification:
    """Something to be told."""

    event: int
    """Number of the event in the journal."""
    kind: str
    at: float
    """Engine seconds."""
    job: int | None = None
    tenant: str = ""
    """Empty: it is about no job, or nobody knows whose it was."""
    node: str = ""
    sentence: str = ""
    detail: Mapping[str, Any]

    def key(self, journal: str) -> str:
        """The same for the same notification, however often it is sent, over restarts too."""
        return f"{journal}:{self.event}" + ("" if self.job is None else f":{self.job}")

    def body(self, journal: str, wall_s: float) -> bytes:
        """As it is sent; `wall_s` is the wall time of `at`."""
        moment = datetime.fromtimestamp(wall_s, timezone.utc).isoformat(timespec="milliseconds")
        fields: dict[str, Any] = {
            "id": self.key(journal),
            "event": self.event,
            "kind": self.kind,
            "time": moment.replace("+00:00", "Z"),
            "scheduler_s": self.at,
            "message": self.sentence,
        }
        if self.job is not None:
            fields |= {"job": self.job, "tenant": self.tenant}
        if self.node:
            fields["node"] = self.node
        return json.dumps({**fields, "detail": dict(self.detail)}, separators=(",", ":")).encode()


Fields = Mapping[str, Any]
Facts = Callable[[Sequence[int]], Mapping[int, JobFacts]]


def event_name(body: str) -> str:
    """Name of an event from the beginning of its line, without reading all of it."""
    found = _EVENT_NAME.match(body)
    return "" if found is None else found[1]


def jobs_of(fields: Fields) -> list[int]:
    """Jobs that an event is about."""
    if isinstance(fields.get("job"), int):
        return [int(fields["job"])]
    return [int(job) for job in fields.get("jobs", ())] if fields.get("event") in _OF_SEVERAL else []


def notifications_of(number: int, fields: Fields, facts: Mapping[int, JobFacts]) -> list[Notification]:
    """What is to be told about an event; nothing about most of them."""
    kind_of = _KIND_OF.get(str(fields.get("event")))
    kind = "" if kind_of is None else kind_of(fields)
    if not kind:
        return []
    at = float(fields.get("at", 0.0))
    detail = _detail(fields)
    node = _node_of(fields)
    jobs = jobs_of(fields)
    if not jobs:
        return [
            Notification(event=number, kind=kind, at=at, node=node, sentence=_short(described(fields)), detail=detail)
        ]
    told: list[Notification] = []
    for job in jobs:
        known = facts.get(job)
        if known is None or not _told_before(fields, known):
            tenant = "" if known is None else known.tenant
            named = {**detail, "name": known.name} if known is not None and known.name else detail
            sentence = _short(described({**fields, "jobs": [job]}))
            told.append(
                Notification(
                    event=number, kind=kind, at=at, job=job, tenant=tenant, node=node, sentence=sentence, detail=named
                )
            )
    return told


def _told_before(fields: Fields, known: JobFacts) -> bool:
    """Whether the end of a job was told when it was decided: the engine hears of it at the end of the round."""
    if fields["event"] == "JobsDropped":
        return known.final_phase is not None
    return fields["event"] == "JobsFinished" and known.final_phase in {JobPhase.FAILED, JobPhase.CANCELLED}


def _detail(fields: Fields) -> dict[str, Any]:
    return {name: _short(fields[name]) for name in _DETAILS if fields.get(name) not in (None, "")}


def _node_of(fields: Fields) -> str:
    if fields["event"] == "AttemptStarted":
        return ", ".join(str(part["node"]) for part in fields.get("parts", ()))
    return str(fields.get("node", ""))


def _short(value: Any) -> Any:
    if isinstance(value, str) and len(value) > _LONGEST_TEXT:
        return value[:_LONGEST_TEXT] + " ..."
    return value


_DETAILS = (
    "by", "reason", "detail", "epoch", "outcome", "exit_code", "lost_steps", "lost_s", "resume_step", "trouble", "type",
    "by_s", "who", "what", "times", "generation", "left_s", "profile", "expected", "measured", "error", "term",
    "standby", "why", "next_job", "first_epoch",
)  # fmt: skip
_OF_SEVERAL = frozenset({"JobsFinished", "JobsDropped", "JobsRejected"})

_KIND_OF: Mapping[str, Callable[[Fields], str]] = {
    "ServiceStarted": lambda _: "scheduler-started",
    "ClockSet": lambda _: "clock-set",
    "JobAccepted": lambda _: "job-submitted",
    "CancelAsked": lambda _: "job-cancelled",
    "JobGivenUp": lambda _: "job-failed",
    "JobsRejected": lambda _: "job-failed",
    "JobsDropped": lambda _: "job-failed",
    "JobsFinished": lambda _: "job-finished",
    "AttemptStarted": lambda _: "job-started",
    "AttemptStopping": lambda f: _STOPS.get(str(f.get("reason")), ""),
    "AttemptEnded": lambda f: "" if f.get("outcome") in _WELL else "attempt-failed",
    "JobHeld": lambda _: "job-held",
    "JobReleased": lambda _: "job-released",
    "TimeLimitNear": lambda _: "time-limit-near",
    "ProfileWrong": lambda _: "profile-wrong",
    "SettingsChanged": lambda _: "settings-changed",
    "SuccessionChanged": lambda f: "standby-came" if f.get("standby") else "scheduler-took-over",
    "EventsLost": lambda _: "events-lost",
    "NodeJoined": lambda _: "node-joined",
    "NodeLost": lambda _: "node-lost",
    "NodeDrained": lambda f: "node-drained" if f.get("drained") else "node-undrained",
    "NodeRemoved": lambda _: "node-removed",
    "NodeTroubled": lambda f: "node-troubled" if f.get("trouble") else "node-recovered",
    "SolveFailed": lambda _: "decision-failed",
    "PlacementFailed": lambda _: "decision-failed",
    "Audited": lambda _: "call-refused",
}
"""From events of the journal to kinds; empty: not told."""

TOLD = frozenset(_KIND_OF)
"""Events of the journal that may be told."""
