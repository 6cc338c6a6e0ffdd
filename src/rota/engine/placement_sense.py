"""Whether a placement makes sense, before anybody carries it out; answers of policies are looked at in `sense.py`."""

from __future__ import annotations

from typing import Any

import numpy as np

from rota.core.arrays import IntArray
from rota.core.errors import AnswerError
from rota.core.horizon import Horizon
from rota.core.placement import Placement
from rota.core.view import View

_SLACK = 1e-6


def check_placement(placement: Placement, view: View) -> None:
    """Raise AnswerError if its columns do not belong together, or if it hands out what is not there."""
    if not isinstance(placement, Placement):
        hint = " (does divide end without a return?)" if placement is None else ""
        raise AnswerError(f"the mechanism answered with {type(placement).__name__}; a Placement was asked for{hint}")
    _check_columns(placement)
    if len(placement.slot_server):
        _check_slots(placement, view)
    if len(placement):
        _check_tasks(placement, view)
        _check_holdings(placement, view)
        if any(view.classes.needs):
            _check_floors(placement, view)


def _check_columns(placement: Placement) -> None:
    _check_array("first", placement.first, np.int64)
    count = len(placement.first)
    slots = len(placement.slot_server)
    columns: tuple[tuple[str, Any, type, int], ...] = (
        ("second", placement.second, np.int64, count),
        ("type", placement.type, np.int64, count),
        ("gpus", placement.gpus, np.int64, count),
        ("kept", placement.kept, np.bool_, count),
        ("slot_start", placement.slot_start, np.int64, count + 1),
        ("slot_server", placement.slot_server, np.int64, slots),
        ("slot_gpus", placement.slot_gpus, np.int64, slots),
        ("cpus", placement.cpus, np.float64, count),
        ("memory_gb", placement.memory_gb, np.float64, count),
        ("speed", placement.speed, np.float64, count),
        ("fraction", placement.fraction, np.float64, count),
    )
    for name, column, dtype, wanted in columns:
        if column is None and dtype is np.float64:
            continue
        _check_array(name, column, dtype)
        if len(column) != wanted:
            raise AnswerError(f"{name} of the placement has {len(column)} numbers; {wanted} were asked for")
    starts = placement.slot_start
    if starts[0] != 0 or starts[-1] != slots or (np.diff(starts) < 0).any():
        raise AnswerError(f"slot_start of the placement does not go up from 0 to its {slots} slots")
    if not isinstance(placement.horizon, Horizon):
        raise AnswerError(f"horizon of the placement is a {type(placement.horizon).__name__}, not Horizon")


def _check_array(name: str, value: Any, dtype: type) -> None:
    if type(value) is not np.ndarray or value.ndim != 1:
        raise AnswerError(f"{name} of the placement is a {type(value).__name__}; an array with one axis was asked for")
    if value.dtype != dtype:
        raise AnswerError(f"{name} of the placement has the type {value.dtype}; {np.dtype(dtype)} was asked for")


def _check_tasks(placement: Placement, view: View) -> None:
    jobs = np.concatenate([placement.first, placement.second[placement.second >= 0]])
    unknown = view.position(jobs) < 0
    if unknown.any():
        raise AnswerError(f"the placement has job {jobs[unknown.argmax()]}, which is not there")
    seen, times = np.unique(jobs, return_counts=True)
    if placement.fraction is None and len(seen) < len(jobs):
        raise AnswerError(f"the placement has job {seen[times.argmax()]} twice")
    types = len(view.capacity)
    wrong = (placement.type < 0) | (placement.type >= types)
    if wrong.any():
        task = int(wrong.argmax())
        raise AnswerError(
            f"the placement puts job {placement.first[task]} on type {placement.type[task]}, which is not there; "
            f"there are {types}"
        )
    few = placement.gpus < 1
    if few.any():
        task = int(few.argmax())
        raise AnswerError(f"the placement gives job {placement.first[task]} {placement.gpus[task]} GPUs")
    if placement.fraction is None:
        _check_gpus_by_type(placement, view)
    if len(placement.slot_server):
        _check_slots_of_tasks(placement, view)


