"""Realises a ranking: walk the queue, start what fits, let smaller jobs overtake one that does not.

On several types the order says who runs; where is settled by `type_choice`.
"""

from __future__ import annotations

import math

import numpy as np

from rota import kernels
from rota.core.allocation import Allocation
from rota.core.arrays import IntArray, every, whole_zeros
from rota.core.horizon import EVERY_ROUND, UNTIL_JOBS_CHANGE, WITH_RANKING, Horizon
from rota.core.rules import Rules
from rota.core.view import View
from rota.mechanisms.choice import Choice
from rota.mechanisms.dividing import Abilities, Select
from rota.mechanisms.select.type_choice import TypesByChance, TypesBySpeed


class Order(Select):
    """Selects down the order of a ranking policy."""

    def __init__(self, rules: Rules | None = None, seed: int = 0, abilities: Abilities | None = None) -> None:
        """`abilities` are those of the dividing half.

        If it walks, it goes down the queue itself, because jobs may fail to fit; if it divides by need, jobs that come
        first may get more CPUs and memory.
        """
        does = abilities or Abilities()
        self._walks = does.walks
        self._by_need = does.by_need
        self._by_speed = TypesBySpeed(rules or Rules())
        self._by_chance = TypesByChance(seed)

    def choose(self, view: View, allocation: Allocation) -> Choice:
        """The jobs of the coming round."""
        order = allocation.order
        if order is None:
            raise ValueError("the order rule needs a ranking")
        queue = _queue(view, allocation, order)
        if len(view.types) == 1:
            return self._one_type(view, allocation, queue)
        return self._several_types(view, allocation, queue)

    def _one_type(self, view: View, allocation: Allocation, queue: IntArray) -> Choice:
        """By arrays. What the dividing half walks down is the queue itself."""
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

    def _several_types(self, view: View, allocation: Allocation, queue: IntArray) -> Choice:
        rule = self._by_speed if allocation.traits.aware else self._by_chance
        chosen = rule.choose(view, queue)
        all_run = len(chosen.jobs) == len(queue)  # then each stays where it is, whatever the order
        horizon = _horizon(allocation, indifferent=all_run and not self._decided_by_order(view))
        return Choice(
            first=chosen.jobs,
            type=chosen.types,
            largest_first=allocation.traits.by_gpus_alone,
            horizon=horizon if all_run or chosen.settled else EVERY_ROUND,
            arrivals_wait=chosen.settled and _arrivals_wait(allocation),
        )

    def _decided_by_order(self, view: View) -> bool:
        """Whether the dividing half would make something else of another order of the same jobs."""
        return self._walks or (self._by_need and view.classes.configurations.sensitive)


def _queue(view: View, allocation: Allocation, order: IntArray) -> IntArray:
    """The order as positions in the view, which may be newer."""
    known = allocation.jobs is view.jobs or (len(allocation.jobs) == len(view) and every(allocation.jobs == view.jobs))
    if known:
        return order
    queue = view.position(allocation.jobs[order])
    return queue[queue >= 0]


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
