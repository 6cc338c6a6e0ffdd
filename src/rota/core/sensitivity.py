"""How the speed of a job depends on the CPUs and the memory beside its GPUs.

A table over (CPUs per GPU, GB per GPU), relative to the speed that the catalogue calls the rate of the job. Between
measured points it is interpolated; outside them, or beside a missing cell, there is no answer: nothing is
extrapolated.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rota.core.arrays import FloatArray, frozen
from rota.core.errors import ProfileMissing
from rota.core.tolerance import TOLERANCE


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Sensitivity:
    """Measured relative speeds of one profile on one type."""

    profile: str
    cpus: FloatArray
    """CPUs per GPU at which it was measured, ascending."""
    memory_gb: FloatArray
    """GB per GPU at which it was measured, ascending."""
    speed: FloatArray
    """[cpus, memory] speed relative to the rate; NaN where it was not measured."""
    ideal_cpus: float
    """CPUs per GPU beyond which nothing is gained."""
    ideal_memory_gb: float
    speedup: float
    """Speed with the ideal CPUs and memory, relative to the rate."""

    def __post_init__(self) -> None:
        """Measurements are not written to."""
        for column in (self.cpus, self.memory_gb, self.speed):
            frozen(column)

    def at(self, cpus: float, memory_gb: float) -> float:
        """Relative speed with so much per GPU; more than was measured counts as the most that was.

        Raises ProfileMissing below the smallest measured amount and beside a cell that was not measured.
        """
        row, up = self._between(self.cpus, cpus, "CPUs")
        column, right = self._between(self.memory_gb, memory_gb, "GB")
        weights = np.array([[(1 - up) * (1 - right), (1 - up) * right], [up * (1 - right), up * right]])
        rows = (row, min(row + 1, len(self.cpus) - 1))
        columns = (column, min(column + 1, len(self.memory_gb) - 1))
        cells = self.speed[np.ix_(rows, columns)]
        used = weights > 0
        if np.isnan(cells[used]).any():
            raise ProfileMissing(
                f"profile {self.profile!r} was not measured with {cpus:g} CPUs and {memory_gb:g} GB per GPU; "
                f"add the missing cells to its catalogue"
            )
        return float((cells[used] * weights[used]).sum())

    def _between(self, axis: FloatArray, value: float, what: str) -> tuple[int, float]:
        """The point at or below the value, and how far it is on the way to the next."""
        if value < axis[0] * (1 - TOLERANCE):
            raise ProfileMissing(
                f"profile {self.profile!r} was measured from {axis[0]:g} {what} per GPU up, not with {value:g}; "
                f"give servers more, or measure it and add it to its catalogue"
            )
        value = min(max(value, float(axis[0])), float(axis[-1]))
        low = int(np.searchsorted(axis, value, side="right")) - 1
        if low == len(axis) - 1:
            return low, 0.0
        return low, (value - float(axis[low])) / float(axis[low + 1] - axis[low])
