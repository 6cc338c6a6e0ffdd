"""Shortest remaining time first (SRTF).

key_j = seconds job j still has to run = step time x steps left / speed of its last round. Short jobs never wait for
long ones, which minimises mean completion time on one machine; long jobs may starve (see the rule `starvation_s`).
"""

from __future__ import annotations

from rota.core.allocation import Allocation
from rota.core.arrays import FloatArray
from rota.core.view import View
from rota.policies.ranking import ranked
from rota.policies.registry import policies


@policies.register("srtf")
class Srtf:
    """The job that is nearest to its end first."""

    def key(self, view: View) -> FloatArray:
        """Seconds left."""
        return view.remaining_s

    def allocate(self, view: View) -> Allocation:
        """The queue."""
        return ranked(view, self.key(view), linear_key=self.key)
