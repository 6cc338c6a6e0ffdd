"""What the selecting half hands to the dividing half."""

from __future__ import annotations

from dataclasses import dataclass

from rota.core.arrays import BoolArray, FloatArray, IntArray


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
    wish: IntArray | None = None
    """The configuration that the policy wants for each option, or -1; None if it has no wishes."""
    largest_first: bool = False
    """Large jobs are placed before small ones where nobody can fail to fit."""
    arrivals_last: bool = False
    """Whoever arrives comes after all that are there."""
    steady: bool = False
    """The same would be chosen again until a job arrives or leaves or the shares change."""

    def __len__(self) -> int:
        return len(self.first)
