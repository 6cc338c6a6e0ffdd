"""From the runs of a job to its profile file."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from rota.core.arrays import FloatArray
from rota.profiler.blocks import ENOUGH_BLOCKS
from rota.profiler.blocks import WIDE as WIDEST
from rota.profiler.cell import CONTAMINATED, WIDE, Cell, JobToProfile, RunRecord
from rota.profiler.cell import FAILED as RUN_FAILED
from rota.profiler.fit import alike, per_gpu, predict, stages_of
from rota.profiler.search import DRIFT, Plan, drift_of, memory_axis
from rota.profiles.cells import FAILED, MEASURED, PREDICTED, CellNotes
from rota.profiles.stages import Stages
from rota.profiles.writing import ProfiledModel, ProfileDocument

_FURTHEST = 4
"""A knee beyond the most CPUs that were measured gets a row up to this many times of them."""
_PAGE_CACHE = (
    "memory was not varied: without rota.data a script reads through the page cache, whose hit ratio nobody knows"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Where:
    """On what a job was profiled."""

    type: str
    machine: str
    remarks: tuple[str, ...] = ()


def document(job: JobToProfile, plan: Plan, records: Sequence[RunRecord], where: Where) -> ProfileDocument:
    """The profile of a job with at least one usable run."""
    stages = stages_of(records)
    remarks = [*where.remarks, *_remarks(job, plan, records, stages)]
    about = {
        "title": f"{job.name} with {job.gpus} x {where.type}, profiled in {len(records)} runs",
        "source": "rota profile",
        "command": " ".join(job.argv),
        "machine": where.machine,
    }
    if remarks:
        about["remarks"] = "; ".join(dict.fromkeys(remarks))
    return ProfileDocument(name=job.name, models=[_model(job, plan, records, stages, where.type)], about=about)


def _model(job: JobToProfile, plan: Plan, records: Sequence[RunRecord], stages: Stages, gpu_type: str) -> ProfiledModel:
    cpus = _cpu_rows(plan, stages)
    memory = memory_axis(stages, plan.memory_gb)
    rates: FloatArray = np.full((len(cpus), len(memory)), math.nan)
    errors: FloatArray = np.full((len(cpus), len(memory)), math.nan)
    origin: list[tuple[str, ...]] = []
    reasons: list[tuple[str, ...]] = []
    for row, count in enumerate(cpus):
        cells = [_known(stages, records, Cell(count, amount), plan) for amount in memory]
        origin.append(tuple(cell[0] for cell in cells))
        reasons.append(tuple(cell[3] for cell in cells))
        rates[row] = [cell[1] for cell in cells]
        errors[row] = [cell[2] for cell in cells]
    return ProfiledModel(
        profile=job.name,
        type=gpu_type,
        gpus=job.gpus,
        cpus=np.array(cpus) / job.gpus,
        memory_gb=np.array(memory) / job.gpus,
        rates=rates,
        cells=CellNotes(origin=tuple(origin), error=errors, reasons=tuple(reasons)),
        stages=per_gpu(stages, job.gpus),
    )


def _cpu_rows(plan: Plan, stages: Stages) -> tuple[float, ...]:
    """The axis with the knee in it, so that nobody interpolates across it."""
    rows = set(plan.cpu_axis)
    for memory in memory_axis(stages, plan.memory_gb)[-1:]:
        knee = stages.knee_cpus(memory)
        if knee is not None and plan.cpu_axis[0] < knee <= _FURTHEST * plan.cpu_axis[-1]:
            near = min(rows, key=lambda cpus: abs(cpus / knee - 1))
            if abs(near / knee - 1) > 0.05:
                rows.add(float(f"{knee:.3g}"))
    return tuple(sorted(rows))


def _known(stages: Stages, records: Sequence[RunRecord], cell: Cell, plan: Plan) -> tuple[str, float, float, str]:
    """Origin, steps/s, error and reason of a cell."""
    of_cell = [record for record in records if alike(stages, record.cell, cell)]
    failed = [record for record in of_cell if record.outcome == RUN_FAILED]
    failed += [record for record in records if record.needs_more_than(cell)]
    if failed and not any(record.usable for record in of_cell):
        return FAILED, math.nan, math.nan, failed[-1].reason
    found = predict(stages, records, cell)
    origin = MEASURED if any(record.usable for record in of_cell) else PREDICTED
    error = found.error
    if origin == MEASURED and alike(stages, cell, Cell(plan.cpu_axis[-1], plan.memory_gb)):
        error = max(error, drift_of(plan, records) / 2)
    return origin, found.rate, error, ""


def _remarks(job: JobToProfile, plan: Plan, records: Sequence[RunRecord], stages: Stages) -> list[str]:
    remarks = [remark for record in records for remark in record.remarks]
    if stages.data_gb is None:
        remarks.append(_PAGE_CACHE)
    if stages.device_rate is None:
        remarks.append("CPUs held it up in every run, so the speed of the device alone is not known: it is higher")
    if (drift := drift_of(plan, records)) > DRIFT:
        remarks.append(f"the reference cell drifted by {100 * drift:.0f} % between runs: something else changed")
    unsettled = [record for record in records if record.outcome == WIDE]
    if wide := [str(record.cell) for record in unsettled if record.half_width > WIDEST]:
        remarks.append(f"intervals wider than {100 * WIDEST:g} %: {' / '.join(wide)}")
    if short := [str(record.cell) for record in unsettled if record.half_width <= WIDEST]:
        remarks.append(f"fewer than {ENOUGH_BLOCKS} blocks that tell something new each: {' / '.join(short)}")
    disturbed = {record.cell for record in records if record.outcome == CONTAMINATED}
    usable = {record.cell for record in records if record.usable}
    if lost := sorted(str(cell) for cell in disturbed - usable):
        remarks.append(f"not measured because of other programs: {' / '.join(lost)}")
    return remarks + _batch_remarks(job, records)


def _batch_remarks(job: JobToProfile, records: Sequence[RunRecord]) -> list[str]:
    """A script that takes no notice of -b is found out by what it reads."""
    items = [record.data.items for record in records if record.data is not None]
    if job.batch is None or not items or abs(items[0] / job.batch - 1) < 0.05:
        return []
    return [f"it read {items[0]:.3g} items per step and not {job.batch}: the script takes no notice of -b"]
