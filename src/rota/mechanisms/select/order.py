"""Realises a ranking: walk the queue, start what fits, let smaller jobs overtake one that does not.

A job stays on the type it ran on; otherwise it takes the fastest type with room (a policy that knows types) or the
type with the largest free part (one that does not).
"""

from __future__ import annotations

import math

import numpy as np

from rota import kernels
from rota.core.allocation import Allocation
from rota.core.arrays import IntArray, every, whole_zeros
from rota.core.horizon import UNTIL_JOBS_CHANGE, WITH_RANKING, Horizon
from rota.core.view import View
from rota.mechanisms.choice import Choice
from rota.mechanisms.dividing import Select


class Order(Select):
    """Selects down the order of a ranking policy."""

    def __init__(self, *, walks: bool = False) -> None:
        """`walks` says that the dividing half goes down the queue itself, because jobs may fail to fit."""
        self._walks = walks

    def choose(self, view: View, allocation: Allocation) -> Choice:
        """The jobs of the coming round."""
        order = allocation.order
        if order is None:
            raise ValueError("the order rule needs a ranking")
        if len(view.types) == 1:
            return self._one_type(view, allocation, order)
        return self._several_types(view, allocation, order)

    def _one_type(self, view: View, allocation: Allocation, order: IntArray) -> Choice:
        """By arrays. What the dividing half walks down is the queue itself."""
        known = allocation.jobs is view.jobs or (
            len(allocation.jobs) == len(view) and every(allocation.jobs == view.jobs)
        )
        if known:
            queue = order
        else:
            queue = view.position(allocation.jobs[order])
            queue = queue[queue >= 0]
        alone = allocation.traits.by_gpus_alone
        taken = queue if self._walks and not alone else _by_gpus(view, queue, int(view.capacity[0]))
        indifferent = not view.classes.configurations.sensitive and len(taken) == len(queue)
        return Choice(
            first=taken,
            type=whole_zeros(len(taken)),
            largest_first=alone,
            horizon=_horizon(allocation, indifferent=indifferent),
            arrivals_wait=_arrivals_wait(allocation),
        )

    def _several_types(self, view: View, allocation: Allocation, order: IntArray) -> Choice:
        free = view.capacity.tolist()
        last = _last_types(view)
        rates = view.classes.throughput
        wishes = [np.argsort(-row, kind="stable").tolist() for row in rates] if allocation.traits.aware else None
        sizes, classes = view.gpus.tolist(), view.job_class.tolist()
        able = (rates > 0).tolist()
        taken, kinds, refused = [], [], False
        spare = sum(free)
        queue = view.position(allocation.jobs[order])  # the order may be older than the view
        for job in queue[queue >= 0].tolist():
            if spare <= 0:
                refused = True
                break
            size, group = sizes[job], classes[job]
            fits = [t for t, room in enumerate(free) if room >= size and able[group][t]]
            if not fits:
                refused = True
                continue
            kind = _pick(fits, last[job], wishes[group] if wishes else None, free, view)
            free[kind] -= size
            spare -= size
            taken.append(job)
            kinds.append(kind)
        return Choice(
            first=np.array(taken, dtype=np.int64),
            type=np.array(kinds, dtype=np.int64),
            largest_first=allocation.traits.by_gpus_alone,
            horizon=_horizon(allocation, indifferent=not refused),
            arrivals_wait=_arrivals_wait(allocation),
        )


def _horizon(allocation: Allocation, *, indifferent: bool) -> Horizon:
    """As long as the ranking lasts; until jobs change if another order of the same jobs would choose the same."""
    if indifferent:
        return UNTIL_JOBS_CHANGE
    until = allocation.horizon.until
    return WITH_RANKING if until == -math.inf else UNTIL_JOBS_CHANGE.not_beyond(until)


def _arrivals_wait(allocation: Allocation) -> bool:
    return allocation.horizon.until == math.inf and not allocation.horizon.arrivals_end_it


def _by_gpus(view: View, queue: IntArray, free: int) -> IntArray:
    """Down the queue, who fits into the GPUs that are left; smaller jobs overtake larger ones."""
    if view.single_gpu:
        return queue[:free]
    taken = np.empty(len(queue), dtype=np.int64)
    return taken[: kernels.by_gpus(queue, view.gpus, taken, free)]


def _pick(fits: list[int], last: int, wish: list[int] | None, free: list[int], view: View) -> int:
    if last in fits:
        return last
    if wish is not None:
        return next(t for t in wish if t in fits)
    return max(fits, key=lambda t: (free[t] / float(view.capacity[t]), -t))


def _last_types(view: View) -> list[int]:
    last = np.full(len(view), -1, dtype=np.int64)
    if view.placement is not None and len(view.placement):
        at = view.position(view.placement.first)
        here = at >= 0
        last[at[here]] = view.placement.type[here]
    found: list[int] = last.tolist()
    return found
