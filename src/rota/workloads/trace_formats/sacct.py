"""Accounting of Slurm: what `sacct -P` prints, cut at `|`, with a header.

For example `sacct -aPX -S 2026-01-01 -o
JobID,User,Account,Partition,Submit,Start,End,State,AllocTRES`. Needed are JobID (or JobIDRaw) and
Submit; the duration is End - Start, ElapsedRaw or Elapsed, the first of them that is there; GPUs,
CPUs and memory come from AllocTRES, or ReqTRES where that is empty, GPUs also from AllocGRES or
ReqGRES of older versions. Lines of job steps (`123.batch`) are skipped; jobs without GPUs, and
those not started or not ended yet, are left out (without End, State says which have not; without
State, all are taken for ended). The tenant is the account (tenant=user, partition
or qos for another column). Jobs that failed, were cancelled or timed out held their GPUs and are
kept; with failed=drop only COMPLETED ones stay. Times may be seconds since 1970 as well.

Types of GPU are the names after `gres/gpu:`. The type in AllocTRES is where the job ran; the one in
ReqTRES, if there is one, is where it may run. Partitions stand for types if partitions=NAME:TYPE,...
says so. Jobs are replayed as recorded unless assign gives them models. With queue=keep, JobID tells
which jobs are in an array and Timelimit how long they may run; dependencies are not in a listing.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from rota.core.arrays import FloatArray
from rota.core.errors import TraceError
from rota.core.gpu_types import ANY, NOT_SAID, TypeSet
from rota.core.jobs import Jobs, requests
from rota.core.parsing import is_count
from rota.core.queue_columns import QueueColumns, queue_columns
from rota.core.slurm_text import seconds_of
from rota.workloads.assign import Assignment, Logged
from rota.workloads.files import TraceFile
from rota.workloads.logs import Left, names_of, read_only
from rota.workloads.registry import EVERYTHING, formats
from rota.workloads.rows import TraceRows, header_of, with_header
from rota.workloads.settings import chosen
from rota.workloads.times import elapsed_s
from rota.workloads.type_rules import TypeRules

IDS = ("JobID", "JobIDRaw")
TENANTS = {"account": "Account", "user": "User", "partition": "Partition", "qos": "QOS"}
GB = {"": 1 / 1024, "K": 1 / 1024**2, "M": 1 / 1024, "G": 1.0, "T": 1024.0, "P": 1024.0**2}
AMOUNT = re.compile(r"(\d+(?:\.\d*)?)([KMGTP]?)[Bcn]?$")
GRES = re.compile(r"(?:gres/)?gpu(?::[^:,=(]+)?[:=](\d+)")
TYPED = re.compile(r"(?:gres/)?gpu:([^:,=(]+)[:=]\d+")


@formats.register("sacct")
class SacctTrace:
    """Accounting of Slurm (`sacct -P`). Only read; replayed as recorded, or with models by a rule."""

    holds = EVERYTHING

    def __init__(
        self,
        *,
        assign: str = "recorded",
        assign_seed: int | None = None,
        profiles: str | None = None,
        reference: str | None = None,
        failed: str = "keep",
        tenant: str = "account",
        types: str = "keep",
        elsewhere: str = "never",
        rename: str = "",
        partitions: str = "",
        queue: str = "ignore",
    ) -> None:
        self._types = TypeRules(types=types, elsewhere=elsewhere, rename=rename, partitions=partitions)
        self._assignment = Assignment(assign, assign_seed, profiles, reference, self._types)
        self._failed = chosen("failed", failed, ("keep", "drop"))
        self._queue = chosen("queue", queue, ("ignore", "keep"))
        self._tenant = TENANTS[chosen("tenant", tenant, tuple(TENANTS))]

    def recognises(self, first_line: str) -> bool:
        """Whether this line is a header, cut at `|`, with an id and Submit."""
        columns = set(header_of(first_line, "|"))
        return "Submit" in columns and bool(columns & set(IDS))

    def read(self, file: TraceFile) -> Jobs:
        """The jobs of a listing."""
        rows = _jobs_only(with_header(file, ("Submit",), "|", kind="listing"), file)
        submitted = rows.times("Submit", needed=True)
        states = np.array([state.strip().split(" ")[0].rstrip("+") for state in _column(rows, "State", "COMPLETED")])
        duration = _durations(rows, file, states)
        columns = [_column(rows, name) for name in ALLOCATED]
        asked = [_asked(*row) for row in zip(*columns, strict=True)]
        gpus, cpus, memory = (np.array(column, dtype=np.float64) for column in zip(*asked, strict=True))
        left = Left(file, rows.lines)
        left.out(gpus == 0, "have no GPUs")
        left.out(~(duration > 0), "have not run, or not ended")
        left.unfinished(states != "COMPLETED", self._failed)
        asked_for, ran_on = self._gpu_types(rows, columns)
        log = Logged(
            submitted=submitted,
            duration=duration,
            gpus=gpus.astype(np.int64),
            tenants=[name.strip() or "default" for name in _column(rows, self._tenant)],
            requests=requests(len(rows), cpus=cpus, memory_gb=memory),
            asked=asked_for,
            ran_on=ran_on,
            names=names_of(rows, next(name for name in IDS if name in rows.cells)),
            queue=_queue(rows) if self._queue == "keep" else None,
        )
        return left.jobs(log, self._assignment)

    def _gpu_types(self, rows: TraceRows, columns: Sequence[list[str]]) -> tuple[list[TypeSet], list[str]]:
        """The types that jobs asked for, and the one on which each ran."""
        alloc, req, alloc_gres, req_gres = columns
        held = [_types(tres) or _types(gres) for tres, gres in zip(alloc, alloc_gres, strict=True)]
        wanted = [_types(tres) or _types(gres) for tres, gres in zip(req, req_gres, strict=True)]
        mixed = [len(types) > 1 for types in held]
        if any(mixed):
            what = f"{sum(mixed):,} jobs held GPUs of several types at once"
            rows.problems.remark(rows.lines[mixed.index(True)], what, "here each runs on one of these types")
        # Who held several types may run on any of them; who held one and asked for none in particular runs there.
        asked = [want or (have if len(have) > 1 else ANY) for want, have in zip(wanted, held, strict=True)]
        ran_on = [have[0] if len(have) == 1 else NOT_SAID for have in held]
        named = self._types.asked(asked), self._types.ran_on(ran_on)
        partitions = [cell.strip() for cell in _column(rows, "Partition")]
        return self._types.by_partition(*named, partitions, rows.problems)

    def write(self, jobs: Jobs, *, exact: bool) -> Iterator[str]:
        """Refuses: accounting has neither models nor steps."""
        raise read_only("sacct", jobs)


NOT_ENDED = (
    "COMPLETING", "CONFIGURING", "PENDING", "REQUEUED", "REQUEUE_FED", "REQUEUE_HOLD", "RESIZING", "RUNNING",
    "SIGNALING", "STAGE_OUT", "STOPPED", "SUSPENDED",
)  # fmt: skip
"""States of jobs of which Elapsed is the time so far."""
ALLOCATED = ("AllocTRES", "ReqTRES", "AllocGRES", "ReqGRES")


def _column(rows: TraceRows, name: str, default: str = "") -> list[str]:
    return list(rows.filled(name, default).cells[name])


def _queue(rows: TraceRows) -> QueueColumns | None:
    """Arrays (JobID 17_3 is in array 17) and time limits; what jobs waited for is not in a listing."""
    ids = (cell.strip().partition("_") for cell in _column(rows, "JobID"))
    limits = [seconds_of(cell) if cell.strip() else None for cell in _column(rows, "Timelimit")]
    return queue_columns(
        len(rows),
        array=[number if index else "" for number, index, _ in ids],
        time_limit_s=[seconds or np.inf for seconds in limits],
    )


def _types(text: str) -> TypeSet:
    """The types of GPU in a list of resources."""
    return tuple(sorted(set(TYPED.findall(text))))


def _jobs_only(rows: TraceRows, file: TraceFile) -> TraceRows:
    """Without the lines of job steps."""
    ids = next((rows.cells[name] for name in IDS if name in rows.cells), None)
    if ids is None:
        fix = "ask sacct for it with -o JobID,..."
        raise TraceError(file.path, 1, f"the header has no column JobID; {fix}")
    if not any(name in rows.cells for name in ALLOCATED):
        fix = "ask sacct for it with -o ...,AllocTRES"
        raise TraceError(file.path, 1, f"the header has no column AllocTRES; {fix}")
    keep = [i for i, cell in enumerate(ids) if cell.strip() and "." not in cell]
    if not keep:
        fix = "run sacct with -X"
        what = "there are only job steps"
        raise TraceError(file.path, rows.lines[0] if rows.lines else 1, f"{what}; {fix}")
    cells = {name: [column[i] for i in keep] for name, column in rows.cells.items()}
    return TraceRows(problems=rows.problems, lines=[rows.lines[i] for i in keep], cells=cells)


def _durations(rows: TraceRows, file: TraceFile, states: NDArray[np.str_]) -> FloatArray:
    """Seconds from start to end; NaN for jobs that have not ended."""
    if "Start" in rows.cells and "End" in rows.cells:
        return rows.times("End", needed=False) - rows.times("Start", needed=False)
    elapsed = _elapsed(rows, file)
    elapsed[np.isin(states, NOT_ENDED)] = np.nan
    return elapsed


def _elapsed(rows: TraceRows, file: TraceFile) -> FloatArray:
    """Seconds that jobs ran; of those that have not ended, so far."""
    if "ElapsedRaw" in rows.cells:
        return rows.optional("ElapsedRaw", "a duration; give seconds >= 0", zero=True)
    if "Elapsed" not in rows.cells:
        fix = "ask sacct for -o ...,Start,End"
        raise TraceError(file.path, 1, f"the header has neither Start and End nor Elapsed; {fix}")
    durations = np.full(len(rows), np.nan)
    for row, cell in enumerate(rows.cells["Elapsed"]):
        durations[row] = elapsed_s(cell.strip())
        if np.isnan(durations[row]):
            rows.refuse(row, "Elapsed", "a duration; sacct writes [days-]hours:minutes:seconds")
    return durations


def _asked(alloc: str, req: str, alloc_gres: str, req_gres: str) -> tuple[int, float, float]:
    """GPUs, CPUs and GB of a job; NaN where a listing says nothing."""
    parts = (alloc.strip() or req.strip()).split(",")
    tres = dict(part.partition("=")[::2] for part in parts if part)
    gpus = tres.get("gres/gpu", "")
    if not is_count(gpus):
        by_type = [count for name, count in tres.items() if name.startswith("gres/gpu:")]
        typed = [count for count in by_type if is_count(count)]
        gres = GRES.findall(alloc_gres.strip() or req_gres.strip())
        gpus = str(sum(int(count) for count in typed or gres if is_count(count)))
    memory = AMOUNT.match(tres.get("mem", ""))
    cpus = tres.get("cpu", "")
    return (
        int(gpus),
        float(cpus) if is_count(cpus) and int(cpus) > 0 else np.nan,
        float(memory[1]) * GB[memory[2]] if memory and float(memory[1]) > 0 else np.nan,
    )
