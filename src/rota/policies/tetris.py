"""Tetris (Grandl et al., SIGCOMM 2014): pack well, and finish short work first.

With demands d_j as parts of the cluster (GPUs, CPUs, memory), the alignment of job j with the empty cluster is
a_j = sum_r d_jr, and its remaining work is p_j = seconds left x a_j. Tetris serves the largest a_j - eps p_j with
eps = mean(a) / mean(p): key_j = eps p_j - a_j. Under the rule `rankings = static` the key is p_j alone, as in Synergy's
simulator. `tetris` does not look at GPU types, `tetris-perf` does.
"""

from __future__ import annotations

from rota.core.allocation import Allocation, Traits
from rota.core.arrays import FloatArray
from rota.core.view import View
from rota.policies.ranking import known_order, ranked
from rota.policies.registry import policies


@policies.register(
    "tetris-perf",
    summary="Jobs that pack well and end soon first; each type goes to who loses most without it.",
    aware=True,
    from_run=("order",),
)
@policies.register(
    "tetris",
    summary="Jobs that fill the servers best and have little work left first, on any type with room.",
    from_run=("order",),
    aware=False,
)
class Tetris:
    """Jobs that fill the servers best and have little work left first.

    Parameters: order - `published`, or `static` as in Synergy's simulator.
    """

    def __init__(self, order: str = "published", *, aware: bool = False) -> None:
        self._traits = Traits(aware=aware)
        self._work_alone = known_order(order) == "static"

    def key(self, view: View) -> FloatArray:
        """Work left against alignment."""
        left = view.remaining_s
        parts = left[:, None] * view.demand
        work = parts[:, 0] + parts[:, 1] + parts[:, 2]
        if self._work_alone or len(work) == 0:
            return work
        alignment = view.demand.sum(axis=1)
        mean = float(work.mean())
        scale = float(alignment.mean()) / mean if mean > 0 else 0.0
        key: FloatArray = scale * work - alignment
        return key

    def allocate(self, view: View) -> Allocation:
        """The queue."""
        return ranked(view, self.key(view), linear_key=self.key if self._work_alone else None, traits=self._traits)
