"""Which cell is measured next: a handful of runs, and the rest by the pipeline model.

The largest cell first (what the job is like), the device alone, the fewest CPUs, a point on each side
of the predicted knee c* = k rate, the least memory, the storage speeds that were asked for; then
check cells where the model is least sure. A check that is off by more than 5 % asks for another one,
until two in a row are within it or the runs are used up. Every fifth run the first cell is measured
again: if it drifted by more than 5 %, something else changed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rota.profiler.cell import CONTAMINATED, Cell, JobToProfile, RunRecord
from rota.profiler.fit import alike, predict, stages_of
from rota.profiles.stages import Stages

REFERENCE_EVERY = 5
DRIFT = 0.05
GOOD_CHECK = 0.05
CHECKS = 2
TRIES = 3
"""How often a cell that others disturbed is tried."""
_CPU_PARTS = (1 / 8, 1 / 4, 3 / 8, 1 / 2, 3 / 4, 1)
_CACHED = (0.0, 0.25, 0.5, 0.75, 1.0)
_HEAD_ROOM = 1.2


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What is to be known, and at what price."""

    cpu_axis: tuple[float, ...]
    memory_gb: float
    storage_mbps: tuple[float, ...] = ()
    most_runs: int = 10


@dataclass(frozen=True, slots=True)
class NextRun:
    """A cell to measure, why, and for a check what is expected."""

    cell: Cell
    why: str
    expected: float | None = None


def cpu_axis(cpus: float) -> tuple[float, ...]:
    """Six numbers of CPUs up to the most: whole ones where there are many, from 1 on."""
    if cpus < 8:
        return tuple(round(cpus * part, 3) for part in _CPU_PARTS)
    return tuple(sorted({1.0, *(float(max(1, round(cpus * part))) for part in _CPU_PARTS[1:])}))


def memory_axis(stages: Stages, most_gb: float) -> tuple[float, ...]:
    """GB at which the cache holds none to all of the data, from what the job needs to run at all on."""
    least = min(round(max(stages.resident_gb * _HEAD_ROOM, stages.resident_gb + 0.05), 3), most_gb)
    if stages.data_gb is None:
        return tuple(sorted({least, most_gb}))
    wanted = (max(least, round(stages.memory_for(part), 4)) for part in _CACHED)
    return tuple(sorted({min(amount, most_gb) for amount in wanted}))


def reference(plan: Plan) -> Cell:
    """The cell with most of everything."""
    return Cell(plan.cpu_axis[-1], plan.memory_gb)


def next_run(plan: Plan, records: Sequence[RunRecord]) -> NextRun | None:
    """What to measure now; None when it is enough, or cannot be had."""
    first = reference(plan)
    done = [record for record in records if record.outcome != CONTAMINATED]
    tried = [record.cell for record in records]
    known = {record.cell for record in done} | {cell for cell in tried if tried.count(cell) >= TRIES}
    if first not in known:
        return NextRun(first, "reference")
    if not any(record.usable and record.cell == first for record in done):
        return None
    if len(done) >= plan.most_runs:
        return None
    since = len(records) - 1 - max(i for i, cell in enumerate(tried) if cell == first)
    if since >= REFERENCE_EVERY and tried.count(first) < TRIES:
        return NextRun(first, "reference again")
    for wanted in _wanted(plan, records):
        if wanted.cell not in known:
            return wanted
    return _check(plan, done, known)


def _wanted(plan: Plan, records: Sequence[RunRecord]) -> list[NextRun]:
    """What is measured in any case, in this order."""
    stages = stages_of(records)
    first = reference(plan)
    memory = memory_axis(stages, plan.memory_gb)
    runs = []
    if any(record.source == "client" for record in records):
        runs.append(NextRun(Cell(first.cpus, first.memory_gb, replay=True), "device alone"))
    runs.append(NextRun(Cell(plan.cpu_axis[0], first.memory_gb), "fewest CPUs"))
    knee = stages.knee_cpus(plan.memory_gb)
    if knee is not None:
        below = [cpus for cpus in plan.cpu_axis if cpus <= knee]
        above = [cpus for cpus in plan.cpu_axis if cpus > knee]
        sides = ([below[-1]] if below else []) + ([above[0]] if above else [])
        runs += [NextRun(Cell(cpus, first.memory_gb), "beside the knee") for cpus in sides]
    if stages.data_gb is not None:
        runs.append(NextRun(Cell(first.cpus, memory[0]), "least memory"))
    runs += [NextRun(Cell(first.cpus, memory[0], mbps), "storage") for mbps in plan.storage_mbps]
    return runs


def grid(plan: Plan, stages: Stages) -> list[Cell]:
    """All cells of the table, in the order of the axes."""
    memory = memory_axis(stages, plan.memory_gb)
    return [Cell(cpus, amount) for cpus in plan.cpu_axis for amount in memory]


def _check(plan: Plan, done: Sequence[RunRecord], known: set[Cell]) -> NextRun | None:
    checks = [record for record in done if record.check is not None and record.usable]
    recent = [abs(record.rate / (record.check or 1.0) - 1) for record in checks[-CHECKS:]]
    if len(recent) == CHECKS and max(recent) <= GOOD_CHECK:
        return None
    stages = stages_of(done)
    open_cells = [
        cell
        for cell in grid(plan, stages)
        if _varies(plan, stages, cell)
        and not any(alike(stages, cell, other) for other in known)
        and not any(record.needs_more_than(cell) for record in done)
    ]
    if not open_cells:
        return None
    cell = max(open_cells, key=lambda candidate: predict(stages, done, candidate).error)
    return NextRun(cell, "check", predict(stages, done, cell).rate)


def _varies(plan: Plan, stages: Stages, cell: Cell) -> bool:
    """Whether the cell can say anything: memory that is not modelled makes no difference."""
    return stages.data_gb is not None or cell.memory_gb == plan.memory_gb


def runs_left(plan: Plan, records: Sequence[RunRecord]) -> int:
    """About how many runs are still to come, for a progress bar."""
    done = [record for record in records if record.outcome != CONTAMINATED]
    if not done:
        return min(plan.most_runs, 6 + len(plan.storage_mbps))
    try:
        known = {record.cell for record in done}
        fixed = sum(run.cell not in known for run in _wanted(plan, records))
    except ValueError:
        return 1
    checks = sum(record.check is not None for record in done)
    return max(0, min(plan.most_runs - len(done), fixed + max(0, CHECKS - checks)))


def drift_of(plan: Plan, records: Sequence[RunRecord]) -> float:
    """How far the speeds of the reference cell are apart, relative."""
    rates = [record.rate for record in records if record.usable and record.cell == reference(plan)]
    return max(rates) / min(rates) - 1 if rates else 0.0


def plan_for(job: JobToProfile, storage_mbps: Sequence[float], most_runs: int, axis: Sequence[float]) -> Plan:
    """The plan of a job."""
    return Plan(
        cpu_axis=tuple(sorted(set(axis))) or cpu_axis(job.cpus),
        memory_gb=job.memory_gb,
        storage_mbps=tuple(sorted(set(storage_mbps))),
        most_runs=most_runs,
    )
