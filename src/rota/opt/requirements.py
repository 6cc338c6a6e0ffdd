"""The highest common target for the jobs of a view.

By chains of types if there are few types, else a row per job.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from rota.core.allocation import NO_OPTIONS, Options, Wishes
from rota.core.arrays import FloatArray
from rota.core.view import View
from rota.opt import one_type
from rota.opt.chains import MOST_TYPES, climb
from rota.opt.columns import pair_source
from rota.opt.configured import Configured, columns, highest, total_worth
from rota.opt.groups import by_job, ratio, worth_of_a_step
from rota.opt.paced import highest_paced_target
from rota.opt.pairs import Pairs, spread
from rota.opt.previous import recalled
from rota.opt.shares import Polytope
from rota.opt.targets import Pace, highest_target
from rota.opt.wishes import shares, wishes


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Requirement:
    """What jobs need by target v: rate steps v / (slack - age v), in the order of the view."""

    steps: FloatArray
    slack: FloatArray
    age: FloatArray


@dataclass(frozen=True, slots=True, eq=False)
class Met:
    """The highest target that can be met, shares that meet it, and state for the next solve."""

    target: float
    share: FloatArray
    state: Mapping[str, Any]
    extras: Options = field(default_factory=lambda: NO_OPTIONS)
    wish: Wishes | None = None
    """CPUs and memory, where they were chosen too."""


def meet(view: View, rate: FloatArray, need: Requirement, favour: FloatArray | None = None) -> Met:
    """Raise the target as far as the cluster allows, then the total normalised throughput.

    `rate` is [C, T].

    `favour` [C] says how much a class counts in that total.
    """
    if len(view) == 0:
        return Met(0.0, np.zeros((0, len(view.capacity))), {})
    pace = _pace(rate.max(axis=1)[view.job_class], need)
    worth = _worth(view, rate) if favour is None else _worth(view, rate) * favour
    if len(view.capacity) > MOST_TYPES:
        scale = ratio(np.ones(len(view)), pace.fastest)
        polytope = _by_job(view, rate, scale)
        value = worth[view.job_class]
        paced = highest_paced_target(polytope, pace.scaled(scale), value, None, _first_guess(view))
        return Met(paced.target, paced.times.alone, {"target": paced.target})
    capacity = view.capacity.astype(np.float64)
    gpus = view.classes.gpus.astype(np.float64)
    jobs = climb(rate, view.job_class, gpus, capacity)
    price = recalled(view, "price")
    if price is not None and len(price) != len(capacity):
        price = None
    reached = highest_target(
        jobs,
        pace,
        rate * worth[:, None],
        price=price,
        basis=recalled(view, "basis"),
        second_basis=recalled(view, "second_basis"),
    )
    state = {"price": reached.price, "second_basis": reached.second_basis}
    if reached.basis is not None:
        state["basis"] = reached.basis
    return Met(reached.target, reached.share, state)


def meet_blindly(view: View, rate: FloatArray, need: Requirement) -> Met:
    """The same when types are not distinguished (`rate` is equal on all).

    What is left over goes to all alike.
    """
    pace = _pace(rate.max(axis=1, initial=0.0)[view.job_class], need)
    size = view.gpus.astype(np.float64)
    pool = float(view.capacity.sum())
    target = one_type.highest_target(pace, size, pool)
    least = ratio(pace.rate(target), pace.fastest)
    time, _ = one_type.fill(least, np.where(pace.fastest > 0, 1.0, 0.0), size, pool)
    return Met(target, one_type.over_types(time, view.capacity), {})


def meet_configured(view: View, need: Requirement, favour: FloatArray | None = None) -> Met:
    """The same where CPUs and memory are chosen too: a row per job, a column per configuration."""
    groups = by_job(view)
    ways = columns(view, groups)
    unscaled = Configured(groups=groups, columns=ways, scale=np.ones(len(view)))
    pace = _pace(unscaled.fastest, need)
    scale = ratio(np.ones(len(view)), pace.fastest)
    worth = total_worth(view) if favour is None else total_worth(view) * favour
    problem = replace(unscaled, scale=scale)
    best = highest(problem, pace.scaled(scale), worth[view.job_class], _first_guess(view))
    return Met(
        best.value,
        shares(groups, ways, best.times, len(view.capacity)),
        {"target": best.value},
        wish=wishes(view, groups, ways, best.times),
    )


def meet_packed(view: View, rate: FloatArray, need: Requirement, weight: FloatArray) -> Met:
    """The same where two jobs may share GPUs; rates count divided by the weight of the job."""
    if len(view) == 0:
        return Met(0.0, np.zeros((0, len(view.capacity))), {})
    pace = _pace(rate.max(axis=1)[view.job_class] / weight, need)
    scale = ratio(np.ones(len(view)), pace.fastest)
    polytope = _by_job(view, rate, scale / weight)
    source = pair_source(view, polytope.groups)
    first = recalled(view, "pair_first")
    second = recalled(view, "pair_second")
    type_ = recalled(view, "pair_type")
    start = Pairs.none()
    if first is not None:
        a = view.position(first)
        b = view.position(second)
        known = (a >= 0) & (b >= 0)
        start = source.between(a[known], b[known], type_[known])
    paced = highest_paced_target(
        replace(polytope, pairs=start),
        pace.scaled(scale),
        _worth(view, rate)[view.job_class],
        source,
        _first_guess(view),
    )
    extras, together = spread(view, polytope.groups, paced.pairs, paced.times.paired)
    used = paced.times.paired > 0
    state = {
        "target": paced.target,
        "pair_first": view.jobs[paced.pairs.first[used]],
        "pair_second": view.jobs[paced.pairs.second[used]],
        "pair_type": paced.pairs.type[used],
    }
    return Met(paced.target, np.concatenate([paced.times.alone, together]), state, extras)


def _pace(fastest: FloatArray, need: Requirement) -> Pace:
    counts = (fastest > 0) & (need.steps > 0)
    return Pace(
        steps=np.where(counts, need.steps, 0.0),
        slack=np.where(counts, need.slack, 1.0),
        age=np.where(counts, need.age, 0.0),
        fastest=fastest,
    )


def _worth(view: View, rate: FloatArray) -> FloatArray:
    """[C] normalised throughput of one step: s / p."""
    return worth_of_a_step(rate, view.classes.gpus.astype(np.float64), view.capacity)


def _by_job(view: View, rate: FloatArray, scale: FloatArray) -> Polytope:
    return Polytope(
        groups=by_job(view),
        capacity=view.capacity.astype(np.float64),
        rate=rate[view.job_class],
        scale=scale,
    )


def _first_guess(view: View) -> float:
    """The target of the last solve, or as high as it goes."""
    target = recalled(view, "target")
    return np.inf if target is None or target <= 0 else float(target)


def reference_rate(view: View, rate: FloatArray) -> FloatArray:
    """[C, T] the same rate on every type that is up.

    That of the fastest type that is up, which is the last one, or of the job's own fastest if it has no speed there.
    """
    up = view.capacity.nonzero()[0]
    best: FloatArray = rate.max(axis=1)
    fastest = rate[:, up[-1]] if len(up) else best
    reference = np.where(fastest > 0, fastest, best)
    same: FloatArray = reference[:, None] * (view.capacity > 0)
    return same
