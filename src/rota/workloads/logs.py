"""What readers of cluster logs share: which jobs count, and which settings they have."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from rota.core.arrays import BoolArray
from rota.core.errors import ConfigError, OutputError, TraceError
from rota.core.jobs import Jobs
from rota.workloads.assign import Assignment, Logged
from rota.workloads.files import TraceFile


def chosen(setting: str, value: str, known: Sequence[str]) -> str:
    """A setting that is one of a few words."""
    if value not in known:
        fix = "give one of these"
        raise ConfigError(f"{setting} = {value!r} is not one of {', '.join(known)}; {fix}")
    return value


def read_only(name: str, jobs: Jobs) -> OutputError:
    """The answer of a format that is only read."""
    return OutputError(f"{name} is only read: it cannot hold the models of {len(jobs):,} jobs; use csv")


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
        return assignment.jobs(log.only(np.flatnonzero(self.keep)))