def _check_gpus_by_type(placement: Placement, view: View) -> None:
    used = np.bincount(placement.type, weights=placement.gpus, minlength=len(view.capacity))
    over = used > view.capacity
    if over.any():
        gpu_type = int(over.argmax())
        there = view.capacity[gpu_type]
        raise AnswerError(f"the placement takes {used[gpu_type]:g} GPUs of {view.types[gpu_type]}; there are {there}")


def _check_slots_of_tasks(placement: Placement, view: View) -> None:
    task = _task_of_slot(placement)
    held = np.bincount(task, weights=placement.slot_gpus, minlength=len(placement))
    short = held != placement.gpus
    if short.any():
        at = int(short.argmax())
        raise AnswerError(
            f"the slots of job {placement.first[at]} in the placement do not add up to its GPUs: "
            f"{held[at]:g}, not {placement.gpus[at]}"
        )
    of_server = view.cluster.server_type[placement.slot_server]
    elsewhere = of_server != placement.type[task]
    if elsewhere.any():
        slot = int(elsewhere.argmax())
        server = view.cluster.ordered[int(placement.slot_server[slot])]
        raise AnswerError(
            f"the placement puts job {placement.first[task[slot]]} on server {server.id}, which has {server.type}, "
            f"and says that it runs on {view.types[placement.type[task[slot]]]}"
        )


def _task_of_slot(placement: Placement) -> IntArray:
    return np.repeat(np.arange(len(placement)), np.diff(placement.slot_start))


def _check_holdings(placement: Placement, view: View) -> None:
    """Speed, part of the time, CPUs and memory of each task are numbers that can be."""
    cluster = view.cluster
    limits = (
        ("speed", placement.speed, np.nextafter(0, 1), np.finfo(np.float64).max, "a number above 0"),
        ("fraction", placement.fraction, 0.0, 1 + _SLACK, "from 0 to 1"),
        ("cpus", placement.cpus, 0.0, float(cluster.server_cpus.sum()) * (1 + _SLACK), "from 0 to all CPUs"),
        ("memory_gb", placement.memory_gb, 0.0, float(cluster.server_memory_gb.sum()) * (1 + _SLACK), "from 0 to all"),
    )
    for name, column, least, most, wanted in limits:
        if column is None:
            continue
        bad = ~((column >= least) & (column <= most))
        if bad.any():
            task = int(bad.argmax())
            raise AnswerError(
                f"the placement gives job {placement.first[task]} {name} = {column[task]}; {wanted} was asked for"
            )


def _check_floors(placement: Placement, view: View) -> None:
    """Nobody has fewer CPUs or less memory than it needs, as far as the placement says what tasks have."""
    groups = view.job_class[view.position(placement.first)].tolist()
    needs = [view.classes.needs[group] for group in groups]
    known = (
        ("CPUs", placement.cpus, np.array([n.cpus for n in needs]), view.cluster.fair_cpus),
        ("GB of memory", placement.memory_gb, np.array([n.memory_gb for n in needs]), view.cluster.fair_memory_gb),
    )
    for name, held, floor, fair in known:
        if held is None or placement.fraction is not None:
            continue
        below = (held < floor * (1 - _SLACK)) & (fair[placement.type] > 0)
        if below.any():
            task = int(below.argmax())
            raise AnswerError(
                f"the placement gives job {placement.first[task]} {held[task]:g} {name}; it asked for {floor[task]:g}, "
                "which no mechanism goes below (view.classes.needs)"
            )


def _check_slots(placement: Placement, view: View) -> None:
    servers = view.cluster.server_gpus
    at = placement.slot_server
    if int(at[at.argmin()]) < 0 or int(at[at.argmax()]) >= len(servers):
        raise AnswerError(f"the placement names a server that is not there; there are {len(servers)}")
    few = placement.slot_gpus < 1
    if few.any():
        job = placement.first[_task_of_slot(placement)[few.argmax()]]
        raise AnswerError(f"the placement gives job {job} {placement.slot_gpus[few.argmax()]} GPUs of a server")
    used = np.bincount(at, weights=placement.slot_gpus, minlength=len(servers))
    over = used > servers
    if over.any():
        server = view.cluster.ordered[int(over.argmax())]
        raise AnswerError(
            f"the placement takes {used[over.argmax()]:g} GPUs of server {server.id}; it has {server.capacity.gpus}"
        )
