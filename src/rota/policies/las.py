"""Least attained service (LAS; Gu et al., Tiresias, NSDI 2019).

key_j = GPU-seconds that job j has had so far. Needs no knowledge of how long jobs take: new jobs get a chance at once,
and whoever has had much steps back. Under the rule `rankings = static` (Synergy's simulator) who runs is settled by
GPU counts alone before servers are looked at. `las` does not look at GPU types, `las-perf` does.
"""

from __future__ import annotations

from rota.core.allocation import Allocation, Traits
from rota.core.arrays import FloatArray
from rota.core.view import View
from rota.policies.ranking import known_order, ranked
from rota.policies.registry import policies


@policies.register(
    "las-perf",
    summary="Least attained service first; each type goes to who loses most without it.",
    aware=True,
    from_run=("order",),
)
@policies.register(
    "las",
    summary="The job that has had the least GPU time so far first, on any type with room.",
    from_run=("order",),
    aware=False,
)
class Las:
    """The job that has had the least GPU time so far first.

    Parameters: order - `published`, or `static` as in Synergy's simulator.
    """

    def __init__(self, order: str = "published", *, aware: bool = False) -> None:
        self._traits = Traits(aware=aware, by_gpus_alone=known_order(order) == "static")

    def key(self, view: View) -> FloatArray:
        """GPU-seconds had."""
        return view.attained

    def allocate(self, view: View) -> Allocation:
        """The queue."""
        return ranked(view, self.key(view), linear_key=self.key, traits=self._traits)
