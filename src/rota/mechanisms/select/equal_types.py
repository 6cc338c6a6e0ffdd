"""Types on which a job is equally fast: time on one of them is as good as on another.

Its debts there are one debt, so it is not moved between them for nothing.
"""

from __future__ import annotations

import numpy as np

from rota.core.arrays import BoolArray, FloatArray, IntArray
from rota.core.classes import Classes
from rota.core.tolerance import TOLERANCE
from rota.core.view import View

_TILT_S = 1.0
"""Seconds of debt that decide between types which are equal to a job."""


class EqualTypes:
    """Types on which a job is equally fast, by class of jobs."""

    def __init__(self) -> None:
        self._classes: Classes | None = None
        self._groups: list[tuple[int, IntArray]] = []
        """(class, two or more types)"""

    def pooled(self, view: View, wants: BoolArray, debt: FloatArray) -> tuple[BoolArray, FloatArray]:
        """[T, J] who wants to run where, and its debt: the same on all types on which it is equally fast."""
        if view.classes is not self._classes:
            self._classes = view.classes
            self._groups = _equal_types(view.classes.throughput)
        if not self._groups:
            return wants, debt
        wants = wants.copy()
        debt = debt.copy()
        for group, types in self._groups:
            jobs = (view.job_class == group).nonzero()[0]
            at = np.ix_(types, jobs)
            wants[at] = wants[at].any(axis=0)
            debt[at] = debt[at].sum(axis=0)
        return wants, debt

    def towards_weakest(self, view: View, debt: FloatArray) -> FloatArray:
        """Let a job that may choose between equal types ask first where who runs there has the least debt."""
        if not self._groups:
            return debt
        order = np.array([_least_debt(view, debt[gpu_type], gpu_type) for gpu_type in range(len(debt))]).argsort()
        tilt = np.empty(len(debt))
        tilt[order] = -_TILT_S * np.arange(len(debt))
        debt = debt.copy()
        for group, types in self._groups:
            jobs = (view.job_class == group).nonzero()[0]
            debt[np.ix_(types, jobs)] += tilt[types, None]
        return debt


def _least_debt(view: View, debt: FloatArray, gpu_type: int) -> float:
    """The least debt of a job that runs on a type; minus infinity if GPUs of the type are free."""
    placement = view.placement
    tasks = view.last_task
    if placement is None or tasks is None or len(placement) == 0:
        return -np.inf
    here = np.flatnonzero((tasks >= 0) & (placement.type[tasks] == gpu_type))
    full = int(view.gpus[here].sum()) >= int(view.capacity[gpu_type])
    return float(debt[here].min()) if full and len(here) else -np.inf


def _equal_types(rate: FloatArray) -> list[tuple[int, IntArray]]:
    """Sets of two or more types with the same speed for a class; `rate` is [C, T]."""
    groups = []
    order = rate.argsort(axis=1, kind="stable")
    ranked = np.take_along_axis(rate, order, axis=1)
    equal = (ranked[:, 1:] > 0) & (ranked[:, 1:] - ranked[:, :-1] <= TOLERANCE * ranked[:, 1:])
    for group in np.flatnonzero(equal.any(axis=1)).tolist():
        runs = np.split(order[group], np.flatnonzero(~equal[group]) + 1)
        groups += [(group, np.sort(types)) for types in runs if len(types) > 1]
    return groups
