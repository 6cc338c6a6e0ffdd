"""Finish-time fairness as a ranking (Mahajan et al., Themis, NSDI 2020).

rho_j = (age + seconds left) / (seconds alone x contention), where contention = max(1, GPUs wanted / GPUs there) is how
much longer a job takes on a 1/N share of the cluster. The job that is treated worst (largest rho) comes first:
key_j = -rho_j. Under the rule `rankings = static` the key is rho without contention and the smallest comes first, as
in Synergy's simulator, which so serves the least delayed job. `ftf` does not look at GPU types, `ftf-perf`
does.
"""

from __future__ import annotations

from rota.core.allocation import Allocation, Traits
from rota.core.arrays import FloatArray
from rota.core.view import View
from rota.policies.ranking import known_order, ranked
from rota.policies.registry import policies


@policies.register(
    "ftf-perf",
    summary="The most delayed job first; each type goes to who loses most without it.",
    aware=True,
    from_run=("order",),
)
@policies.register(
    "ftf",
    summary="The job whose finish is delayed most, compared with a fair share, first, on any type with room.",
    from_run=("order",),
    aware=False,
)
class Ftf:
    """The job whose finish is delayed most, compared with a fair share of the cluster, first.

    Parameters: order - `published`, or `static` as in Synergy's simulator.
    """

    def __init__(self, order: str = "published", *, aware: bool = False) -> None:
        self._traits = Traits(aware=aware)
        self._inverted = known_order(order) == "static"

    def key(self, view: View) -> FloatArray:
        """Delay compared with running alone; negative unless inverted."""
        delay = (view.now - view.submitted + view.remaining_s) / view.duration_s
        if self._inverted:
            return delay
        contention = max(1.0, float(view.gpus.sum()) / float(view.capacity.sum()))
        return -delay / contention

    def allocate(self, view: View) -> Allocation:
        """The queue."""
        return ranked(view, self.key(view), linear_key=self.key, traits=self._traits)
