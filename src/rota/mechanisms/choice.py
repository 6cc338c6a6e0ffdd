"""What the selecting half hands to the dividing half."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from rota.core.allocation import Wishes
from rota.core.arrays import BoolArray, FloatArray, IntArray
from rota.core.horizon import EVERY_ROUND, UNTIL_JOBS_LEAVE, Horizon


@dataclass(slots=True, kw_only=True)
class Choice:
    """Options chosen for one round, as columns of positions into `view.jobs`. Never changed after it is made."""

    first: IntArray
    type: IntArray
    second: IntArray | None = None
    """Position of the partner, or -1; None when nobody shares."""
    wasted: BoolArray | None = None
    """Chosen options that take GPUs without running on them (an accident of the Gavel artifact)."""
    fraction: FloatArray | None = None
    wishes: Wishes | None = None
    """What the policy wants jobs to hold; None if it has no wishes."""
    wish: IntArray | None = None
    """For each option a row of the menu of `wishes`, or -1."""
    largest_first: bool = False
    """Large jobs are placed before small ones where nobody can fail to fit."""
    horizon: Horizon = EVERY_ROUND
    """How long the same would be chosen."""
    arrivals_wait: bool = False
    """Whoever arrives comes after all that are there: on a full cluster arrivals change nothing."""

    def __len__(self) -> int:
        return len(self.first)

    def horizon_with(self, free: int) -> Horizon:
        """How long a placement holds that leaves so many GPUs free."""
        return UNTIL_JOBS_LEAVE if self.arrivals_wait and free == 0 else self.horizon

    def rows(self, which: IntArray) -> Choice:
        """Some of the options."""
        return replace(
            self,
            first=self.first[which],
            type=self.type[which],
            second=None if self.second is None else self.second[which],
            wasted=None if self.wasted is None else self.wasted[which],
        )


def nobody_chosen() -> Choice:
    """A choice of no job."""
    none = np.zeros(0, dtype=np.int64)
    return Choice(first=none, type=none)


def at_positions(choice: Choice, positions: IntArray) -> Choice:
    """A choice among some jobs, as one among all: `positions` says where they are."""
    second = choice.second
    if second is not None:
        second = np.where(second >= 0, positions[second], -1)
    return replace(choice, first=positions[choice.first], second=second)


def joined(one: Choice, two: Choice) -> Choice:
    """Two choices of different jobs."""
    second = None
    if one.second is not None or two.second is not None:
        columns = [np.full(len(c), -1, dtype=np.int64) if c.second is None else c.second for c in (one, two)]
        second = np.concatenate(columns)
    wasted = None
    if one.wasted is not None or two.wasted is not None:
        flags = [np.zeros(len(c), dtype=np.bool_) if c.wasted is None else c.wasted for c in (one, two)]
        wasted = np.concatenate(flags)
    return replace(
        one,
        first=np.concatenate([one.first, two.first]),
        second=second,
        wasted=wasted,
        type=np.concatenate([one.type, two.type]),
    )
