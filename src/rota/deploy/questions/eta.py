"""When will a job start and end: if nobody else comes, and over sampled futures."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from rota.deploy.questions.fork import Deadline, Fork, Future
from rota.deploy.questions.futures import MOST_COMING, History, arrivals, with_lengths
from rota.deploy.questions.job_progress import Story
from rota.deploy.scheduler.job_kinds import can_run, kind_of

FUTURES = 20
"""Sampled at most."""
_FEWEST_FUTURES = 5
"""With fewer of them there is no band; with fewer than nine it is from the first to the last."""
_FEW_JOBS = 3
"""For so many jobs sampled futures go on until they end; for more only until they start."""
_LONGEST_ROUNDS = 20_000
"""Rounds that a simulation looks ahead at most."""
_MARGIN = 10.0
"""Sampled futures go so many times as far as the one in which nobody comes, if there is time ..."""
_AT_LEAST_ROUNDS = 30
"""... and so many rounds at least."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """Of one job; engine seconds, None where nobody can say."""

    job: int
    runs: bool
    start: float | None
    end: float | None
    starts: tuple[float, ...] = ()
    """In sampled futures, ascending; infinity: not as far as they go."""
    ends: tuple[float, ...] = ()
    naive: float | None = None
    """Jobs that wait before it, over the rate at which jobs started lately."""
    unknown: str = ""
    """Why there is no start, or no end."""
    lengths_unknown: int = 0
    """Jobs that run or wait, of which nobody knows how long they are; the estimate lets them run for ever."""

    def band(self, which: str) -> tuple[float, float, float] | None:
        """10th, 50th and 90th percentile of `starts` or `ends`."""
        values: Sequence[float] = getattr(self, which)
        if len(values) < _FEWEST_FUTURES:
            return None
        return quantile(values, 0.1), quantile(values, 0.5), quantile(values, 0.9)


def quantile(ascending: Sequence[float], part: float) -> float:
    """The value below which one more of them would be with that probability, between neighbours where it falls between.

    One more of n has n + 1 places among them, each as likely as any other: below the first one with 1 / (n + 1).
    """
    place = min(max(part * (len(ascending) + 1) - 1, 0.0), len(ascending) - 1.0)
    low = math.floor(place)
    high = math.ceil(place)
    if ascending[low] == ascending[high]:
        return ascending[low]
    return ascending[low] + (place - low) * (ascending[high] - ascending[low])


def estimates(
    fork: Fork,
    history: History,
    jobs: Collection[int],
    *,
    futures: int = FUTURES,
    cpu_s: float = math.inf,
    starts_only: bool = False,
) -> list[Estimate]:
    """Estimates of these jobs, which are not over; sampled futures as far as the CPU time goes.

    With `starts_only` nobody looks beyond the moment when all of them run, and most ends stay unknown.
    """
    began = time.process_time()
    wanted = set(jobs)
    alone = _alone(fork, wanted, starts_only=starts_only)
    samples = _sampled(fork, history, wanted, alone, futures, began + cpu_s) if futures else _Samples()
    unknown = sum(1 for fact in fork.facts.values() if fact.why_unknown)
    found = []
    for number in sorted(wanted):
        estimate = _estimate(fork, alone, number, unknown)
        starts = samples.starts(number)
        ends = samples.ends(number) if len(wanted) <= _FEW_JOBS or estimate.runs else ()
        naive = None if estimate.runs else naive_start(fork, history, number)
        found.append(replace(estimate, starts=() if estimate.runs else starts, ends=ends, naive=naive))
    return found


def _alone(fork: Fork, wanted: set[int], *, starts_only: bool) -> Future:
    """The future in which nobody else comes."""
    known = {number for number in wanted if not fork.facts[number].why_unknown}
    if starts_only:
        known = {number for number in known if fork.facts[number].runs}

    def told(story: Story) -> bool:
        return all(number in story.ends if number in known else number in story.starts for number in wanted)

    return fork.run(exact=True, until=fork.now + _LONGEST_ROUNDS * fork.setup.rules.round_s, finished=told)


@dataclass(frozen=True, slots=True)
class _Samples:
    """Futures that are as good as each other."""

    futures: tuple[Future, ...] = ()
    until: float = math.inf
    """How far all of them go, engine seconds."""

    def starts(self, number: int) -> tuple[float, ...]:
        """When a job starts, ascending; infinity: not as far as they go."""
        found = (future.story.starts.get(number, math.inf) for future in self.futures)
        return tuple(sorted(at if at <= self.until else math.inf for at in found))

    def ends(self, number: int) -> tuple[float, ...]:
        """When it ends, likewise."""
        found = (future.story.ends.get(number, math.inf) for future in self.futures)
        return tuple(sorted(at if at <= self.until else math.inf for at in found))


def _sampled(fork: Fork, history: History, wanted: set[int], alone: Future, futures: int, cpu_end: float) -> _Samples:
    """All futures go equally far: what one knows and another one does not would move the percentiles."""
    told = _all_told(fork, wanted)
    cpu_end = min(cpu_end, Deadline.at)
    until = _looked_at(fork, alone, 1.0)
    began = time.process_time()
    first, _ = _future(fork, history, 0, until, told)
    used_s = time.process_time() - began
    longest = _looked_at(fork, alone, _MARGIN)
    share_s = (cpu_end - began) / futures
    if used_s * (longest - fork.now) > share_s * (until - fork.now) and not told(first.story):
        longest = max(until, fork.now + (until - fork.now) * share_s / used_s)
    until = longest
    samples: list[Future] = []
    for seed in range(futures):
        if time.process_time() > cpu_end:
            break
        future, reached = _future(fork, history, seed, longest, told)
        if future.complete:
            samples.append(future)
            until = min(until, reached)
    return _Samples(tuple(samples), until)


def _all_told(fork: Fork, wanted: set[int]) -> Callable[[Story], bool]:
    """Whether a future has gone as far as anybody asked."""
    waiting = {number for number in wanted if not fork.facts[number].runs}
    to_the_end = wanted if len(wanted) <= _FEW_JOBS else wanted - waiting

    def told(story: Story) -> bool:
        return all(number in story.starts for number in waiting) and all(number in story.ends for number in to_the_end)

    return told


def _looked_at(fork: Fork, alone: Future, margin: float) -> float:
    """So many times as far as the future in which nobody comes, engine seconds."""
    seen = [*alone.story.starts.values(), *alone.story.ends.values()]
    last = max((at for at in seen if math.isfinite(at)), default=fork.now)
    return fork.now + max(margin * (last - fork.now), _AT_LEAST_ROUNDS * fork.setup.rules.round_s)


def _future(
    fork: Fork, history: History, seed: int, until: float, told: Callable[[Story], bool]
) -> tuple[Future, float]:
    """One future, and how far it could have gone: not beyond the last job that it has."""
    coming = arrivals(history, fork.now, until, seed)
    if len(coming) == MOST_COMING:
        until = float(coming.submitted[-1])
    return with_lengths(fork, history, seed).run(exact=False, until=until, arrivals=coming, finished=told), until


def _estimate(fork: Fork, alone: Future, number: int, unknown: int) -> Estimate:
    fact = fork.facts[number]
    start = alone.story.starts.get(number)
    end = alone.story.ends.get(number)
    why = fact.why_unknown
    if not fact.runs and start is None:
        why = _why_no_start(fork, alone, number, unknown)
    elif end is None and not why:
        why = _too_far(alone)
    return Estimate(
        job=number,
        runs=fact.runs,
        start=None if fact.runs else start,
        end=end,
        unknown=why,
        lengths_unknown=unknown,
    )


def _why_no_start(fork: Fork, alone: Future, number: int, unknown: int) -> str:
    job = None if fork.registry is None else fork.registry.live.get(number)
    if job is not None and job.held_by:
        return f"it is held; `rota release {number}` lets it start"
    if job is not None and number in fork.registry.queue.dependencies.dependents and alone.complete:  # type: ignore[union-attr]
        return "a job that it comes after does not end as things are; `rota why` says which"
    parked = number in fork.state.parked and number not in fork.returns
    fits = job is None or can_run(fork.setup.catalogue, kind_of(job.spec), fork.state.cluster)
    if parked or not fits:
        return "no server that is up could hold it; `rota why` says what would help"
    if not alone.complete:
        return _too_far(alone)
    if unknown:
        return f"it waits for jobs of which nobody knows how long they run ({unknown} of them run or wait)"
    return "it does not start as things are; `rota why` says what would help"


def _too_far(alone: Future) -> str:
    return f"later than engine second {alone.reached:.0f}, as far as there was time to look"


def naive_start(fork: Fork, history: History, number: int) -> float | None:
    """The estimate of a queue: jobs that wait before it, over the rate at which jobs started lately."""
    recent = [at for at in history.starts if at <= fork.now]
    if len(recent) < 2 or recent[-1] <= recent[0]:
        return None
    rate = (len(recent) - 1) / (fork.now - recent[0]) if fork.now > recent[0] else 0.0
    ahead = sum(1 for fact in fork.facts.values() if not fact.runs and fact.job < number)
    return fork.now + (ahead + 1) / rate if rate > 0 else None


def as_fields(fork: Fork, estimate: Estimate) -> dict[str, Any]:
    """An estimate as plain values: seconds from now, and rounds."""
    round_s = fork.setup.rules.round_s
    fields: dict[str, Any] = {
        "job": estimate.job,
        "running": estimate.runs,
        "start_in_s": _from(fork, estimate.start),
        "start_round": None if estimate.start is None else math.floor(estimate.start / round_s),
        "end_in_s": _from(fork, estimate.end),
        "start_band_s": _band(fork, estimate.band("starts")),
        "end_band_s": _band(fork, estimate.band("ends")),
        "futures": len(estimate.starts) or len(estimate.ends),
        "naive_start_in_s": _from(fork, estimate.naive),
        "unknown": estimate.unknown,
        "lengths_unknown": estimate.lengths_unknown,
    }
    return fields


def _from(fork: Fork, at: float | None) -> float | None:
    return None if at is None or math.isinf(at) else max(0.0, at - fork.now)


def _band(fork: Fork, band: tuple[float, float, float] | None) -> Mapping[str, float | None] | None:
    if band is None:
        return None
    return {name: _from(fork, at) for name, at in zip(("p10", "p50", "p90"), band, strict=True)}
