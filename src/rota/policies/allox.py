"""Least total completion time by matching jobs to positions in worker queues (AlloX, EuroSys'20, as in Gavel).

A job that runs the k-th from the end on a worker of type j delays k jobs, itself included, by R_i / T_ij; the cost of
that position is k R_i / T_ij + t_i with t_i the time waited. The cheapest matching of jobs to (worker, position) is
found; on each worker the job that runs first gets a share of 1, all others wait. A job that has a share of 1 keeps
it. Single-GPU jobs only. `alpha` limits the matching to the longest-waiting max(alpha m, free workers) jobs.
"""

from __future__ import annotations

import numpy as np

from rota.core.allocation import Allocation, Traits
from rota.core.arrays import FloatArray, IntArray
from rota.core.errors import ConfigError
from rota.core.view import View
from rota.opt.matching import load_matching
from rota.policies.registry import policies

_NO_SPEED = 1e-10


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
        frozen = old.sum(axis=1) == 1.0
        share = np.where(frozen[:, None], old, 0.0)
        waiting = (~frozen).nonzero()[0]
        if len(waiting):
            free = view.capacity - share.sum(axis=0).astype(np.int64)
            workers = int(free.sum())
            waiting = waiting[np.argsort(-view.age[waiting], kind="stable")]
            waiting = waiting[: max(int(self._alpha * len(view)), workers)]
            if workers > 0 and len(waiting):
                self._match(view, share, waiting, free)
        return Allocation(jobs=view.jobs, types=view.types, share=share, traits=Traits())

    def _match(self, view: View, share: FloatArray, jobs: IntArray, free: IntArray) -> None:
        rate = view.throughput[jobs]
        duration = view.steps_left[jobs][:, None] / np.where(rate == 0, _NO_SPEED, rate)
        kind, worker, place = _positions(free, len(jobs))
        cost = place * duration[:, kind] + view.age[jobs][:, None]
        rows, columns = self._cheapest(cost)
        first: dict[int, tuple[int, int]] = {}
        for row, column in sorted(zip(rows.tolist(), columns.tolist(), strict=True), key=lambda rc: int(place[rc[1]])):
            first[int(worker[column])] = (row, int(kind[column]))
        for row, chosen in first.values():
            share[jobs[row], chosen] = 1.0


def _shares_so_far(view: View) -> FloatArray:
    """[J, T] what the last allocation gave to each job; 0 for jobs it did not know."""
    if view.accounts is not None:
        return view.accounts.share.T
    previous = view.previous
    if previous is None or len(previous.jobs) == 0:
        return np.zeros((len(view), len(view.types)))
    at = np.minimum(previous.jobs.searchsorted(view.jobs), len(previous.jobs) - 1)
    known = previous.jobs[at] == view.jobs
    return np.where(known[:, None], previous.share[at], 0.0)


def _positions(free: IntArray, count: int) -> tuple[IntArray, IntArray, FloatArray]:
    """Queue positions that a cheapest matching of `count` jobs can use: type, worker and place from the end.

    Of a type with more free workers than jobs, as many as there are jobs suffice; and queues of one type are never
    longer than jobs / workers, because the last job of a longer one would move to a shorter one.
    """
    used = np.minimum(free, count)
    kind = np.repeat(np.arange(len(free)), used)
    worker = np.arange(len(kind))
    longest = np.ceil(count / np.maximum(used, 1)).astype(np.int64)[kind]
    blocks = [(worker[longest >= k], k) for k in range(1, int(longest.max(initial=0)) + 1)]
    at = np.concatenate([w for w, _ in blocks])
    place = np.concatenate([np.full(len(w), float(k)) for w, k in blocks])
    return kind[at], at, place
