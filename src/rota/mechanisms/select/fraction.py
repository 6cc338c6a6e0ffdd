"""Gavel's realisation of shares (OSDI'20, section 5): serve who has the largest share / fraction of time received.

Per type, options are sorted by (priority, time owed, share), largest first, and taken while GPUs last; smaller ones
may overtake one that does not fit. priority = share / (seconds received / seconds received by all options on this
type since the last allocation). Options without a share have priority 0 and take what is left over, unless the
policy does not fill. What is accidental in the published simulator is a field of `Rules`.
"""

from __future__ import annotations

import numpy as np

from rota import kernels
from rota.core.allocation import Allocation
from rota.core.arrays import some
from rota.core.rules import Rules
from rota.core.view import Accounts, View
from rota.mechanisms.choice import Choice
from rota.mechanisms.dividing import Select
from rota.mechanisms.select.queue_walk import QueueWalk, fraction_horizon, newcomers_among
from rota.mechanisms.select.sharing import SharingWalk
from rota.mechanisms.select.types import TypeOrder


class Fraction(Select):
    """Selects by share over fraction of time received."""

    def __init__(self, rules: Rules, seed: int = 0) -> None:
        self._rules = rules
        self._order = TypeOrder(rules.type_order, seed)

    def choose(self, view: View, allocation: Allocation) -> Choice:
        """The options of the coming round."""
        accounts = view.accounts
        if accounts is None:
            raise ValueError("the fraction rule needs accounts of received time")
        traits = allocation.traits
        order = self._order.preferred(view) if traits.aware else self._order.shuffled(view, view.round)
        if view.single_gpu and not traits.packs and not self._rules.global_queue:
            return self._single_gpus(view, accounts, allocation, order)
        shares_gpus = traits.packs or traits.pairs_fill
        walk = (SharingWalk if shares_gpus else QueueWalk)(view, accounts, allocation, self._rules)
        if self._rules.global_queue:
            walk.all_types(order)
        else:
            for gpu_type in order:
                walk.one_type(gpu_type)
        return walk.choice()

    def ignores_arrivals(self, view: View, allocation: Allocation) -> bool:
        """Whether newcomers leave the last placement as it is: they have no share, so at most they fill.

        Then they take GPUs without running on them; nobody gives way where all of them fit, or where only jobs with a
        share run.
        """
        traits = allocation.traits
        last = view.placement
        accounts = view.accounts
        if traits.packs or last is None or accounts is None:
            return False
        if not traits.fills:
            return True
        if not (self._rules.newcomers_waste_slots and view.single_gpu):
            return False
        running = np.bincount(last.type, minlength=len(view.capacity))
        newcomers = len(view) - int(np.count_nonzero(accounts.promised))
        crowded = running + newcomers > view.capacity
        if not some(crowded):
            return True
        rows = view.jobs.searchsorted(last.first)
        return not some(crowded[last.type] & ~accounts.wants[last.type, rows])

    def _single_gpus(self, view: View, accounts: Accounts, allocation: Allocation, order: list[int]) -> Choice:
        """The same for jobs of one GPU each, nobody sharing: each type takes its best, without a walk."""
        traits = allocation.traits
        classes = view.classes
        rows = np.empty(len(view), dtype=np.int64)
        gpu_types = np.empty(len(view), dtype=np.int64)
        flags = kernels.FILLS * traits.fills | kernels.BY_SPEED * traits.fills_by_speed
        if view.previous is not None and view.previous.traits.scatters_ties:
            flags |= kernels.SCATTERS
        chosen, crowded = kernels.choose_ones(
            np.array(order),
            view.capacity,
            classes.runs_on,
            view.job_class,
            view.jobs,
            accounts.share,
            accounts.received,
            accounts.owed,
            classes.throughput,
            accounts.type_time,
            rows,
            gpu_types,
            flags,
        )
        first = rows[:chosen]
        return Choice(
            first=first,
            type=gpu_types[:chosen],
            wasted=newcomers_among(self._rules, accounts, first, None),
            horizon=fraction_horizon(allocation, crowded=crowded),
        )
