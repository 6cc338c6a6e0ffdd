"""Jobs that wait although their GPUs are idle, because CPUs or memory are short."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from rota.core.arrays import BoolArray, IntArray
from rota.core.events import (
    Event,
    JobsDropped,
    JobsFinished,
    JobsRejected,
    JobsSubmitted,
    Planned,
    RoundsRan,
)


class Waiting:
    """Observes a run: GPUs that idle beside jobs that would fit, and the longest wait of a job."""

    def __init__(self, mechanism: str, gpus: int) -> None:
        self._mechanism = mechanism
        self._gpus = gpus
        self._size: dict[int, int] = {}
        self._since: dict[int, float] = {}
        """When each waiting job arrived or was stopped."""
        self._running: IntArray = np.zeros(0, dtype=np.int64)
        self._marked: BoolArray = np.zeros(256, dtype=np.bool_)
        """By id; nobody is, between two uses."""
        self._busy = 0
        self._now = 0.0
        self._idle_gpu_s = 0.0
        self._hungry_s = 0.0
        self._longest = (0.0, -1)
        """Seconds and job."""

    def observe(self, event: Event) -> None:
        """Take an event into account; events come in the order in which they happened."""
        handler = self.handler(type(event))
        if handler is not None:
            handler(event)

    def handler(self, kind: type) -> Callable[[Any], None] | None:
        """The part of `observe` for events of a kind."""
        if kind in (JobsFinished, JobsDropped, JobsRejected):
            return self._gone
        if kind is JobsSubmitted:
            return self._submitted
        if kind is Planned:
            return self._planned
        return self._ran if kind is RoundsRan else None

    def _submitted(self, event: JobsSubmitted) -> None:
        self._now = event.at
        gpus = event.jobs.gpus.tolist()
        submitted = event.jobs.submitted.tolist()
        for job, (size, at) in enumerate(zip(gpus, submitted, strict=True), event.first_id):
            self._size[job] = size
            self._since[job] = at
        while event.first_id + len(event.jobs) > len(self._marked):
            self._marked = np.concatenate([self._marked, self._marked])

    def _gone(self, event: JobsFinished | JobsDropped | JobsRejected) -> None:
        for job in event.jobs.tolist():
            self._size.pop(job, None)
            self._end(job, event.at)

    def _planned(self, event: Planned) -> None:
        self._now = event.at
        placement = event.plan.placement
        last = self._running
        members = placement.first
        if placement.shared:
            members = np.concatenate([members, placement.second[placement.second >= 0]])
        self._running = members
        self._busy = int(np.add.reduce(placement.gpus))
        if len(members) == len(self._size):  # nobody waits
            for job in list(self._since):
                self._end(job, event.at)
            return
        for job in self._without(members, last):
            self._end(job, event.at)
        for job in self._without(last, members):
            if job in self._size:
                self._since[job] = event.at

    def _without(self, jobs: IntArray, others: IntArray) -> list[int]:
        """Those who are not among the others."""
        self._marked[others] = True
        remaining: list[int] = jobs[~self._marked[jobs]].tolist()
        self._marked[others] = False
        return remaining

    def _ran(self, event: RoundsRan) -> None:
        self._now = event.at
        idle = self._gpus - self._busy
        waiting = (job for job, at in self._since.items() if at <= event.start)
        if idle > 0 and any(self._size[job] <= idle for job in waiting):
            self._idle_gpu_s += idle * (event.at - event.start)
            self._hungry_s += event.at - event.start

    def _end(self, job: int, now: float) -> None:
        since = self._since.pop(job, None)
        if since is not None and now - since > self._longest[0]:
            self._longest = (now - since, job)

    def saved(self) -> dict[str, Any]:
        """Plain values for a checkpoint."""
        return dict(self.__dict__)

    def restore(self, saved: dict[str, Any]) -> None:
        """Go on from a checkpoint."""
        self.__dict__.update(saved)

    def remarks(self) -> list[str]:
        """One sentence if GPUs were idle beside waiting jobs."""
        if self._hungry_s <= 0:
            return []
        still_waiting = [(self._now - at, job) for job, at in self._since.items()]
        seconds, job = max([self._longest, *still_waiting])
        mean = self._idle_gpu_s / self._hungry_s
        hours = self._hungry_s / 3600
        left = f"{self._mechanism} left {mean:.1f} GPUs idle on average"
        idle = f"{left} for {hours:.1f} h while jobs waited"
        return [f"{idle} that asked for no more; job {job} waited longest ({seconds / 3600:.1f} h)"]
