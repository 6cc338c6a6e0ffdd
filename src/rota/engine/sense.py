"""Whether an answer of a policy makes sense, before anybody acts on it.

A plug-in may answer with anything. What cannot be used is refused with the job, the type and the number; a plausible
result is never made of it. Placements are looked at in `placement_sense.py`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from rota import kernels
from rota.core.allocation import Allocation, Options, SolveReport, Traits, Wishes
from rota.core.arrays import BoolArray, FloatArray, IntArray, largest, smallest
from rota.core.errors import AnswerError, RotaError
from rota.core.horizon import Horizon
from rota.core.view import View


@dataclass(frozen=True, slots=True)
class Checks:
    """Whose answers are checked. Those of our own components are tested; the checks would cost some 3 % of a run."""

    policy: bool = True
    mechanism: bool = True


EVERYTHING = Checks()

_SLACK = 1e-6
"""Relative size of what a solver's tolerance may add to a share or to the GPUs of a type."""


def check_allocation(allocation: Allocation, view: View) -> None:
    """Raise AnswerError unless it is an answer for just these jobs and types."""
    if not isinstance(allocation, Allocation):
        hint = " (does allocate end without a return?)" if allocation is None else ""
        raise AnswerError(f"the policy answered with {type(allocation).__name__}; an Allocation was asked for{hint}")
    _check_types(allocation, view)
    _check_jobs(allocation, view)
    _check_rest(allocation)
    if len(allocation.extras):
        _check_options(allocation, view)
    _check_shape(allocation, view)
    if allocation.order is None:
        _check_shares(allocation, view)
    else:
        _check_order(allocation, view)
    if allocation.wish is not None:
        _check_wishes(allocation.wish, view)


def _check_types(allocation: Allocation, view: View) -> None:
    wanted = view.types
    given = allocation.types
    if given is wanted:
        return
    if not isinstance(given, tuple):
        raise AnswerError(f"the types of the policy's answer are a {type(given).__name__}; give view.types")
    for gpu_type in given:
        if gpu_type not in wanted:
            raise AnswerError(f"the policy answered for type {gpu_type!r}; the cluster has {', '.join(wanted)}")
    if given != wanted:
        raise AnswerError(f"the policy answered for types {given}; the cluster has {wanted}, in this order")


def _check_jobs(allocation: Allocation, view: View) -> None:
    given = allocation.jobs
    if given is view.jobs:
        return
    _check_array("jobs", given, np.int64, dimensions=1)
    seen, times = np.unique(given, return_counts=True)
    if len(seen) < len(given):
        raise AnswerError(f"the policy answered for job {seen[times > 1][0]} {times.max()} times")
    unknown = np.setdiff1d(given, view.jobs)
    if len(unknown):
        raise AnswerError(f"the policy answered for job {unknown[0]}, which is not there")
    missing = np.setdiff1d(view.jobs, given)
    if len(missing):
        count = f"; {len(missing)} of {len(view)} jobs are missing" if len(missing) > 1 else ""
        raise AnswerError(f"the policy gave no answer for job {missing[0]}{count}")
    if not np.array_equal(given, view.jobs):
        raise AnswerError("the jobs of the policy's answer are in another order than view.jobs; give view.jobs")


def _check_rest(allocation: Allocation) -> None:
    """Parts that have a type of their own."""
    parts: tuple[tuple[str, Any, type], ...] = (
        ("extras", allocation.extras, Options),
        ("traits", allocation.traits, Traits),
        ("report", allocation.report, SolveReport),
        ("state", allocation.state, Mapping),
        ("horizon", allocation.horizon, Horizon),
    )
    for name, value, wanted in parts:
        if not isinstance(value, wanted):
            raise AnswerError(f"{name} of the policy's answer is a {type(value).__name__}, not {wanted.__name__}")
    if not isinstance(allocation.horizon.until, int | float) or math.isnan(allocation.horizon.until):
        raise AnswerError(f"the policy's answer holds until {allocation.horizon.until!r}; give seconds")
    if not isinstance(allocation.horizon.ended_by, frozenset):
        raise AnswerError("ended_by of the horizon of the policy's answer is not a frozenset of kinds of events")
    if allocation.wish is not None and not isinstance(allocation.wish, Wishes):
        raise AnswerError(f"wish of the policy's answer is a {type(allocation.wish).__name__}, not Wishes")


def _check_array(name: str, value: Any, dtype: type, *, dimensions: int) -> None:
    if type(value) is not np.ndarray:
        raise AnswerError(f"{name} of the policy's answer is a {type(value).__name__}; a numpy array was asked for")
    if value.dtype != dtype:
        raise AnswerError(
            f"{name} of the policy's answer has the type {value.dtype}; {np.dtype(dtype)} was asked for "
            f"(array.astype({np.dtype(dtype).name!r}))"
        )
    if value.ndim != dimensions:
        raise AnswerError(
            f"{name} of the policy's answer has the shape {value.shape}; {dimensions} axes were asked for"
        )


