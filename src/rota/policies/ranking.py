"""What all ranking policies share: one sort key, ascending; arrival and id break ties."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from rota.core.allocation import Allocation, Traits
from rota.core.arrays import FloatArray, zeros
from rota.core.errors import UnknownName
from rota.core.horizon import EVERY_ROUND, Horizon
from rota.core.view import View

_UNAWARE = Traits(aware=False)
ORDERS = ("published", "static")
"""As the paper of a policy says, or as Synergy's published simulator sorts."""


def ranked(
    view: View,
    key: FloatArray,
    *,
    horizon: Horizon = EVERY_ROUND,
    linear_key: Callable[[View], FloatArray] | None = None,
    traits: Traits = _UNAWARE,
    urgent_first: bool = True,
) -> Allocation:
    """The order of jobs by key, smallest first, as an allocation.

    Jobs are numbered as they arrive, so a stable sort leaves the older of two equals in front. Jobs that have waited
    too long under the rules come before all others, so an order with a horizon holds only where that cannot happen.
    `linear_key` is the key as a function, if it changes by the same amount in every round as long as the same jobs run.
    """
    order = key.argsort(kind="stable")
    if urgent_first and view.urgent is not None:
        late = view.urgent[order]
        order = np.concatenate([order[late], order[~late]])
    return Allocation(
        jobs=view.jobs,
        types=view.types,
        share=zeros(len(view) * len(view.types)).reshape(len(view), len(view.types)),
        order=order,
        horizon=horizon if view.patient or not urgent_first else EVERY_ROUND,
        linear_key=linear_key,
        traits=traits,
    )


def known_order(order: str) -> str:
    """The parameter `order` of a ranking policy, checked."""
    if order not in ORDERS:
        raise UnknownName("order", order, ORDERS)
    return order
