"""What the selecting half hands to the dividing half."""

from __future__ import annotations

from dataclasses import dataclass

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
