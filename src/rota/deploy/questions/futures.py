"""Sampled futures: who may still come, drawn from who came lately, and how long jobs may be that nobody measured.

Gaps between submissions and the jobs themselves are drawn with replacement from the recent history. That history is a
sample, too: how much work comes per second is known to some percent only, which matters much on a cluster that is
nearly full. So every future first draws a history of its own from the one that is known, as many gaps and jobs with
replacement, and then its arrivals from that: futures differ in rate and mix as much as is unknown about them. The same
numbers are drawn for the same history (seeds are 0, 1, 2, ...), so the same question has the same answer.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

from rota.core.jobs import Jobs
from rota.deploy.questions.facts import JobFacts
from rota.deploy.questions.fork import NOBODY_COMES, Fork, jobs_table
from rota.deploy.scheduler.job_kinds import JobKind, kind_of
from rota.deploy.scheduler.records import Job
from rota.deploy.scheduler.speed_names import belief_of, engine_profile

MOST_REMEMBERED = 2000
"""Submissions from which futures are drawn: the newest."""
MOST_COMING = 3000
"""Jobs that arrive in one future at most."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Submission:
    """A job that was submitted lately."""

    at: float
    profile: str
    gpus: int
    steps: float
    weight: float
    tenant: str
    kind: JobKind
    """Where it can run."""
    priority: int
    belief: str = ""
    """Among whose jobs its speed is learned; empty: it is not."""


@dataclass(frozen=True, slots=True, kw_only=True)
class History:
    """What happened lately, as far as it says something about what may come. Times are engine seconds."""

    submissions: tuple[Submission, ...]
    """The first ones first."""
    lengths: tuple[float, ...]
    """Seconds that jobs ran of which nobody had said how long they are."""
    starts: tuple[float, ...]
    """When jobs started lately, for the rate of service."""

    def gaps(self, now: float) -> list[float]:
        """Seconds between submissions, the time since the last one included."""
        times = [*(submission.at for submission in self.submissions), now]
        return [later - earlier for earlier, later in pairwise(times)]


def history_of(jobs: Iterable[Job]) -> History:
    """The recent history, from jobs in memory and in the archive."""
    newest = sorted(jobs, key=lambda job: job.id)[-MOST_REMEMBERED:]
    submissions = tuple(
        Submission(
            at=job.submitted,
            profile=engine_profile(job.spec),
            gpus=job.spec.gpus,
            steps=float(job.spec.expected_steps),
            weight=job.spec.weight,
            tenant=job.tenant,
            belief=belief_of(job.spec),
            kind=kind_of(job.spec),
            priority=job.spec.priority,
        )
        for job in newest
    )
    unsaid = [job for job in newest if job.spec.steps == 0 and job.over and job.started >= 0 and job.ended > 0]
    return History(
        submissions=submissions,
        lengths=tuple(sorted(job.ended - job.started for job in unsaid)),
        starts=tuple(sorted(job.started for job in newest if job.started >= 0)),
    )


def arrivals(history: History, now: float, until: float, seed: int) -> Jobs:
    """Jobs that arrive in one future, from `now` on."""
    gaps = history.gaps(now)
    if not gaps or max(gaps) <= 0:
        return NOBODY_COMES
    draw = random.Random(seed)
    gaps = draw.choices(gaps, k=len(gaps))
    likely = draw.choices(history.submissions, k=len(history.submissions))
    rows: list[Mapping[str, Any]] = []
    at = now + _rest_of_a_gap(gaps, draw)
    while at < until and len(rows) < MOST_COMING:
        like = draw.choice(likely)
        rows.append(
            {
                "profile": like.profile,
                "gpus": like.gpus,
                "steps": like.steps,
                "submitted": at,
                "weight": like.weight,
                "tenant": like.tenant,
                "belief": like.belief,
                "kind": like.kind,
                "priority": like.priority,
            }
        )
        at += draw.choice(gaps)
    return jobs_table(rows) if rows else NOBODY_COMES


def _rest_of_a_gap(gaps: Sequence[float], draw: random.Random) -> float:
    """Seconds until the next submission at a moment like any other: long gaps have more moments than short ones."""
    if max(gaps) <= 0:
        return 0.0
    (gap,) = draw.choices(gaps, weights=gaps)
    return gap * draw.random()


def with_lengths(fork: Fork, history: History, seed: int) -> Fork:
    """The fork with a length for jobs that have none: of those that ran at least as long, one."""
    if not history.lengths:
        return fork
    draw = random.Random(-1 - seed)
    facts = {
        number: _of_some_length(fork, fact, history.lengths, draw) if math.isinf(fact.total) else fact
        for number, fact in fork.facts.items()
    }
    return replace(fork, facts=facts)


def _of_some_length(fork: Fork, fact: JobFacts, lengths: Sequence[float], draw: random.Random) -> JobFacts:
    ran_s = fork.now - fact.turn_began if fact.runs else 0.0
    longer = [length for length in lengths if length > ran_s]
    if not longer:
        return fact
    attempt = None if fork.registry is None else fork.registry.live[fact.job].attempt
    rate = fact.gpus if attempt is None or attempt.rate <= 0 else attempt.rate
    return replace(fact, total=fact.done + (draw.choice(longer) - ran_s) * rate, why_unknown="")
