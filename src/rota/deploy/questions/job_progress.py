"""How far the jobs of a fork are, and what happens to them."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from rota.core.cluster import Cluster
from rota.core.events import Event, ProgressMade
from rota.core.jobs import Jobs
from rota.core.placement import Placement
from rota.core.tolerance import TOLERANCE
from rota.deploy.questions.facts import JobFacts

RateOf = Callable[[int], float]
"""Steps per second of a job that runs."""


@dataclass(slots=True)
class JobNow:
    """A job of the fork."""

    facts: JobFacts
    done: float
    saved: float
    """Steps that are in a checkpoint."""
    credited: float
    """Steps that the engine knows of."""
    began: float
    """When its turn began, if it has one."""
    next_save: float = math.inf

    @property
    def left(self) -> float:
        """Steps still to do."""
        return max(self.facts.total - self.done, 0.0)

    def save(self) -> None:
        """Everything but a step under way is in a checkpoint now."""
        self.saved = max(self.saved, math.floor(self.done + TOLERANCE) if self.facts.save_every_s else self.done)

    def save_if_due(self, now: float, rate_of: RateOf, *, exact: bool) -> None:
        """Take a checkpoint into account that it made by now; without `exact` it makes them all the time."""
        facts = self.facts
        if facts.why_unknown:
            return
        if not exact or facts.save_every_s == 0:
            self.saved = max(self.saved, min(self.done, facts.total))
        elif self.done >= facts.total:
            self.saved = facts.total
        elif self.next_save <= now:
            times = math.floor((now - self.next_save) / facts.save_every_s)
            at = self.next_save + times * facts.save_every_s
            since = self.done - rate_of(facts.job) * (now - at)
            self.saved = max(self.saved, math.floor(since + TOLERANCE))
            self.next_save = at + facts.save_every_s

    def keeps_place(self, now: float, rate_of: RateOf) -> bool:
        """Whether it must not be preempted now (`scheduler/preemption.py`)."""
        facts = self.facts
        if not facts.can_save or now < self.began + facts.least_turn_s:
            return True
        rate = rate_of(facts.job) if facts.cost_s > 0 else 0.0
        return rate > 0 and self.left / rate < facts.cost_s


@dataclass(slots=True)
class Story:
    """What happened to jobs in a fork; engine seconds."""

    starts: dict[int, float] = field(default_factory=dict)
    """First order to start after the fork."""
    ends: dict[int, float] = field(default_factory=dict)
    gpu_s: dict[int, float] = field(default_factory=dict)
    """GPU-seconds held after the fork."""
    places: dict[int, dict[str, int]] = field(default_factory=dict)
    """GPUs by server, at that start."""


def servers_of(placement: Placement, row: int, cluster: Cluster) -> dict[str, int]:
    """GPUs by server of one task."""
    slots = slice(int(placement.slot_start[row]), int(placement.slot_start[row + 1]))
    servers = placement.slot_server[slots].tolist()
    gpus = placement.slot_gpus[slots].tolist()
    return {cluster.ordered[server].id: count for server, count in zip(servers, gpus, strict=True)}


def job_now(facts: JobFacts, credited: float, now: float) -> JobNow:
    """A job as it is at the moment of the fork, or when it arrives."""
    next_save = facts.saved_at + facts.save_every_s if facts.runs and facts.save_every_s else math.inf
    return JobNow(facts, facts.done, facts.saved, credited, facts.turn_began if facts.runs else now, next_save)


def fact_of_arrival(jobs: Jobs, row: int, number: int) -> JobFacts:
    """Facts of a job that arrives in a sampled future."""
    return JobFacts(
        job=number,
        tenant=jobs.tenants[int(jobs.tenant[row])],
        gpus=int(jobs.gpus[row]),
        weight=float(jobs.weight[row]),
        submitted=float(jobs.submitted[row]),
        total=float(jobs.total_steps[row]),
        done=0.0,
        saved=0.0,
        runs=False,
    )


def credits_of(news: list[JobNow], now: float) -> list[Event]:
    """The engine hears of steps that it does not know of."""
    if not news:
        return []
    news.sort(key=lambda job: job.facts.job)
    steps = np.array([job.saved - job.credited for job in news])
    for job in news:
        job.credited = job.saved
    return [ProgressMade(at=now, jobs=np.array([job.facts.job for job in news]), steps=steps)]
