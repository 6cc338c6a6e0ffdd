"""What all ranking policies share: one sort key, ascending; arrival and id break ties."""

from __future__ import annotations

import numpy as np

from rota.core.allocation import Allocation, Traits
from rota.core.arrays import FloatArray, zeros
from rota.core.errors import UnknownName
from rota.core.view import View

_UNAWARE = Traits(aware=False)
ORDERS = ("published", "static")
"""As the paper of a policy says, or as Synergy's published simulator sorts."""


def ranked(
    view: View,
    key: FloatArray,
    *,
    static: bool = False,
    arrivals_last: bool = False,
    traits: Traits | None = None,
    urgent_first: bool = True,
) -> Allocation:
    """The order of jobs by key, as an allocation; `static` means that it stays so until a job arrives or leaves.

    Jobs are numbered as they arrive, so a stable sort leaves the older of two equals in front. Who has waited too
    long under the rules comes before everybody else.
    """
    order = key.argsort(kind="stable")
    if urgent_first and view.urgent is not None:
        late = view.urgent[order]
        order = np.concatenate([order[late], order[~late]])
    static = static and (view.patient or not urgent_first)
    jobs, types = len(view), len(view.types)
    how = _UNAWARE if traits is None else traits
    return Allocation(
        jobs=view.jobs,
        types=view.types,
        share=zeros(jobs * types).reshape(jobs, types),
        order=order,
        static_order=static,
        arrivals_last=arrivals_last,
        traits=how,
    )


def known_order(order: str) -> str:
    """The parameter `order` of a ranking policy, checked."""
    if order not in ORDERS:
        raise UnknownName("order", order, ORDERS)
    return order
