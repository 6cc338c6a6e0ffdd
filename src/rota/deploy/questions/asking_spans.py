"""When jobs ask for GPUs: from submission to end, but not while held, nor before jobs that come first are over.

Otherwise a tenant would be entitled to GPUs, at the cost of all others, by jobs that nobody means to start.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from rota.deploy.scheduler.records import Job

HOLDS = ("JobHeld", "JobReleased")
"""Kinds of events that it reads."""

Span = tuple[float, float]


def asking_spans(jobs: Sequence[Job], events: Iterable[Mapping[str, Any]]) -> Iterator[tuple[Job, Span]]:
    """Engine seconds from and to which each of the jobs asks; infinity: it still does.

    A job that is not among `jobs` is taken to be over.
    """
    ends: dict[int, float] = {}
    for job in jobs:
        end = job.ended if job.over else math.inf
        ends[job.id] = max(end, ends.get(job.id, -math.inf))
        if job.array >= 0:  # the first job stands for all of them
            ends[job.array] = max(end, ends.get(job.array, -math.inf))
    held: dict[int, list[Mapping[str, Any]]] = {}
    for fields in events:
        if fields["event"] in HOLDS:
            held.setdefault(int(fields["job"]), []).append(fields)
    for job in jobs:
        before = (ends.get(number, -math.inf) for number in (*job.spec.after, *job.spec.after_any))
        begin = max((job.submitted, *before))
        end = job.ended if job.over else math.inf
        for free, until in _not_held(job, held.get(job.id, [])):
            span = (max(begin, free), min(end, until))
            if span[0] < span[1]:
                yield job, span


def _not_held(job: Job, events: Sequence[Mapping[str, Any]]) -> Iterator[Span]:
    """Spans in which nobody holds a job. What is known only of its release was held before."""
    if not events:
        never_released = job.over and job.spec.hold and job.started < 0
        if not (job.held_by or never_released):
            yield (-math.inf, math.inf)
        return
    free = math.inf if events[0]["event"] == "JobReleased" else -math.inf
    for fields in events:
        at = float(fields["at"])
        if fields["event"] == "JobReleased":
            free = min(free, at)
        else:
            yield (free, at)
            free = math.inf
    yield (free, math.inf)
