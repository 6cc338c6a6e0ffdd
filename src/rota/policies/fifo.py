"""First in, first out, on whatever type has room.

Jobs are served in order of arrival; a smaller job may overtake one that does not fit at the moment. Types are not
distinguished: a job takes any free GPU, drawn by the seed; `fifo-perf` takes the fastest. Ties by id. (The published
Gavel simulator gives out one type without limit; under its preset this one does, too: fifo_overfilling.py.)
"""

from __future__ import annotations

from rota.core.allocation import Allocation, Traits
from rota.core.arrays import FloatArray
from rota.core.horizon import UNTIL_JOBS_LEAVE
from rota.core.view import View
from rota.policies.fifo_overfilling import FifoOverfilling
from rota.policies.ranking import ranked
from rota.policies.registry import policies

_BLIND = Traits(aware=False)


@policies.register("fifo", from_run=("seed", "overfills"))
class Fifo:
    """Jobs in order of arrival, on any type with room; smaller ones may overtake.

    Parameters: overfills - as in Gavel's published simulator, which gives out one type without limit (a rule of its
    preset); seed - of the draws in that case.
    """

    def __init__(self, seed: int = 0, *, overfills: bool = False) -> None:
        self._overfilling = FifoOverfilling(seed) if overfills else None

    def key(self, view: View) -> FloatArray:
        """Arrival."""
        return view.submitted

    def allocate(self, view: View) -> Allocation:
        """The queue."""
        if self._overfilling is not None:
            return self._overfilling.allocate(view)
        return ranked(view, self.key(view), horizon=UNTIL_JOBS_LEAVE, traits=_BLIND, urgent_first=False)