def _check_shape(allocation: Allocation, view: View) -> None:
    _check_array("share", allocation.share, np.float64, dimensions=2)
    wanted = (len(view) + len(allocation.extras), len(view.types))
    if allocation.share.shape != wanted:
        extras = f" and {len(allocation.extras)} further options" if len(allocation.extras) else ""
        raise AnswerError(
            f"the shares of the policy have the shape {allocation.share.shape}; {wanted} was asked for: "
            f"{len(view)} jobs{extras}, {len(view.types)} types"
        )


# An order


def _check_order(allocation: Allocation, view: View) -> None:
    order = allocation.order
    jobs = len(view)
    _check_array("order", order, np.int64, dimensions=1)
    assert order is not None  # the caller has looked
    if not kernels.is_permutation(np.ascontiguousarray(order), jobs):
        raise AnswerError(
            f"the order of the policy is not each of the positions 0 to {jobs - 1} once: {_why(order, view)}"
        )
    if len(allocation.extras) or allocation.share.any():
        raise AnswerError("the policy gives both an order and shares; a ranking leaves all shares at 0")
    if allocation.linear_key is not None:
        _check_key(allocation, order, view)


def _why(order: IntArray, view: View) -> str:
    beyond = order[(order < 0) | (order >= len(view))]
    if len(beyond):
        return f"{beyond[0]} is no position"
    times = np.bincount(order, minlength=len(view))
    if (times > 1).any():
        return f"job {view.jobs[times.argmax()]} is in it {times.max()} times"
    return f"job {view.jobs[times.argmin()]} is missing"


def _check_key(allocation: Allocation, order: IntArray, view: View) -> None:
    """The key as a function must be the one that the order is sorted by."""
    key = allocation.linear_key
    if not callable(key):
        raise AnswerError(f"linear_key of the policy's answer is a {type(key).__name__}; give a function of a view")
    values = key(view)
    _check_array("linear_key", values, np.float64, dimensions=1)
    if values.shape != (len(view),):
        raise AnswerError(f"linear_key of the policy gives {len(values)} numbers for {len(view)} jobs")
    bad = np.isnan(values)
    if bad.any():
        raise AnswerError(f"linear_key of the policy is {values[bad][0]} for job {view.jobs[bad.argmax()]}")
    urgent = None if view.urgent is None else view.urgent[order]
    sorted_values = values[order]
    descends = sorted_values[1:] < sorted_values[:-1]
    if urgent is not None:
        descends &= urgent[1:] == urgent[:-1]
    if descends.any():
        at = int(descends.argmax())
        first, second = view.jobs[order[at : at + 2]]
        raise AnswerError(
            f"the policy puts job {first} (linear_key {sorted_values[at]:g}) before job {second} "
            f"({sorted_values[at + 1]:g}); an order by linear_key is ascending"
        )


# Shares


def _check_shares(allocation: Allocation, view: View) -> None:
    share = allocation.share
    if share.size == 0:
        return
    flat = share.ravel()
    if not (smallest(flat) >= -_SLACK and largest(flat) <= 1 + _SLACK):
        row, gpu_type = (int(i) for i in np.argwhere(~((share >= -_SLACK) & (share <= 1 + _SLACK)))[0])
        raise AnswerError(
            f"the policy gives {_who(allocation, row)} a share of {share[row, gpu_type]} on {view.types[gpu_type]}; "
            "shares are fractions of time, from 0 to 1"
        )
    _check_time(allocation, view)
    _check_capacity(allocation, view)


def _who(allocation: Allocation, row: int) -> str:
    jobs = len(allocation.jobs)
    if row < jobs:
        return f"job {allocation.jobs[row]}"
    first, second = allocation.extras.first[row - jobs], allocation.extras.second[row - jobs]
    return f"job {first} with {allocation.extras.gpus[row - jobs]} GPUs" if second < 0 else f"pair {first}, {second}"


def _check_time(allocation: Allocation, view: View) -> None:
    """No job runs for more than all of the time, in all its options together."""
    jobs = len(view)
    time: FloatArray = allocation.share[:jobs].sum(axis=1)
    extras = allocation.extras
    if len(extras):
        of_option = allocation.share[jobs:].sum(axis=1)
        for members in (extras.first, extras.second):
            there = members >= 0
            time += np.bincount(view.position(members[there]), weights=of_option[there], minlength=jobs)
    if largest(time) > 1 + _SLACK * len(view.types):
        job = int(time.argmax())
        where = ", ".join(f"{share:g} on {t}" for t, share in zip(view.types, allocation.share[job], strict=True))
        pairs = " and pairs beside" if len(extras) else ""
        raise AnswerError(
            f"the policy gives job {view.jobs[job]} {time[job]:g} of the time ({where}{pairs}); "
            "the shares of a job add up to at most 1"
        )


