"""Dominant resource fairness (DRF; Ghodsi et al., NSDI 2011), by tenant.

A tenant's dominant share is the largest part of any resource (GPUs, CPUs, memory) that its jobs hold. Jobs are given
out one by one to the tenant whose dominant share / weight is least, oldest job first inside a tenant: key_j = dominant
share of the tenant before job j, then with it. Without tenants every job is its own: the least demanding comes first,
which is also the order of Synergy's simulator (rule `rankings = static`), tenants or not. `drf` does not look at
GPU types, `drf-perf` does.
"""

from __future__ import annotations

import numpy as np

from rota.core.allocation import Allocation, Traits
from rota.core.arrays import FloatArray
from rota.core.horizon import UNTIL_JOBS_CHANGE
from rota.core.view import View
from rota.policies.ranking import known_order, ranked
from rota.policies.registry import policies


@policies.register(
    "drf-perf",
    summary="The tenant with the smallest dominant share first; each type goes to who loses most without it.",
    aware=True,
    from_run=("order",),
)
@policies.register(
    "drf",
    summary="The tenant with the smallest dominant share of GPUs, CPUs and memory first, on any type with room.",
    from_run=("order",),
    aware=False,
)
class Drf:
    """The tenant with the smallest dominant share of GPUs, CPUs and memory first.

    Parameters: order - `published`, or `static` as in Synergy's simulator.
    """

    def __init__(self, order: str = "published", *, aware: bool = False) -> None:
        self._traits = Traits(aware=aware)
        self._alone = known_order(order) == "static"

    def key(self, view: View) -> FloatArray:
        """Dominant share of the tenant before the job is served; ties by the share after it."""
        demand = view.demand
        if self._alone or len(view.tenants) < 2:
            dominant: FloatArray = demand.max(axis=1)
            return dominant
        demand = demand / view.weight[:, None]
        before = np.zeros(len(view))
        after = np.zeros(len(view))
        for tenant in np.unique(view.tenant).tolist():
            mine = (view.tenant == tenant).nonzero()[0]
            held = np.cumsum(demand[mine], axis=0)
            after[mine] = held.max(axis=1)
            before[mine[1:]] = held[:-1].max(axis=1)
        rank = np.lexsort((after, before))
        key = np.empty(len(view))
        key[rank] = np.arange(len(view))
        return key

    def allocate(self, view: View) -> Allocation:
        """The queue."""
        return ranked(view, self.key(view), horizon=UNTIL_JOBS_CHANGE, linear_key=self.key, traits=self._traits)
