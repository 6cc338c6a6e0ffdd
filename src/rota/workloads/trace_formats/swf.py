"""The Standard Workload Format of the Parallel Workloads Archive.

18 columns of numbers, comments after `;`.

Used are submit time, run time, allocated processors (requested ones where they are -1), requested
memory (kB per processor), status and the user. Archived logs count processors; processors_per_gpu=N
makes GPUs of them, rounded up, and 1 takes each processor for a GPU. A job that took no time or had
no processors is left out, and so are the parts of checkpointed jobs (status 2 to 4), whose sum has
a line of its own. Jobs that failed or were cancelled (status 0, 5) held their GPUs and are kept;
failed=drop leaves them out. The tenant is the user (tenant=group, queue or partition for another
column). Files we write name models in comments (`; Note: application 1 = res50`), and these are
read again.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import numpy as np

from rota.core.errors import OutputError, TraceError
from rota.core.jobs import Jobs, requests
from rota.workloads import cells
from rota.workloads.assign import Assignment, Logged
from rota.workloads.files import TraceFile
from rota.workloads.logs import Left
from rota.workloads.registry import Holds, formats
from rota.workloads.rows import MOST_GPUS, TraceRows
from rota.workloads.settings import chosen, whole

COLUMNS = (
    "job", "submit", "wait", "run", "processors", "cpu_time", "memory", "requested_processors", "requested_time",
    "requested_memory", "status", "user", "group", "application", "queue", "partition", "preceding_job", "think_time",
)  # fmt: skip
TENANTS = ("user", "group", "queue", "partition")
NAMED = re.compile(r"; Note: (application|tenant) (\d+) = (.*)")
PARTS = (2, 3, 4)
FAILED = (0, 5)


@formats.register("swf")
class SwfTrace:
    """The Standard Workload Format, 18 columns of numbers.

    Models are given by a rule if no comment names them.
    """

    holds = Holds(durations=True, tenants=True)

    def __init__(
        self,
        *,
        assign: str = "like",
        assign_seed: int | None = None,
        profiles: str | None = None,
        reference: str | None = None,
        failed: str = "keep",
        tenant: str = "user",
        processors_per_gpu: int = 1,
    ) -> None:
        self._assignment = Assignment(assign, assign_seed, profiles, reference)
        self._failed = chosen("failed", failed, ("keep", "drop"))
        self._tenant = chosen("tenant", tenant, TENANTS)
        self._per_gpu = whole("processors_per_gpu", processors_per_gpu, 1, "8")

    def recognises(self, first_line: str) -> bool:
        """Whether this line is a comment, or 18 numbers."""
        parts = first_line.split()
        is_comment = first_line.lstrip().startswith(";")
        return is_comment or (len(parts) == len(COLUMNS) and all(map(_is_number, parts)))

    def read(self, file: TraceFile) -> Jobs:
        """The jobs of a log."""
        rows, named = _rows(file)
        wanted = "a number; give one from 0 to 10^9, or -1 for none"
        numbers = {name: rows.floats(name, lambda v: (v >= -1) & (v <= MOST_GPUS), wanted) for name in USED}
        taken = numbers["processors"]
        asked = numbers["requested_processors"]
        processors = np.where(taken > 0, taken, asked)
        gpus = np.ceil(np.maximum(processors, 0) / self._per_gpu).astype(np.int64)
        left = Left(file, rows.lines)
        left.out(np.isin(numbers["status"], PARTS), "are parts of checkpointed jobs")
        left.out((gpus == 0) | (numbers["run"] <= 0), "took no time or had no processors")
        left.unfinished(np.isin(numbers["status"], FAILED), self._failed)
        memory = numbers["requested_memory"] * processors / 1024**2
        owners = named["tenant"] if self._tenant == "user" else {}
        log = Logged(
            submitted=np.maximum(numbers["submit"], 0.0),
            duration=numbers["run"],
            gpus=gpus,
            tenants=[_named(owners, cell, f"{self._tenant}-") for cell in rows.cells[self._tenant]],
            models=[_named(named["application"], cell, "") for cell in rows.cells["application"]],
            requests=requests(len(rows), memory_gb=np.where(memory > 0, memory, np.nan)),
            from_zero=True,
        )
        return left.jobs(log, self._assignment)

    def write(self, jobs: Jobs, *, exact: bool) -> Iterator[str]:
        """Comments with the names, then one line per job."""
        if np.isnan(jobs.duration).any():
            fix = "give --profiles to fill them in, or use csv"
            raise OutputError(f"the swf format needs durations; {fix}")
        if (jobs.weight != 1).any() or (jobs.slo == jobs.slo).any():
            raise OutputError("the swf format cannot hold weights or deadlines; use csv")
        yield "; Version: 2.2\n; Note: processors are GPUs\n"
        for kind, names in (("application", jobs.profiles), ("tenant", jobs.tenants)):
            for number, name in enumerate(names, 1):
                yield f"; Note: {kind} {number} = {cells.plain(name, LINE_ENDS)}\n"
        columns = (jobs.submitted, jobs.duration, jobs.gpus, jobs.tenant, jobs.profile)
        text = cells.whole_or_exact
        for number, (at, length, gpus, tenant, profile) in enumerate(
            zip(*(c.tolist() for c in columns), strict=True), 1
        ):
            yield (
                f"{number} {text(at)} -1 {text(length)} {gpus} -1 -1 {gpus} -1 -1 1 {tenant + 1} "
                f"-1 {profile + 1} -1 -1 -1 -1\n"
            )


USED = ("submit", "run", "processors", "requested_processors", "requested_memory", "status")
LINE_ENDS = "\n\r\0"


def _rows(file: TraceFile) -> tuple[TraceRows, dict[str, dict[str, str]]]:
    """The lines with numbers, and what comments name."""
    named: dict[str, dict[str, str]] = {"application": {}, "tenant": {}}
    numbers = []
    jobs = []
    for number, line in enumerate(file.text.split("\n"), 1):
        if line.lstrip().startswith(";"):
            if note := NAMED.match(line.strip("\r")):
                named[note[1]][note[2]] = note[3]
            continue
        parts = line.split()
        if len(parts) == len(COLUMNS):
            numbers.append(number)
            jobs.append(parts)
        elif parts:
            what = f"{len(parts)} columns instead of {len(COLUMNS)}"
            file.problems.error(number, what, "write -1 for what is not known")
    if not jobs:
        raise TraceError(file.path, 1, "the log has no jobs; give at least one line of 18 numbers")
    cut = dict(zip(COLUMNS, zip(*jobs, strict=True), strict=True))
    return TraceRows(problems=file.problems, lines=numbers, cells=cut), named


def _named(names: dict[str, str], cell: str, prefix: str) -> str:
    """What a number stands for; the number itself where no comment says it, `default` for -1."""
    if cell in names:
        return names[cell]
    return "default" if cell == "-1" else f"{prefix}{cell}"


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
