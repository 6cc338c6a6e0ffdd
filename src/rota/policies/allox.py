"""Least total completion time by matching jobs to positions in worker queues (AlloX, EuroSys'20, as in Gavel).

A job that runs the k-th from the end on a worker of type j delays k jobs, itself included, by R_i / T_ij; the cost of
that position is k R_i / T_ij + t_i with t_i the time waited. The cheapest matching of jobs to (worker, position) is
found; on each worker the job that runs first gets a share of 1, all others wait. A job that has a share of 1 keeps
it. Where the matrix of costs would have more than four million entries (about 1,150 jobs on three types), the same
program is solved by a method made for it (`kernels/queues.py`): 10,000 jobs in seconds and a few megabytes.
Single-GPU jobs only. `alpha` limits the matching to the longest-waiting max(alpha m, free workers) jobs.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from rota import kernels
from rota.core.allocation import Allocation, Traits
from rota.core.arrays import FloatArray, IntArray
from rota.core.errors import ConfigError
from rota.core.horizon import UNTIL_JOBS_CHANGE
from rota.core.view import View
from rota.opt.matching import load_matching
from rota.policies.registry import policies

_NO_SPEED = 1e-10
_LARGEST_MATRIX = 4_000_000
"""Entries of a matrix of costs that is still written down. Of equally cheap matchings it decides which one is found,
and up to here it is the one of the published simulator."""
_TRAITS = Traits()


@policies.register("allox")
class AlloX:
    """Least total completion time by a min-cost matching of jobs to queue positions; single-GPU jobs."""

    def __init__(self, alpha: float = 1.0) -> None:
        self._alpha = alpha
        self._cheapest = load_matching()

    def allocate(self, view: View) -> Allocation:
        """A share of 1 for the job that runs first on each worker."""
        if not view.single_gpu and len(view) and view.gpus.max() > 1:
            job = int(view.jobs[int(np.argmax(view.gpus > 1))])
            raise ConfigError(
                f"allox handles single-GPU jobs only; job {job} asks for {int(view.gpus.max())} GPUs. "
                "Use another policy, e.g. max-min-fairness-perf."
            )
        old = _shares_so_far(view)
        frozen = np.add.reduce(old) == 1.0
        share = np.where(frozen, old, 0.0)
        waiting = (~frozen).nonzero()[0]
        if len(waiting):
            free = view.capacity - np.add.reduce(share, axis=1).astype(np.int64)
            workers = sum(free.tolist())
            if len(waiting) > 1:
                waiting = waiting[(-view.age[waiting]).argsort(kind="stable")]
            waiting = waiting[: max(int(self._alpha * len(view)), workers)]
            if workers > 0 and len(waiting):
                self._match(view, share, waiting, free)
        return Allocation(horizon=UNTIL_JOBS_CHANGE, jobs=view.jobs, types=view.types, share=share.T, traits=_TRAITS)

    def _match(self, view: View, share: FloatArray, jobs: IntArray, free: IntArray) -> None:
        rate = view.classes.throughput[view.job_class[jobs]]
        left = view.total_steps[jobs] - view.steps_done[jobs]
        duration = left[:, None] / np.where(rate == 0, _NO_SPEED, rate)
        usable = tuple(np.minimum(free, len(jobs)).tolist())
        if len(jobs) * _spots_needed(usable, len(jobs)) > _LARGEST_MATRIX:
            _queue_up(share, jobs, duration, usable)
            return
        spots = _spots(usable, len(jobs))
        cost = spots.place * duration[:, spots.gpu_type] + (view.now - view.submitted[jobs])[:, None]
        rows, columns = self._cheapest(cost)
        first: dict[int, tuple[float, int, int]] = {}
        gpu_types, workers, places = spots.listed
        for row, column in zip(rows.tolist(), columns.tolist(), strict=True):
            worker = workers[column]
            place = places[column]
            if worker not in first or place > first[worker][0]:
                first[worker] = (place, row, gpu_types[column])
        for _, row, gpu_type in first.values():
            if rate[row, gpu_type] > 0:  # otherwise it only had to be matched with somebody, and waits
                share[gpu_type, jobs[row]] = 1.0


def _queue_up(share: FloatArray, jobs: IntArray, duration: FloatArray, workers_of: tuple[int, ...]) -> None:
    """The same without a matrix. Of jobs that may be the first of a worker at equal cost, the shortest are."""
    free = np.array(workers_of, dtype=np.int64)
    order = (-duration[:, free > 0].min(axis=1)).argsort(kind="stable")
    gpu_type = np.empty(len(jobs), dtype=np.int64)
    place = np.empty(len(jobs), dtype=np.int64)
    kernels.queue_up(duration, free, order, gpu_type, place)
    for number, workers in enumerate(workers_of):
        mine = (gpu_type == number).nonzero()[0]
        first = np.lexsort((duration[mine, number], -place[mine]))[:workers]
        share[number, jobs[mine[first]]] = 1.0


def _spots_needed(workers: tuple[int, ...], count: int) -> int:
    """How many positions `_spots` would have."""
    return sum(some * math.ceil(count / some) for some in workers if some)


def _shares_so_far(view: View) -> FloatArray:
    """[T, J] what the last allocation gave to each job; 0 for jobs it did not know."""
    if view.accounts is not None:
        return view.accounts.share
    previous = view.previous
    if previous is None or len(previous.jobs) == 0:
        return np.zeros((len(view.types), len(view)))
    at = np.minimum(previous.jobs.searchsorted(view.jobs), len(previous.jobs) - 1)
    known = previous.jobs[at] == view.jobs
    return np.where(known, previous.share[at].T, 0.0)


@dataclass(frozen=True, slots=True, eq=False)
class _Spots:
    """Queue positions that a matching can use: type, worker and place from the end."""

    gpu_type: IntArray
    place: FloatArray
    listed: tuple[list[int], list[int], list[float]]
    """Types, workers and places once more, for a walk over the matched."""


@lru_cache(maxsize=256)
def _spots(workers: tuple[int, ...], count: int) -> _Spots:
    """The positions that a cheapest matching of `count` jobs to so many workers by type can use.

    Of a type with more free workers than jobs, as many as there are jobs suffice; and queues of one type are never
    longer than jobs / workers, because the last job of a longer one would move to a shorter one.
    """
    used = np.array(workers, dtype=np.int64)
    gpu_type = np.repeat(np.arange(len(used)), used)
    worker = np.arange(len(gpu_type))
    longest = np.ceil(count / np.maximum(used, 1)).astype(np.int64)[gpu_type]
    blocks = [(worker[longest >= k], k) for k in range(1, int(longest.max(initial=0)) + 1)]
    at = np.concatenate([w for w, _ in blocks])
    place = np.concatenate([np.full(len(w), float(k)) for w, k in blocks])
    return _Spots(gpu_type[at], place, (gpu_type[at].tolist(), at.tolist(), place.tolist()))
