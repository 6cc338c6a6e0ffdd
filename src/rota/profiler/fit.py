"""From runs to the stages of a pipeline, and to the speed of cells that were not measured.

The parameters are read off the runs, not searched for: G is the speed with the first batches again
and again (or the speed that more CPUs do not raise), k the CPU time of a step where CPUs were used
up, d, f and s what the data path counted. What is left between the formula and the measured cells
(the residual) is carried over to the cells around them, the nearer the more.

A job that is started again is not as fast as before: where its memory lies decides for a whole run,
and nothing within the run shows it. How much that makes is seen in cells that were run twice, and in
what leaving out measured cells one by one shows the method to be off by. So the error of a measured
cell is that of its run and this one; that of a predicted one is at least as much, and more the
farther the nearest measured cell is, plus up to 3 % where two stages are nearly as slow as each
other: there they wait for each other in turn, and the formula is too fast.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import median, variance

import numpy as np

from rota.data.budget import LEAST_RESERVE_GB, RESERVED_PART
from rota.profiler.cell import Cell, RunRecord
from rota.profiles.stages import Stages

SATURATED = 0.9
"""From this part of its CPUs on a job is held up by them."""
LEAST_ERROR = 0.01
_NEAR = 0.03
_APART = 0.25
"""Cached parts of two runs that say something about reading."""
_LEAST_CPU_S = 1e-9
_ALL = 0.999
"""Of the data set: all of it is cached."""
_CLOSE_STAGES = 0.1
_KNEE_ERROR = 0.03
_ALLOWANCE = 1.5
"""Errors of cells that were left out, times this, are those of the others."""
_OF_BOTH = 1.2
"""A cell that was left out is off by what its own run is, and by a part of that for the runs around it."""


@dataclass(frozen=True, slots=True)
class Prediction:
    """Steps/s of a cell, and half of its 95 % interval, relative."""

    rate: float
    error: float


def stages_of(records: Sequence[RunRecord]) -> Stages:
    """The parameters that runs of one job show; ValueError without a usable one."""
    points = [record for record in records if record.usable and not record.cell.replay]
    if not points:
        raise ValueError("no run with a speed")
    replays = [record.rate for record in records if record.usable and record.cell.replay]
    plain = Stages(
        device_rate=_device_rate(points, replays),
        cpu_s=_cpu_s(points),
        read_cpu_s=_read_cpu_s(points),
        workers=1,
        resident_gb=max(record.resident_gb for record in points),
    )
    plain = _with_data(plain, points)
    serial = replace(plain, workers=0)
    known_workers = any(record.data is not None and record.data.workers for record in points)
    if known_workers or _misfit(plain, points) <= _misfit(serial, points) + 1e-4:
        return plain
    return serial


def _device_rate(points: Sequence[RunRecord], replays: Sequence[float]) -> float | None:
    fastest = max(points, key=lambda record: record.rate)
    if replays:
        return max(median(replays), fastest.rate)
    return fastest.rate if _saturation(fastest) < SATURATED else None


def _saturation(record: RunRecord) -> float:
    """Part of its CPUs that a job used; 0 if nobody knows."""
    return record.cpu_s * record.rate / record.cell.cpus


def _cpu_s(points: Sequence[RunRecord]) -> float | None:
    """CPU time of a step whose data are cached, where anybody knows what is."""
    counted = _counted(points)
    if counted:
        read_s = _read_cpu_s(points)
        return max(median(record.cpu_s - _missed(record) * read_s for record in counted), _LEAST_CPU_S)
    slow = min(points, key=lambda record: record.cell.cpus)
    fast = max(points, key=lambda record: record.rate)
    return slow.cell.cpus / slow.rate if slow.rate < SATURATED * fast.rate else None


def _counted(points: Sequence[RunRecord]) -> list[RunRecord]:
    """Runs whose CPU time says what a step needs: those that CPUs held up, else all of which it is known."""
    known = [record for record in points if record.cpu_s > 0]
    return [record for record in known if _saturation(record) >= SATURATED] or known


def _missed(record: RunRecord) -> float:
    return record.data.missed if record.data is not None else 0.0


def _read_cpu_s(points: Sequence[RunRecord]) -> float:
    """CPU time of reading a step's data, by runs with the same CPUs that had more and less of them cached."""
    counted = _counted(points)
    slopes = [
        (one.cpu_s - other.cpu_s) / (_missed(one) - _missed(other))
        for one, other in itertools.combinations(counted, 2)
        if one.cell.cpus == other.cell.cpus and abs(_missed(one) - _missed(other)) >= _APART
    ]
    return max(0.0, median(slopes)) if slopes else 0.0


