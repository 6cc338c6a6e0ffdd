"""Any table with a header, by a setting that says what its columns mean.

For example `columns=job_id:JobID,arrival:submit,duration:runtime_min*60,gpus:ngpu` (rota.workloads.mapping).
Needed are arrival, gpus, and duration or start and end, or steps with a model. Cells are cut at commas,
semicolons, tabs or `|`, whichever the header has most of. The first job arrives at 0. Lines without
GPUs and those without a duration are left out; a part of a GPU counts as a whole one, or is left out
with fractions=drop. Times are seconds or dates, or have the form time_format (`%d.%m.%Y %H:%M`). Jobs
whose model a catalogue has are scaled by its speeds; all others are replayed as recorded.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from rota.core.arrays import FloatArray, IntArray
from rota.core.errors import ConfigError
from rota.core.gpu_types import TypeSet
from rota.core.jobs import Jobs, requests
from rota.workloads import mapping
from rota.workloads.assign import Assignment, Logged
from rota.workloads.files import TraceFile
from rota.workloads.logs import Left, names_of, read_only
from rota.workloads.registry import EVERYTHING, formats
from rota.workloads.rows import MOST_GPUS, TraceRows, header_of, with_header
from rota.workloads.settings import chosen
from rota.workloads.type_rules import TypeRules, type_set

SEPARATORS = (",", ";", "\t", "|")
NEEDED = ("arrival", "gpus")


@formats.register("columns")
class ColumnsTrace:
    """Any table with a header, by the setting columns=arrival:submit,duration:minutes*60,gpus:ngpu. Only read."""

    holds = EVERYTHING

    def __init__(
        self,
        *,
        columns: str = "",
        time_format: str | None = None,
        fractions: str = "whole",
        assign: str | None = None,
        assign_seed: int | None = None,
        profiles: str | None = None,
        reference: str | None = None,
        types: str = "keep",
        elsewhere: str = "never",
        rename: str = "",
        partitions: str = "",
    ) -> None:
        self._given = mapping.parsed(columns)
        self._form = time_format
        self._fractions = chosen("fractions", fractions, ("whole", "drop"))
        self._types = TypeRules(types=types, elsewhere=elsewhere, rename=rename, partitions=partitions)
        by_default = "recorded" if "model" not in self._given else "known" if self._has_durations else "keep"
        self._assignment = Assignment(assign or by_default, assign_seed, profiles, reference, self._types)

    @property
    def _has_durations(self) -> bool:
        return "duration" in self._given or {"start", "end"} <= set(self._given)

    def recognises(self, first_line: str) -> bool:
        """Never: such a file is read because somebody says what its columns mean."""
        del first_line
        return False

    def read(self, file: TraceFile) -> Jobs:
        """The jobs of a table."""
        self._check()
        number, first = file.first_line
        separator = max(SEPARATORS, key=first.count)
        where = mapping.sources(self._given, header_of(first, separator), file.path, number)
        rows = with_header(file, (), separator, kind="table")
        duration = self._durations(rows, where)
        left = Left(file, rows.lines)
        gpus = self._gpus(rows, where, left)
        if self._has_durations:
            left.out(~(duration > 0), "have not run, or not ended")
        asked, ran_on = self._gpu_types(rows, where)
        log = Logged(
            submitted=mapping.arrivals(rows, where["arrival"], self._form),
            duration=duration,
            gpus=gpus,
            tenants=[name or "default" for name in _texts(rows, where, "tenant")],
            models=_texts(rows, where, "model") if "model" in where else None,
            steps=_amounts(rows, where, "steps") if "steps" in where else None,
            requests=requests(len(rows), **{name: _amounts(rows, where, name) for name in ("cpus", "memory_gb")}),
            asked=asked,
            ran_on=ran_on,
            names=names_of(rows, where["job_id"].column) if "job_id" in where else None,
        )
        return left.jobs(log, self._assignment)

    def write(self, jobs: Jobs, *, exact: bool) -> Iterator[str]:
        """Refuses: there is one table of our own, csv."""
        raise read_only("columns", jobs)

    def _check(self) -> None:
        missing = [name for name in NEEDED if name not in self._given]
        if not self._has_durations and not {"steps", "model"} <= set(self._given):
            missing.append("duration")
        if missing:
            known = ", ".join(mapping.MEANINGS)
            raise ConfigError(
                f"columns does not say where {' and '.join(missing)} {'is' if len(missing) == 1 else 'are'}; give e.g. "
                f"{mapping.EXAMPLE}. It may name {known}"
            )

    def _durations(self, rows: TraceRows, where: dict[str, mapping.Source]) -> FloatArray:
        if "duration" in where:
            return mapping.durations(rows, where["duration"], self._form)
        if self._has_durations:
            between = mapping.Source(where["end"].column, minus=where["start"].column)
            return mapping.durations(rows, between, self._form)
        return np.full(len(rows), np.nan)

    def _gpus(self, rows: TraceRows, where: dict[str, mapping.Source], left: Left) -> IntArray:
        """Whole GPUs; parts of one are rounded up or left out."""
        column = where["gpus"].column
        asked = mapping.numbers(rows, where["gpus"], "a number of GPUs; give a number >= 0, 0 or nothing for none")
        for row in np.flatnonzero(asked > MOST_GPUS).tolist():
            rows.refuse(row, column, f"a number of GPUs; give one up to {MOST_GPUS:,}")
        left.out(~(asked > 0), "have no GPUs")
        parts = left.keep & (asked % 1 != 0)
        if self._fractions == "drop":
            left.out(parts, "ask for a part of a GPU", "fractions=whole rounds up")
        elif parts.any():
            what = f"{np.count_nonzero(parts):,} jobs ask for a part of a GPU, which is rounded up to a whole one"
            rows.problems.remark(rows.lines[int(np.argmax(parts))], what, "fractions=drop leaves them out", column)
        return np.asarray(np.ceil(np.nan_to_num(np.minimum(asked, MOST_GPUS))), dtype=np.int64)

    def _gpu_types(self, rows: TraceRows, where: dict[str, mapping.Source]) -> tuple[list[TypeSet], list[str]]:
        asked = self._types.asked([type_set(cell) for cell in _texts(rows, where, "gpu_types")])
        ran_on = self._types.ran_on(_texts(rows, where, "gpu_type"))
        return self._types.by_partition(asked, ran_on, _texts(rows, where, "partition"), rows.problems)


def _texts(rows: TraceRows, where: dict[str, mapping.Source], name: str) -> list[str]:
    """A column of texts; empty ones if the user names none."""
    return mapping.texts(rows, where[name]) if name in where else [""] * len(rows)


def _amounts(rows: TraceRows, where: dict[str, mapping.Source], name: str) -> FloatArray:
    """A column of numbers > 0; NaN where there is none."""
    if name not in where:
        return np.full(len(rows), np.nan)
    amounts = mapping.numbers(
        rows, where[name], f"an amount ({mapping.MEANINGS[name]}); give a number >= 0, or nothing"
    )
    return np.where(amounts > 0, amounts, np.nan)