def _check_capacity(allocation: Allocation, view: View) -> None:
    jobs = len(view)
    used = view.gpus @ allocation.share[:jobs]
    if len(allocation.extras):
        used = used + allocation.extras.gpus @ allocation.share[jobs:]
    over = used > view.capacity * (1 + _SLACK) + _SLACK
    if over.any():
        gpu_type = int(over.argmax())
        most = int((view.gpus * allocation.share[:jobs, gpu_type]).argmax())
        raise AnswerError(
            f"the policy hands out {used[gpu_type]:g} GPUs of {view.types[gpu_type]}; "
            f"there are {view.capacity[gpu_type]} (most of them to job {view.jobs[most]}, which asks for "
            f"{view.gpus[most]}: a share of {allocation.share[most, gpu_type]:g})"
        )


# Options beyond each job alone


def _check_options(allocation: Allocation, view: View) -> None:
    extras = allocation.extras
    for name, column in (("first", extras.first), ("second", extras.second), ("gpus", extras.gpus)):
        _check_array(f"extras.{name}", column, np.int64, dimensions=1)
        if len(column) != len(extras):
            raise AnswerError(f"extras.{name} of the policy's answer has {len(column)} numbers, not {len(extras)}")
    shares_gpus = extras.second >= 0
    for members in (extras.first, extras.second[shares_gpus]):
        unknown = view.position(members) < 0
        if unknown.any():
            raise AnswerError(f"an option of the policy has job {members[unknown.argmax()]}, which is not there")
    twice = extras.first == extras.second
    if twice.any():
        raise AnswerError(f"the policy pairs job {extras.first[twice.argmax()]} with itself")
    _check_gpus(extras, shares_gpus, view)
    if shares_gpus.any() and not allocation.traits.packs:
        raise AnswerError("the policy lets jobs share GPUs, but does not say so: give traits=Traits(packs=True)")


def _check_gpus(extras: Options, shares_gpus: BoolArray, view: View) -> None:
    asked = view.gpus[view.position(extras.first)]
    partner = np.where(shares_gpus, view.gpus[view.position(np.where(shares_gpus, extras.second, extras.first))], asked)
    wrong = (extras.gpus < 1) | (shares_gpus & ((asked != extras.gpus) | (partner != extras.gpus)))
    if wrong.any():
        row = int(wrong.argmax())
        if not shares_gpus[row]:
            raise AnswerError(f"an option of the policy gives job {extras.first[row]} {extras.gpus[row]} GPUs")
        raise AnswerError(
            f"the policy pairs job {extras.first[row]} ({asked[row]} GPUs) with job {extras.second[row]} "
            f"({partner[row]} GPUs) on {extras.gpus[row]} GPUs; jobs share GPUs only if both ask for as many"
        )


# CPUs and memory


def _check_wishes(wish: Wishes, view: View) -> None:
    for name, column in (("cpus", wish.cpus), ("memory_gb", wish.memory_gb), ("speed", wish.speed)):
        _check_array(f"wish.{name}", column, np.float64, dimensions=1)
        if len(column) != len(wish.cpus):
            raise AnswerError(f"wish.{name} of the policy's answer has {len(column)} rows, not {len(wish.cpus)}")
    _check_array("wish.which", wish.which, np.int64, dimensions=2)
    wanted = (len(view), len(view.types))
    if wish.which.shape != wanted:
        raise AnswerError(f"wish.which of the policy's answer has the shape {wish.which.shape}; {wanted} was asked for")
    rows = wish.which
    beyond = (rows < -1) | (rows >= len(wish.cpus))
    if beyond.any():
        job, gpu_type = (int(i) for i in np.argwhere(beyond)[0])
        raise AnswerError(
            f"the policy wishes row {rows[job, gpu_type]} for job {view.jobs[job]} on {view.types[gpu_type]}; "
            f"its menu has {len(wish.cpus)} rows"
        )
    cpus = float(view.cluster.server_cpus.sum()) * (1 + _SLACK)
    memory_gb = float(view.cluster.server_memory_gb.sum()) * (1 + _SLACK)
    _check_menu("cpus", wish.cpus, (wish.cpus >= 0) & (wish.cpus <= cpus), wish, view)
    _check_menu("memory_gb", wish.memory_gb, (wish.memory_gb >= 0) & (wish.memory_gb <= memory_gb), wish, view)
    _check_menu("speed", wish.speed, (wish.speed > 0) & (wish.speed < np.inf), wish, view)


def _check_menu(name: str, column: FloatArray, good: BoolArray, wish: Wishes, view: View) -> None:
    used = (wish.which >= 0) & ~np.append(good, True)[wish.which]
    if used.any():
        job, gpu_type = (int(i) for i in np.argwhere(used)[0])
        value = column[wish.which[job, gpu_type]]
        raise AnswerError(
            f"the policy wishes {name} = {value} for job {view.jobs[job]} on {view.types[gpu_type]}, "
            "which no cluster of this size can give"
        )


def in_words(error: Exception) -> str:
    """What went wrong; errors that are not ours with their kind."""
    return str(error) if isinstance(error, RotaError) else f"{type(error).__name__}: {error}"
