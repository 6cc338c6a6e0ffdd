"""Everything that is wrong with a trace at once, and what is worth a second look.

Errors come from the reader itself, so that lint and a run never disagree. Remarks are about jobs
that can be read: what no built-in catalogue has measured, deadlines that cannot be kept, a
beginning long after 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from rota.core.errors import TraceError
from rota.core.jobs import Jobs
from rota.profiles import load
from rota.workloads.files import opened
from rota.workloads.problems import Collected, Problem
from rota.workloads.traces import reader

MOST = 100
LATE_S = 86400.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Findings:
    """What lint has to say about a file."""

    path: str
    format: str | None
    """None if no format recognises the file."""
    jobs: int | None
    """None if the file cannot be used."""
    errors: Sequence[Problem]
    error_count: int
    """All errors, those beyond the most that are listed included."""
    remarks: Sequence[Problem]


def lint(
    path: str | Path,
    format: str | None = None,  # noqa: A002 - the word users know
    settings: dict[str, object] | None = None,
    *,
    most: int = MOST,
    catalogues: Sequence[str] = ("gavel", "synergy"),
) -> Findings:
    """Read a trace to its end whatever is in it.

    Raises ConfigError only if there is nothing to read.
    """
    problems = Collected(str(path), most=most)
    file = opened(path, problems)
    name = format
    jobs = None
    try:
        name, format_reader = reader(file, format, settings or {})
        jobs = format_reader.read(file).by_arrival()
    except TraceError as error:
        what, _, fix = error.message.partition("; ")
        if not problems.count:
            problems.error(error.line, what, fix, error.column)
    if jobs is not None and not problems.count:
        _look(jobs, problems, catalogues)
    usable = jobs is not None and not problems.count
    return Findings(
        path=str(path),
        format=name,
        jobs=len(jobs) if jobs is not None and usable else None,
        errors=sorted(problems.errors, key=lambda p: p.line),
        error_count=problems.count,
        remarks=problems.remarks,
    )


def _look(jobs: Jobs, problems: Collected, catalogues: Sequence[str]) -> None:
    """Remarks about a table that was read without errors."""
    used = sorted({jobs.profiles[p] for p in np.unique(jobs.profile).tolist()})
    missing = {name: [p for p in used if not load(name).known(p)] for name in catalogues}
    fewest = min(missing, key=lambda name: len(missing[name]))
    if missing[fewest]:
        problems.remark(
            0,
            f"{len(missing[fewest])} of {len(used)} models are in no built-in catalogue ({_few(missing[fewest])})",
            "run it with --profiles FILE that has them",
        )
    else:
        _unmeasured(jobs, problems, fewest)
    if len(jobs) and jobs.submitted[0] > LATE_S:
        problems.remark(
            0,
            f"the first job arrives only after {jobs.submitted[0] / 86400:,.1f} days",
            "`rota trace anonymize` or `rota trace sample` shifts arrivals to 0",
        )
    tight = int(np.count_nonzero(jobs.slo < 1))
    if tight:
        problems.remark(
            0, f"{tight:,} jobs have a deadline shorter than their duration", "they can only keep it on faster GPUs"
        )


def _unmeasured(jobs: Jobs, problems: Collected, name: str) -> None:
    """Jobs that a run with this catalogue would refuse because of their GPUs."""
    catalogue = load(name)
    keys = np.stack((jobs.profile, jobs.gpus))
    combinations, counts = np.unique(keys, axis=1, return_counts=True)
    known = [
        any(catalogue.measured(jobs.profiles[p], g, gpu_type) is not None for gpu_type in catalogue.types)
        for p, g in combinations.T.tolist()
    ]
    refused = int(counts[~np.array(known, dtype=bool)].sum())
    if refused:
        problems.remark(
            0,
            f"{refused:,} jobs ask for numbers of GPUs with which catalogue {name!r} has not measured their model",
            "a run refuses them by name; give --profiles FILE that has them",
        )


def _few(names: Sequence[str]) -> str:
    return ", ".join(names[:3]) + (", ..." if len(names) > 3 else "")
