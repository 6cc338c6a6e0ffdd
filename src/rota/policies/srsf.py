"""Shortest remaining service first (SRSF; Gu et al., Tiresias, NSDI 2019).

key_j = seconds left x GPUs of job j: as SRTF, but a job with many GPUs counts as the larger one it is.
`srsf` does not look at GPU types, `srsf-perf` does.
"""

from __future__ import annotations

from rota.core.allocation import Allocation, Traits
from rota.core.arrays import FloatArray
from rota.core.view import View
from rota.policies.ranking import ranked
from rota.policies.registry import policies


@policies.register(
    "srsf-perf", summary="Shortest remaining service first; each type goes to who loses most without it.", aware=True
)
@policies.register(
    "srsf",
    summary="The job with the fewest GPU-seconds left first, on any type with room.",
    aware=False,
)
class Srsf:
    """The job with the fewest GPU-seconds left first."""

    def __init__(self, *, aware: bool = False) -> None:
        self._traits = Traits(aware=aware)

    def key(self, view: View) -> FloatArray:
        """GPU-seconds left."""
        return view.remaining_s * view.gpus

    def allocate(self, view: View) -> Allocation:
        """The queue."""
        return ranked(view, self.key(view), linear_key=self.key, traits=self._traits)
