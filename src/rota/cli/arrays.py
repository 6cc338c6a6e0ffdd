"""Job arrays on the command line: jobs of an array that are alike as one row, and what a submission printed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from rota.cli import job_text
from rota.core.job_arrays import array_size
from rota.core.lifecycle import JobPhase

if TYPE_CHECKING:
    from rota.core.job_spec import JobSpec

_DONE = job_text.HEADER.index("done")
_ONE_BY_ONE = frozenset({JobPhase.RUNNING.value, JobPhase.STOPPING.value, JobPhase.FAILED.value})
"""Phases in which every job of an array has something to say of its own."""


def entries(specs: Sequence[JobSpec], numbers: Sequence[int]) -> Iterator[tuple[JobSpec, int, int]]:
    """(entry, number of its first job, number of its jobs) of a submission."""
    position = 0
    for spec in specs:
        size = array_size(spec.array)
        yield spec, numbers[position], size
        position += size


def array_field(specs: Sequence[JobSpec], numbers: Sequence[int]) -> dict[str, Any]:
    """For JSON: numbers of the first jobs of arrays; nothing if there is none."""
    arrays = [first for spec, first, _ in entries(specs, numbers) if spec.array]
    return {"arrays": arrays} if arrays else {}


def together(infos: Sequence[Any]) -> list[list[Any]]:
    """Jobs in the order of a list, those of an array in one group that follow each other and are alike."""
    groups: list[list[Any]] = []
    for info in infos:
        if groups and _alike(groups[-1][-1], info):
            groups[-1].append(info)
        else:
            groups.append([info])
    return groups


def _alike(one: Any, two: Any) -> bool:
    if not (one.HasField("array") and two.HasField("array")) or one.phase in _ONE_BY_ONE:
        return False
    return (one.array, one.phase, one.reason_code) == (two.array, two.phase, two.reason_code)


def row(group: Sequence[Any], now: float, *, brief: bool) -> tuple[str, ...]:
    """A job, or several of an array, as a row of `rota jobs`."""
    newest = group[0]
    cells = job_text.row(newest, now, brief=brief)
    if len(group) == 1:
        return cells
    oldest = group[-1]
    name = f"{job_text.printable(newest.spec.name)}[{oldest.array_index}-{newest.array_index}] x {len(group)}"
    merged = (f"{oldest.job}-{newest.job}", name, *cells[2:])
    return (*merged[:_DONE], _mean_done(group), *merged[_DONE + 1 :])


def _mean_done(group: Sequence[Any]) -> str:
    """How far jobs are on average; a sign that there is nothing to say where none has begun, or steps are not known."""
    if not any(info.step for info in group) or not all(info.spec.steps for info in group):
        return "-"
    return job_text.percent(sum(min(1.0, info.step / info.spec.steps) for info in group) / len(group))
