"""What readers of cluster logs share: which jobs count, and which settings they have."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np

from rota.core.arrays import BoolArray
from rota.core.errors import OutputError, TraceError
from rota.core.jobs import RECORDED, Jobs
from rota.workloads.assign import Assignment, Logged
from rota.workloads.files import TraceFile
from rota.workloads.rows import TraceRows


def read_only(name: str, jobs: Jobs) -> OutputError:
    """The answer of a format that is only read."""
    return OutputError(f"{name} is only read: it cannot hold the models of {len(jobs):,} jobs; use csv")


def names_of(rows: TraceRows, column: str) -> list[str] | None:
    """What a log calls its jobs; None without the column. Later ones of the same name get a number."""
    if column not in rows.cells:
        return None
    seen: Counter[str] = Counter()
    names = []
    for cell, line in zip(rows.cells[column], rows.lines, strict=True):
        name = cell.strip() or f"line-{line}"
        seen[name] += 1
        names.append(name if seen[name] == 1 else f"{name}#{seen[name]}")
    repeated = sum(count - 1 for count in seen.values())
    if repeated:
        what = f"{repeated:,} lines have the {column} of an earlier one"
        rows.problems.remark(0, what, "each counts as a job of its own, named NAME#2 and so on")
    return names


class Left:
    """Which lines of a log become jobs; says how many did not, and why."""

    def __init__(self, file: TraceFile, lines: Sequence[int]) -> None:
        self._file = file
        self._lines = lines
        self.keep: BoolArray = np.ones(len(lines), dtype=bool)

    def out(self, which: BoolArray, why: str, fix: str = "") -> None:
        """Leave jobs out, with one remark for all of them."""
        gone = self.keep & which
        count = int(np.count_nonzero(gone))
        if count:
            line = self._lines[int(np.argmax(gone))]
            message = f"{count:,} of {len(gone):,} lines {why} and are left out"
            self._file.problems.remark(line, message, fix)
        self.keep = self.keep & ~which

    def unfinished(self, which: BoolArray, rule: str) -> None:
        """Leave jobs out that did not end well, if the setting `failed` says so."""
        if rule == "drop":
            self.out(which, "did not end well", "failed=keep keeps them")

    def jobs(self, log: Logged, assignment: Assignment) -> Jobs:
        """The jobs that are left, with profiles."""
        if not self.keep.any():
            fix = "give at least one that did"
            raise TraceError(self._file.path, 1, f"no job of the log ran on GPUs; {fix}")
        log = log.only(np.flatnonzero(self.keep))
        jobs = assignment.jobs(log)
        unknown = sorted(set(log.models or ()) - set(jobs.profiles) - {""}) if RECORDED in jobs.profiles else []
        if unknown:
            many = "1 model is" if len(unknown) == 1 else f"{len(unknown):,} models are"
            what = f"{many} not in the catalogue, e.g. {unknown[0]!r}"
            fix = "their jobs take as long as recorded, on the type where they ran; --profiles names another catalogue"
            self._file.problems.remark(0, what, fix)
        return jobs
