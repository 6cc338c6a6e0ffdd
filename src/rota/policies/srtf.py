"""Shortest remaining time first (SRTF).

key_j = seconds job j still has to run = step time on its best type x steps left / speed of its last round (relative to
that with the proportional share of CPUs and memory). Short jobs never wait for long ones, which minimises mean
completion time on one machine; long jobs may starve (see the rule `starvation_s`). `srtf` does not look at GPU types;
under `srtf-perf` each type goes to the jobs that lose most without it, and a job moves when that pays
(mechanisms/select/type_choice.py).
"""

from __future__ import annotations

from rota.core.allocation import Allocation, Traits
from rota.core.arrays import FloatArray
from rota.core.view import View
from rota.policies.ranking import ranked
from rota.policies.registry import policies


@policies.register(
    "srtf-perf", summary="Shortest remaining time first; each type goes to who loses most without it.", aware=True
)
@policies.register(
    "srtf",
    summary="The job that is nearest to its end first, on any type with room.",
    aware=False,
)
class Srtf:
    """The job that is nearest to its end first."""

    def __init__(self, *, aware: bool = False) -> None:
        self._traits = Traits(aware=aware)

    def key(self, view: View) -> FloatArray:
        """Seconds left."""
        return view.remaining_s

    def allocate(self, view: View) -> Allocation:
        """The queue."""
        return ranked(view, self.key(view), linear_key=self.key, traits=self._traits)