def _with_data(stages: Stages, points: Sequence[RunRecord]) -> Stages:
    """The parameters of the data side, where the job has one that counts."""
    sides = [(record, record.data) for record in points if record.data is not None]
    if not sides:
        return stages
    free = [(record, side) for record, side in sides if record.cell.mbps is None and side.missed > 0.05]
    fetch_s = median(side.fetch_s / side.missed for _, side in free) if free else 0.0
    step_mb = median(side.step_mb for _, side in sides)
    workers = max(side.workers for _, side in sides)
    reserves = [
        record.cell.memory_gb - side.cache_gb
        for record, side in sides
        if record.cell.memory_gb is not None and side.cache_gb > 0
    ]
    return replace(
        stages,
        workers=max(workers, 1),
        prepare_s=min(side.prepare_s for _, side in sides),
        fetch_s=fetch_s,
        step_mb=step_mb,
        data_gb=max(side.data_gb for _, side in sides) or None,
        reserve_gb=_reserve(sides, reserves),
        reserve_part=RESERVED_PART if _by_default(sides) else 0.0,
        storage_mbps=max(workers, 1) * step_mb / fetch_s if fetch_s > 0 and step_mb > 0 else None,
    )


def _by_default(sides: Sequence[tuple[RunRecord, object]]) -> bool:
    """Whether the data path kept the memory back that it does when nobody says how much."""
    for record, side in sides:
        memory = record.cell.memory_gb
        if memory is None:
            continue
        usual = max(memory - max(LEAST_RESERVE_GB, RESERVED_PART * memory), 0.0)
        if abs(usual - getattr(side, "cache_gb", 0.0)) > 0.01 * memory:
            return False
    return True


def _reserve(sides: Sequence[tuple[RunRecord, object]], reserves: Sequence[float]) -> float:
    return LEAST_RESERVE_GB if _by_default(sides) or not reserves else max(0.0, median(reserves))


def _misfit(stages: Stages, points: Sequence[RunRecord]) -> float:
    return sum(_residual(stages, record) ** 2 for record in points)


def _residual(stages: Stages, record: RunRecord) -> float:
    return math.log(record.rate / modelled(stages, record.cell))


def modelled(stages: Stages, cell: Cell) -> float:
    """Steps/s by the formula alone."""
    if cell.replay:
        return stages.device_rate or math.inf
    return float(stages.rate(cell.cpus, _memory(cell), cell.mbps))


def alike(stages: Stages, one: Cell, other: Cell) -> bool:
    """Whether two cells are the same to the job: memory beyond what holds all of its data makes no difference."""
    if one == other:
        return True
    if (one.cpus, one.mbps, one.replay) != (other.cpus, other.mbps, other.replay) or stages.data_gb is None:
        return False
    return all(float(stages.cached(_memory(cell))) > _ALL for cell in (one, other))


