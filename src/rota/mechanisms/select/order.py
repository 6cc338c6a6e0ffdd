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

    def __init__(self, *, walks: bool = False, by_need: bool = False) -> None:
        """What the dividing half does.

        `walks`: it goes down the queue itself, because jobs may fail to fit; `by_need`: jobs that come first may get
        more CPUs and memory.
        """
        self._walks = walks
        self._by_need = by_need

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
        sensitive = view.classes.configurations.sensitive
        indifferent = not sensitive and not self._walks and len(taken) == len(queue)
        return Choice(
            first=taken,
            type=whole_zeros(len(taken)),
            largest_first=alone,
            horizon=_horizon(allocation, indifferent=indifferent),
            arrivals_wait=_arrivals_wait(allocation),
        )

    def _decided_by_order(self, view: View) -> bool:
        """Whether the dividing half would make something else of another order of the same jobs."""
        return self._walks or (self._by_need and view.classes.configurations.sensitive)

    def _several_types(self, view: View, allocation: Allocation, order: IntArray) -> Choice:
        queue = view.position(allocation.jobs[order])  # the order may be older than the view
        chosen, refused = _down_the_queue(view, queue[queue >= 0].tolist(), aware=allocation.traits.aware)
        return Choice(
            first=np.array(list(chosen), dtype=np.int64),
            type=np.array(list(chosen.values()), dtype=np.int64),
            largest_first=allocation.traits.by_gpus_alone,
            horizon=_horizon(allocation, indifferent=not refused and not self._decided_by_order(view)),
            arrivals_wait=_arrivals_wait(allocation),
        )


def _down_the_queue(view: View, queue: list[int], *, aware: bool) -> tuple[dict[int, int], bool]:
    """The type of every job that fits into the GPUs that are left, in this order; whether one did not fit."""
    free = view.capacity.tolist()
    spare = sum(free)
    last = _last_types(view)
    rates = view.classes.throughput
    able = (rates > 0).tolist()
    wishes = [np.argsort(-row, kind="stable").tolist() for row in rates] if aware else None
    sizes = view.gpus.tolist()
    classes = view.job_class.tolist()
    chosen: dict[int, int] = {}
    refused = False
    for job in queue:
        if spare <= 0:
            return chosen, True
        size = sizes[job]
        group = classes[job]
        fits = [t for t, room in enumerate(free) if room >= size and able[group][t]]
        if not fits:
            refused = True
            continue
        gpu_type = _pick(fits, last[job], wishes[group] if wishes else None, free, view)
        free[gpu_type] -= size
        spare -= size
        chosen[job] = gpu_type
    return chosen, refused


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
    last_types: list[int] = last.tolist()
    return last_types
