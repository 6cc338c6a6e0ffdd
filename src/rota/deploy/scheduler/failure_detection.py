"""Nodes that are silent for too long, and jobs that make no step.

Time in which the scheduler itself did not listen counts for nobody's silence (`own_stalls`).

Pure: registry and heartbeats are read, not changed.
"""

from __future__ import annotations

from rota.core.lifecycle import StopReason
from rota.deploy.events import AttemptStopping, NodeLost
from rota.deploy.scheduler.heartbeats import Heartbeats
from rota.deploy.scheduler.leases import leases_over
from rota.deploy.scheduler.options import Timing
from rota.deploy.scheduler.records import Attempt, Job
from rota.deploy.scheduler.registry import Registry


class FailureDetector:
    """Draws conclusions from silence."""

    def __init__(self, registry: Registry, heartbeats: Heartbeats, timing: Timing) -> None:
        self._registry = registry
        self._heartbeats = heartbeats
        self._timing = timing

    def silent_nodes(self) -> set[str]:
        """Nodes that were not heard of for too long, given up or not: nothing new starts there."""
        return {node for node in self._registry.nodes if self._is_silent(node)}

    def lost_nodes(self, now: float) -> list[NodeLost]:
        """Silent nodes that have to be given up, as the leases of everything on them have run out."""
        silent = [name for name, node in self._registry.nodes.items() if not node.lost and self._is_silent(name)]
        over = [name for name in silent if leases_over(self._registry, name, now)]
        return [
            NodeLost(at=now, node=name, reason=f"silent for {self._heartbeats.silent_s(name):.0f} s") for name in over
        ]

    def hung_attempts(self, now: float) -> list[AttemptStopping]:
        """Attempts that made no step for longer than their job allows."""
        return [
            AttemptStopping(
                at=now,
                job=job.id,
                epoch=job.attempt.epoch,
                reason=StopReason.HUNG,
                detail=f"no step for {job.spec.hung_after_s:g} s",
            )
            for job in self._registry.running.values()
            if job.attempt is not None and self._hangs(job, job.attempt)
        ]

    def _is_silent(self, node: str) -> bool:
        return self._heartbeats.unanswered_s(node) > self._timing.dead_after_s

    def _hangs(self, job: Job, attempt: Attempt) -> bool:
        if job.spec.hung_after_s <= 0 or attempt.stopping:
            return False
        return self._heartbeats.idle_s((job.id, attempt.epoch), attempt.nodes) > job.spec.hung_after_s