def predict(stages: Stages, records: Sequence[RunRecord], cell: Cell) -> Prediction:
    """The speed of a cell: as measured, or by formula and residuals."""
    points = [record for record in records if record.usable and not record.cell.replay]
    same = [record for record in points if alike(stages, record.cell, cell)]
    if same:
        weights = [1 / max(record.half_width, 1e-3) ** 2 for record in same]
        rate = sum(record.rate * w for record, w in zip(same, weights, strict=True)) / sum(weights)
        own = max(min(record.half_width for record in same), 0.005)
        return Prediction(rate, math.hypot(own, _run_error(stages, points) / math.sqrt(len(same))))
    rate = _carried_over(stages, points, cell)
    nearest = min(points, key=lambda record: _distance(stages, record.cell, cell))
    far = min(1.0, math.sqrt(_distance(stages, nearest.cell, cell)))
    own = min(nearest.half_width, 1.0)
    off = own + _ALLOWANCE * _left_out_error(stages, points) * far
    error = max(off, math.hypot(own, _run_error(stages, points))) + _knee_error(stages, cell)
    return Prediction(rate, max(error, LEAST_ERROR))


def _run_error(stages: Stages, points: Sequence[RunRecord]) -> float:
    """What a run as a whole may be off by, beside what its own blocks show."""
    left_out = _left_out_error(stages, points) / _OF_BOTH
    squares = left_out**2
    known = 1
    for cell in {record.cell for record in points}:
        speeds = [math.log(record.rate) for record in points if record.cell == cell]
        if len(speeds) > 1:
            squares += (len(speeds) - 1) * variance(speeds)
            known += len(speeds) - 1
    return _ALLOWANCE * math.sqrt(squares / known)


def _carried_over(stages: Stages, points: Sequence[RunRecord], cell: Cell) -> float:
    weights = np.array([1 / (_distance(stages, record.cell, cell) + _NEAR) for record in points])
    residuals = np.array([_residual(stages, record) for record in points])
    carried = float((weights * residuals).sum() / weights.sum()) if len(points) else 0.0
    return modelled(stages, cell) * math.exp(carried)


def _left_out_error(stages: Stages, points: Sequence[RunRecord]) -> float:
    """Root of the mean square of what predictions of measured cells from the others are off by."""
    errors = []
    for record in points:
        others = [other for other in points if other.cell != record.cell]
        if others:
            errors.append(math.log(record.rate / _carried_over(stages, others, record.cell)))
    return math.sqrt(sum(error**2 for error in errors) / len(errors)) if errors else 0.1


def _distance(stages: Stages, one: Cell, other: Cell) -> float:
    """How little one cell says about another: squares of doublings of CPUs, of cached parts, of storage."""
    cpus = math.log2(one.cpus / other.cpus)
    cached = 2 * (float(stages.cached(_memory(one))) - float(stages.cached(_memory(other))))
    storage = 0.0
    if (one.mbps, other.mbps) != (None, None):
        storage = 1.0 if one.mbps is None or other.mbps is None else math.log2(one.mbps / other.mbps)
    limits = [stages.limit(cell.cpus, _memory(cell), cell.mbps) for cell in (one, other)]
    return cpus**2 + cached**2 + storage**2 + (2.0 if limits[0] != limits[1] else 0.0)


def _knee_error(stages: Stages, cell: Cell) -> float:
    bounds = sorted(float(bound) for bound in stages.bounds(cell.cpus, _memory(cell), cell.mbps))
    apart = math.log(bounds[1] / bounds[0]) if math.isfinite(bounds[1]) else math.inf
    return _KNEE_ERROR * max(0.0, 1 - apart / _CLOSE_STAGES)


def _memory(cell: Cell) -> float:
    return math.inf if cell.memory_gb is None else cell.memory_gb


def per_gpu(stages: Stages, gpus: int) -> Stages:
    """The same with CPUs, memory and storage counted per GPU."""
    if gpus == 1:
        return stages
    return replace(
        stages,
        cpu_s=None if stages.cpu_s is None else stages.cpu_s / gpus,
        read_cpu_s=stages.read_cpu_s / gpus,
        step_mb=stages.step_mb / gpus,
        data_gb=None if stages.data_gb is None else stages.data_gb / gpus,
        reserve_gb=stages.reserve_gb / gpus,
        resident_gb=stages.resident_gb / gpus,
        storage_mbps=None if stages.storage_mbps is None else stages.storage_mbps / gpus,
    )
