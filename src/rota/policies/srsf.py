"""Shortest remaining service first (SRSF; Gu et al., Tiresias, NSDI 2019).

key_j = seconds left x GPUs of job j: as SRTF, but a job with many GPUs counts as the larger one it is.
"""

from __future__ import annotations

from rota.core.allocation import Allocation
from rota.core.arrays import FloatArray
from rota.core.view import View
from rota.policies.ranking import ranked
from rota.policies.registry import policies


@policies.register("srsf")
class Srsf:
    """The job with the fewest GPU-seconds left first."""

    def key(self, view: View) -> FloatArray:
        """GPU-seconds left."""
        return view.remaining_s * view.gpus

    def allocate(self, view: View) -> Allocation:
        """The queue."""
        return ranked(view, self.key(view), linear_key=self.key)
