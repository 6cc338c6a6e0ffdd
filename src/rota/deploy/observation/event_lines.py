"""Events as lines of a structured log: what happened to which job of which tenant, on which server, in which round."""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Mapping
from typing import Any

from rota.core.events import Planned
from rota.deploy import events as deploy_events
from rota.deploy.scheduler.records import Job
from rota.deploy.scheduler.registry import Registry
from rota.deploy.scheduler.stage_times import Stage
from rota.deploy.structured_logs import about

log = logging.getLogger("rota.events")

_SENTENCES: Mapping[type, str] = {
    deploy_events.ServiceStarted: "the scheduler starts",
    deploy_events.ClockSet: "the wall clock was set",
    deploy_events.JobAccepted: "job %(job)s was submitted",
    deploy_events.CancelAsked: "job %(job)s is to be cancelled",
    deploy_events.JobHeld: "job %(job)s is held back",
    deploy_events.JobReleased: "job %(job)s may go on",
    deploy_events.JobGivenUp: "job %(job)s is given up: %(reason)s",
    deploy_events.JobWaits: "job %(job)s waits: %(reason)s",
    deploy_events.AttemptStarted: "job %(job)s starts on %(node)s",
    deploy_events.AttemptStopping: "job %(job)s is asked to stop: %(reason)s",
    deploy_events.AttemptEnded: "attempt %(epoch)s of job %(job)s ended: %(outcome)s",
    deploy_events.NodeJoined: "server %(node)s joined",
    deploy_events.NodeLost: "server %(node)s is lost: %(reason)s",
    deploy_events.NodeDrained: "server %(node)s is drained or not any more",
    deploy_events.NodeTroubled: "server %(node)s: %(trouble)s",
    deploy_events.NodeRemoved: "server %(node)s is forgotten",
}
"""Events that are worth a line. Others happen in every round, or are logged where they are noticed."""
_SHOWN = (
    "at", "by", "epoch", "reason", "detail", "outcome", "exit_code", "lost_steps", "lost_s", "resume_step",
    "drained", "trouble", "type", "by_s", "generation",
)  # fmt: skip


class EventLines:
    """Writes lines. Called by the observer's thread, so a slow terminal holds up nobody who decides."""

    def __init__(self) -> None:
        self._round = -1

    def copied(self, registry: Registry) -> None:
        """Nothing is remembered."""

    def took(self, stage: Stage, seconds: float) -> None:
        """Durations are for metrics."""

    def happens(self, event: Any, registry: Registry) -> None:
        """Write a line, if the event is worth one."""
        if isinstance(event, Planned):
            self._round = event.plan.round
        sentence = _SENTENCES.get(type(event))
        if sentence is None:
            return
        fields = self._fields(event, registry)
        log.info("%s", sentence % {**_UNKNOWN, **fields}, extra=about(event=type(event).__name__, **fields))

    def ended(self, job: Job) -> None:
        """A job is over."""
        sentence = f"job {job.id} is over: {job.phase.value}" + (f" ({job.reason})" if job.reason else "")
        fields = {"job": job.id, "tenant": job.tenant, "phase": job.phase.value, "round": self._round}
        log.info("%s", sentence, extra=about(event="JobEnded", reason=job.reason, **fields))

    def _fields(self, event: Any, registry: Registry) -> dict[str, Any]:
        known = {field.name for field in dataclasses.fields(event)}
        fields: dict[str, Any] = {"round": self._round}
        if "job" in known:
            fields |= {"job": event.job, "tenant": _tenant(event, registry)}
        if "node" in known:
            fields["node"] = event.node
        if isinstance(event, deploy_events.AttemptStarted):
            nodes = [part.node for part in event.parts]
            fields |= {"node": ", ".join(nodes), "gpus": sum(len(part.devices) for part in event.parts)}
        for name in _SHOWN:
            if name in known:
                value = getattr(event, name)
                fields[name] = getattr(value, "value", value)
        return fields


_UNKNOWN = dict.fromkeys(("job", "node", "reason", "epoch", "outcome", "trouble"), "")


def _tenant(event: Any, registry: Registry) -> str:
    if isinstance(event, deploy_events.JobAccepted):
        return event.spec.tenant or "default"
    job = registry.jobs.get(event.job)
    return "" if job is None else job.tenant
