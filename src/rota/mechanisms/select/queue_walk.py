"""One round of the fraction rule: the queue of each type, best first, as far as its GPUs go.

Jobs that share GPUs with nobody are here; `sharing` adds pairs to the queues.
"""

from __future__ import annotations

import numpy as np

from rota import kernels
from rota.core.allocation import Allocation, Traits
from rota.core.arrays import BoolArray, FloatArray, IntArray, trues
from rota.core.horizon import EVERY_ROUND, UNTIL_JOBS_CHANGE, UNTIL_JOBS_LEAVE, Horizon
from rota.core.rules import Rules
from rota.core.view import Accounts, View
from rota.mechanisms.choice import Choice


class QueueWalk:
    """One pass over the queue of each type."""

    def __init__(self, view: View, accounts: Accounts, allocation: Allocation, rules: Rules) -> None:
        self.view = view
        self.accounts = accounts
        self.allocation = allocation
        self.rules = rules
        self.runs = accounts.runs
        self.wants = accounts.wants
        self.share = accounts.share
        self.received = accounts.received
        self.unchosen: BoolArray = trues(len(view))
        self.remaining = len(view)
        self.left: list[int] = view.capacity.tolist()
        """GPUs of each type that nobody has taken yet."""
        self.refused = False
        """Whether somebody with a share found no room."""
        self.first: list[IntArray] = []
        self.second: list[IntArray | None] = []
        self.gpu_types: list[int] = []

    def one_type(self, gpu_type: int) -> None:
        """Serve the options with a share on this type, then those without."""
        if self.left[gpu_type] <= 0 or self.remaining == 0:
            return
        self.serve(gpu_type)
        if self.left[gpu_type] > 0 and self.remaining and self.allocation.traits.fills:
            self.fill(gpu_type)

    def priority(self, gpu_type: int) -> FloatArray:
        """[J] share over fraction of the time received; 0 without a share or speed."""
        priority = kernels.priority(self.share[gpu_type], self.received[gpu_type], self.accounts.type_time[gpu_type])
        return np.where(self.runs[gpu_type], priority, 0.0)

    def serve(self, gpu_type: int) -> None:
        """Jobs with a share on this type, the largest priority first."""
        wanting = (self.wants[gpu_type] & self.unchosen).nonzero()[0]
        share = self.share[gpu_type][wanting]
        received = self.received[gpu_type][wanting]
        priority = kernels.priority(share, received, self.accounts.type_time[gpu_type])
        self._take_fitting(wanting[_ranked(self.view, self.accounts, gpu_type, wanting, -priority)], gpu_type)

    def fill(self, gpu_type: int) -> None:
        """Left-over GPUs go to jobs without a share here, most owed first."""
        idle = self.idle(gpu_type)
        if len(idle):
            refused = self.refused
            owed = self.accounts.owed[gpu_type, idle]
            order = _waiting(self.view, gpu_type, idle, owed, self.allocation.traits)
            self._take_fitting(idle[order], gpu_type)
            self.refused = refused

    def idle(self, gpu_type: int) -> IntArray:
        """Jobs that could run on this type, have no share of it and no place yet."""
        idle: IntArray = (self.unchosen & self.runs[gpu_type] & ~self.wants[gpu_type]).nonzero()[0]
        return idle

    def _take_fitting(self, ranked: IntArray, gpu_type: int) -> None:
        free = self.left[gpu_type]
        taken = []
        gpus = self.view.gpus[ranked].tolist()
        for row, size in zip(ranked.tolist(), gpus, strict=True):
            if size <= free:
                free -= size
                taken.append(row)
            else:
                self.refused = True
        self._take(np.array(taken, dtype=np.int64), gpu_type, self.left[gpu_type] - free)

    def _take(self, rows: IntArray, gpu_type: int, gpus: int) -> None:
        count = len(rows)
        if count == 0:
            return
        self.unchosen[rows] = False
        self.remaining -= count
        self.left[gpu_type] -= gpus
        self.first.append(rows)
        self.second.append(None)
        self.gpu_types.append(gpu_type)

    def all_types(self, order: list[int]) -> None:
        """One queue over all types (no pairs): the sort key leads, the order of types breaks ties."""
        rows = []
        gpu_types = []
        for gpu_type in order:
            able = np.flatnonzero(self.runs[gpu_type])
            rows.append(able)
            gpu_types.append(np.full(len(able), gpu_type))
        row = np.concatenate(rows)
        type_of = np.concatenate(gpu_types)
        priority = np.stack([self.priority(gpu_type) for gpu_type in range(len(self.left))])
        keys = (-self.accounts.share[type_of, row], -self.accounts.owed[type_of, row], -priority[type_of, row])
        for entry in np.lexsort(keys).tolist():
            job = int(row[entry])
            gpu_type = int(type_of[entry])
            if not self.unchosen[job] or (priority[gpu_type, job] <= 0 and not self.allocation.traits.fills):
                continue
            size = int(self.view.gpus[job])
            if size <= self.left[gpu_type]:
                self._take(np.array([job]), gpu_type, size)
        self.refused = True

    def choice(self) -> Choice:
        """What was taken, type by type."""
        horizon = fraction_horizon(self.allocation, crowded=self.refused)
        if not self.first:
            none = np.zeros(0, dtype=np.int64)
            return Choice(first=none, type=none, horizon=horizon)
        first = np.concatenate(self.first)
        gpu_type = np.repeat(np.array(self.gpu_types, dtype=np.int64), [len(part) for part in self.first])
        second = None
        if any(part is not None for part in self.second):
            both = zip(self.first, self.second, strict=True)
            second = np.concatenate([np.full(len(f), -1) if part is None else part for f, part in both])
        wasted = newcomers_among(self.rules, self.accounts, first, second)
        return Choice(first=first, second=second, type=gpu_type, wasted=wasted, horizon=horizon)


def fraction_horizon(allocation: Allocation, *, crowded: bool) -> Horizon:
    """Until jobs change where everybody with a share has a place; newcomers matter if they may fill or share."""
    traits = allocation.traits
    if crowded or not traits.aware:  # for policies that see no types their order is drawn anew in every round
        return EVERY_ROUND
    base = UNTIL_JOBS_CHANGE if traits.fills or traits.packs else UNTIL_JOBS_LEAVE
    return base.not_beyond(allocation.horizon.until)


def newcomers_among(rules: Rules, accounts: Accounts, first: IntArray, second: IntArray | None) -> BoolArray | None:
    """Options with a member that the allocation in force does not know; None if there is none or it does not matter."""
    if not (rules.newcomers_waste_slots and accounts.newcomers):
        return None
    promised = accounts.promised
    late = promised[first] == 0
    if second is not None:
        late |= (second >= 0) & (promised[second] == 0)
    return late if late.any() else None


def _ranked(view: View, accounts: Accounts, gpu_type: int, rows: IntArray, behind: FloatArray) -> IntArray:
    """Positions within `rows`, best first; ties by time owed, share and age, or by scattered numbers."""
    scatters = view.previous is not None and view.previous.traits.scatters_ties
    return kernels.ranked(
        behind, view.jobs[rows], accounts.owed[gpu_type][rows], accounts.share[gpu_type][rows], scatters=scatters
    )


def _waiting(view: View, gpu_type: int, idle: IntArray, owed: FloatArray, traits: Traits) -> IntArray:
    """Jobs without a share here, in the order in which they may fill."""
    # Not the rates of all classes: a refused one may have no speed at all.
    rates = view.classes.throughput[view.job_class[idle]] if traits.fills_by_speed else None
    return kernels.waiting(gpu_type, owed, rates)
