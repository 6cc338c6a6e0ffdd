"""What all ranking policies share: one sort key, ascending; arrival and id break ties."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from rota.core.allocation import Allocation, Traits
from rota.core.arrays import FloatArray, IntArray, zeros
from rota.core.errors import AnswerError, UnknownName
from rota.core.horizon import EVERY_ROUND, Horizon
from rota.core.view import View

_AWARE = Traits(aware=True)
ORDERS = ("published", "static")
"""As the paper of a policy says, or as Synergy's published simulator sorts."""


def ranked(
    view: View,
    key: FloatArray,
    *,
    horizon: Horizon = EVERY_ROUND,
    linear_key: Callable[[View], FloatArray] | None = None,
    traits: Traits = _AWARE,
    urgent_first: bool = True,
) -> Allocation:
    """The order of jobs by key, smallest first, as an allocation.

    Jobs are numbered as they arrive, so a stable sort leaves the older of two equals in front. Jobs that have waited
    too long under the rules come before all others, so an order with a horizon holds only where that cannot happen.
    `linear_key` is the key as a function, if it changes by the same amount in every round as long as the same jobs run.
    Each job runs on the type that is best for it given the others, unless `traits` say that types are not looked at.
    Raises AnswerError for a key that is NaN.
    """
    order = _by_key(view, key)
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


def _by_key(view: View, key: FloatArray) -> IntArray:
    """Positions of jobs, smallest key first. A key that is no number has no place in an order."""
    key = np.asarray(key)
    if key.shape != view.jobs.shape:
        raise AnswerError(f"the sort key has the shape {key.shape}; one number for each of {len(view)} jobs is needed")
    order: IntArray = key.argsort(kind="stable")
    if len(order) and math.isnan(key[order[-1]]):  # the sort puts them last
        jobs = view.jobs[np.isnan(key)]
        many = f"{len(jobs)} of {len(view)} jobs"
        raise AnswerError(f"the sort key of job {jobs[0]} is nan ({many}); give a number or inf")
    return order


def known_order(order: str) -> str:
    """The parameter `order` of a ranking policy, checked."""
    if order not in ORDERS:
        raise UnknownName("order", order, ORDERS)
    return order
