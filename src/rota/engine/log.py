"""The event log: one JSON object per line, the same bytes for the same seed and configuration.

Every line has `event` (the class name) and `at`. Arrays are lists; a job table is one list per column. Infinity and NaN
are written as null. A round that goes on with the same slots as the one before is written as `"same": true`.
"""

from __future__ import annotations

import dataclasses
import gzip
import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from rota.core import packed
from rota.core.allocation import NO_OPTIONS, Allocation, Options, SolveReport, Traits, Wishes
from rota.core.arrays import FloatArray, IntArray
from rota.core.cluster import cluster_fields, cluster_from
from rota.core.errors import ConfigError
from rota.core.events import (
    Allocated,
    CapacityChanged,
    ClusterChanged,
    Event,
    JobsDropped,
    JobsFinished,
    JobsParked,
    JobsPinned,
    JobsRejected,
    JobsReturned,
    JobsSubmitted,
    PlacementFailed,
    Planned,
    ProgressMade,
    RoundsRan,
    RunEnded,
    RunStarted,
    SolveFailed,
    SpeedsLearned,
)
from rota.core.gpu_types import gpu_types
from rota.core.jobs import COLUMNS, Jobs
from rota.core.parsing import parse_json_line
from rota.core.placement import Placement, Plan
from rota.core.queue_columns import queue_fields, queue_from
from rota.engine.log_check import LogCheck
from rota.engine.policy_memory import memory_fields, with_memory

LONGEST_REASON = 300
"""Characters of a message about what is wrong with a line."""

_FLOAT_COLUMNS = {"total_steps", "submitted", "weight", "deadline", "duration", "slo"}
_TRAITS = tuple(f.name for f in dataclasses.fields(Traits))
_MISSING = {"deadline": np.inf, "duration": np.nan, "slo": np.nan}


class EventLog:
    """Writes events as they happen."""

    def __init__(self, target: str | Path | BinaryIO, *, compressed: bool | None = None) -> None:
        """`target` is a file name, or a stream that stays open when the log is closed."""
        self._is_file = isinstance(target, str | Path)
        packed = self._is_file and str(target).endswith(".gz") if compressed is None else compressed
        # Open as long as the run.
        self._raw = Path(target).open("wb") if isinstance(target, str | Path) else target  # noqa: SIM115
        self._zip = gzip.GzipFile(filename="", mode="wb", fileobj=self._raw, mtime=0) if packed else None
        self._lines = LineWriter()

    def observe(self, event: Event) -> None:
        """Append one event."""
        (self._zip or self._raw).write((self._lines.write(event) + "\n").encode())

    def close(self) -> None:
        """Finish the file."""
        if self._zip is not None:
            self._zip.close()
        if self._is_file:
            self._raw.close()
        else:
            self._raw.flush()


class LineWriter:
    """Events as JSON, one line each."""

    def __init__(self, *, memory: bool = False) -> None:
        """`memory`: whether allocations say how long they hold and what their policy remembers, too."""
        self._last: Placement | None = None
        self._memory = memory

    def write(self, event: Event) -> str:
        """The line of an event, without its end."""
        line = {"event": type(event).__name__, "at": event.at, **self._fields(event)}
        return json.dumps(line, separators=(",", ":"), allow_nan=False)

    def _fields(self, event: Event) -> dict[str, Any]:
        if isinstance(event, Planned):
            placement = event.plan.placement
            again = self._last is not None and placement == self._last and bool(placement.kept.all())
            self._last = placement
            return {"round": event.plan.round, **({"same": True} if again else _placement_fields(placement))}
        if self._memory and isinstance(event, Allocated):
            return {**_allocation_fields(event), "memory": memory_fields(event.allocation)}
        return _WRITERS[type(event)](event)


def read_events(path: str | Path) -> Iterator[Event]:
    """The events of a log, in order; each makes sense after those before it (`engine/log_check.py`).

    Raises ConfigError with the line that cannot be read or does not.
    """
    text = str(path)
    try:
        with packed.open_text(path) as file:
            yield from _read_lines(packed.lines(file, text), text)
    except (*packed.DAMAGED, UnicodeDecodeError) as error:
        raise ConfigError(f"cannot read {text}: {error}") from error


def _read_lines(lines: Iterator[str], path: str) -> Iterator[Event]:
    reader = LineReader()
    check = LogCheck()
    number = 0
    for line in lines:
        number += 1
        try:
            event = reader.read(parse_json_line(line, constants=False))
            check.take(event)
        except (ValueError, LookupError, TypeError, AttributeError, ArithmeticError, RecursionError) as error:
            what = f"{type(error).__name__}: {error}"[:LONGEST_REASON]
            raise ConfigError(f"{path}:{number}: not an event of a Rota log ({what})") from error
        except ConfigError as error:
            raise ConfigError(f"{path}:{number}: {str(error)[:LONGEST_REASON]}") from error
        yield event
    if number == 0:
        raise ConfigError(f"{path}: the log is empty; give a file written with --events")


class LineReader:
    """The way back. Lines must come in order: a plan may say that it is the last one over again."""

    def __init__(self) -> None:
        self._last: Placement | None = None

    def read(self, fields: dict[str, Any]) -> Event:
        """The event of a line; raises KeyError, TypeError, ValueError or OverflowError if it is none."""
        kind = fields.pop("event")
        if kind != "Planned":
            return _READERS[kind](fields)
        event = _planned(fields, self._last)
        self._last = event.plan.placement
        return event


_PARTS = ("fraction", "cpus", "memory_gb", "speed")
"""Columns of a placement that may be missing."""

# Writing


def _floats(values: FloatArray) -> list[float | None]:
    return [v if np.isfinite(v) else None for v in values.tolist()]


def _jobs_fields(jobs: Jobs) -> dict[str, Any]:
    columns = {
        name: _floats(getattr(jobs, name)) if name in _FLOAT_COLUMNS else getattr(jobs, name).tolist()
        for name in COLUMNS
        if name != "launch"
    }
    return {"profiles": list(jobs.profiles), "tenants": list(jobs.tenants), **columns, **_optional_fields(jobs)}


def _optional_fields(jobs: Jobs) -> dict[str, Any]:
    """What only some tables say; where a duration was recorded does not matter any more."""
    fields: dict[str, Any] = {}
    if jobs.gpu_types is not None:
        fields["allowed_types"] = [list(types) for types in jobs.gpu_types.allowed_sets()]
    if jobs.names is not None:
        fields["names"] = jobs.names.tolist()
    if jobs.queue is not None:
        fields |= queue_fields(jobs.queue)
    if jobs.beliefs is not None:
        fields["beliefs"] = list(jobs.beliefs)
    return fields


def _placement_fields(placement: Placement) -> dict[str, Any]:
    fields = {
        name: getattr(placement, name).tolist()
        for name in ("first", "second", "type", "gpus", "slot_start", "slot_server", "slot_gpus")
    }
    fields["kept"] = placement.kept.astype(np.int64).tolist()
    for name in _PARTS:
        values = getattr(placement, name)
        if values is not None:
            fields[name] = values.tolist()
    return fields


def _allocation_fields(event: Allocated) -> dict[str, Any]:
    allocation = event.allocation
    fields: dict[str, Any] = {"types": list(allocation.types), "jobs": allocation.jobs.tolist()}
    if allocation.order is None:
        fields["share"] = allocation.share.tolist()
    else:
        fields["order"] = allocation.order.tolist()
    if len(allocation.extras):
        extras = allocation.extras
        fields["extras"] = [extras.first.tolist(), extras.second.tolist(), extras.gpus.tolist()]
    wish = allocation.wish
    if wish is not None:
        menu = [wish.cpus.tolist(), wish.memory_gb.tolist(), wish.speed.tolist()]
        fields["wish"] = {"menu": menu, "which": wish.which.tolist()}
    if allocation.pressing is not None:
        fields["pressing"] = allocation.pressing.tolist()
    traits, report = allocation.traits, allocation.report
    fields["traits"] = [getattr(traits, name) for name in _TRAITS]
    fields["objective"] = report.objective if np.isfinite(report.objective) else None
    fields["status"] = report.status
    return fields


def _ran_fields(event: RoundsRan) -> dict[str, Any]:
    fields: dict[str, Any] = {"start": event.start, "rounds": event.rounds, "steps": event.steps.tolist()}
    if event.partner_steps.any():
        fields["partner_steps"] = event.partner_steps.tolist()
    fields["seconds"] = event.seconds.tolist()
    if event.alone is not None:
        fields["alone"] = event.alone.tolist()
    if len(event.lost):
        fields["lost"] = event.lost.tolist()
    return fields


def _speed_fields(event: SpeedsLearned) -> dict[str, Any]:
    return {
        "profiles": list(event.profiles),
        "beliefs": list(event.beliefs),
        "gpus": event.gpus.tolist(),
        "types": list(event.types),
        "rates": event.rates.tolist(),
    }


_WRITERS: dict[type, Callable[[Any], dict[str, Any]]] = {
    RunStarted: lambda e: {"config": dict(e.config)},
    JobsSubmitted: lambda e: {"first_id": e.first_id, **_jobs_fields(e.jobs)},
    JobsRejected: lambda e: {"jobs": e.jobs.tolist(), "reason": e.reason},
    JobsDropped: lambda e: {"jobs": e.jobs.tolist(), "reason": e.reason},
    JobsFinished: lambda e: {"jobs": e.jobs.tolist(), "finished_at": e.finished_at.tolist()},
    Allocated: _allocation_fields,
    SolveFailed: lambda e: {"reason": e.reason},
    RoundsRan: _ran_fields,
    PlacementFailed: lambda e: {"reason": e.reason},
    SpeedsLearned: _speed_fields,
    CapacityChanged: lambda e: {"capacity": e.capacity.tolist()},
    RunEnded: lambda e: {"reason": e.reason},
    ProgressMade: lambda e: {"jobs": e.jobs.tolist(), "steps": e.steps.tolist()},
    JobsParked: lambda e: {"jobs": e.jobs.tolist(), "reason": e.reason},
    JobsPinned: lambda e: {"jobs": e.jobs.tolist(), "pinned": e.pinned},
    JobsReturned: lambda e: {"jobs": e.jobs.tolist()},
    ClusterChanged: lambda e: {"cluster": cluster_fields(e.cluster)},
}


# Reading


def _ints(values: list[int]) -> IntArray:
    numbers: IntArray = _flat(_numbers(values, "ui", np.int64))
    return numbers


def _reals(values: list[float]) -> FloatArray:
    numbers: FloatArray = _flat(_numbers(values, "uif", np.float64))
    return numbers


def _flat(numbers: Any) -> Any:
    if numbers.ndim != 1:
        raise ValueError("a list has lists in it instead of numbers")
    return numbers


def _numbers(values: list[Any], kinds: str, wanted: Any) -> Any:
    """A list of numbers, or of lists of them, as an array. Texts and truth values are none, whatever NumPy says."""
    if not isinstance(values, list):
        raise TypeError(f"{type(values).__name__} instead of a list of numbers")
    found = np.array(values) if values else np.zeros(0, dtype=wanted)
    if found.dtype.kind not in kinds:
        raise ValueError("a list has an entry that is not a number of 64 bits")
    return found.astype(wanted, copy=False)


def _submitted(fields: Mapping[str, Any]) -> JobsSubmitted:
    columns: dict[str, Any] = {}
    for name in COLUMNS:
        if name == "launch":
            continue
        if name in _FLOAT_COLUMNS:
            missing = _MISSING.get(name, np.nan)
            columns[name] = _reals([missing if v is None else v for v in fields[name]])
        else:
            columns[name] = _ints(fields[name])
    if len(columns["tenant"]) != len(columns["profile"]):
        raise ValueError("tenant and profile have different lengths")
    jobs = Jobs(
        profiles=tuple(fields["profiles"]),
        tenants=tuple(fields["tenants"]),
        gpu_types=gpu_types(len(columns["profile"]), fields.get("allowed_types")),
        names=np.array([*fields["names"], None], dtype=object)[:-1] if "names" in fields else None,
        queue=queue_from(len(columns["profile"]), fields),
        beliefs=tuple(fields["beliefs"]) if "beliefs" in fields else None,
        **columns,
    )
    return JobsSubmitted(at=fields["at"], first_id=fields["first_id"], jobs=jobs)


def _learned(fields: Mapping[str, Any]) -> SpeedsLearned:
    return SpeedsLearned(
        at=fields["at"],
        profiles=tuple(fields["profiles"]),
        beliefs=tuple(fields["beliefs"]),
        gpus=_ints(fields["gpus"]),
        types=tuple(fields["types"]),
        rates=np.array(fields["rates"], dtype=np.float64),
    )


def _planned(fields: Mapping[str, Any], last: Placement | None) -> Planned:
    if fields.get("same"):
        if last is None:
            raise KeyError("same")
        placement = last
    else:
        names = ("first", "second", "type", "gpus", "slot_start", "slot_server", "slot_gpus")
        columns: dict[str, Any] = {name: _ints(fields[name]) for name in names}
        columns |= {name: _reals(fields[name]) for name in _PARTS if name in fields}
        placement = Placement(kept=_ints(fields["kept"]).astype(np.bool_), **columns)
    if fields.get("same") and not placement.kept.all():
        placement = _kept(placement)
    plan = Plan(round=fields["round"], start=fields["at"], placement=placement, last=last)
    return Planned(at=fields["at"], plan=plan)


def _kept(placement: Placement) -> Placement:
    names = ("first", "second", "type", "gpus", "slot_start", "slot_server", "slot_gpus", *_PARTS)
    return Placement(kept=np.ones(len(placement), dtype=np.bool_), **{n: getattr(placement, n) for n in names})


def _allocated(fields: Mapping[str, Any]) -> Allocated:
    jobs, types = _ints(fields["jobs"]), tuple(fields["types"])
    first, second, gpus = (_ints(v) for v in fields.get("extras", ([], [], [])))
    extras = Options(first=first, second=second, gpus=gpus) if len(first) else NO_OPTIONS
    share = np.zeros((len(jobs), len(types)))
    if fields.get("share"):
        share = _numbers(fields["share"], "uif", np.float64).reshape(-1, len(types))
    objective = fields["objective"]
    allocation = Allocation(
        jobs=jobs,
        types=types,
        share=share,
        extras=extras,
        order=_ints(fields["order"]) if "order" in fields else None,
        wish=_wishes(fields.get("wish"), len(types)),
        pressing=_ints(fields["pressing"]) if "pressing" in fields else None,
        traits=Traits(**dict(zip(_TRAITS, fields["traits"], strict=False))),
        report=SolveReport(status=fields["status"], objective=np.nan if objective is None else objective),
    )
    if "memory" in fields:
        allocation = with_memory(allocation, fields["memory"])
    return Allocated(at=fields["at"], allocation=allocation)


def _wishes(fields: Any, types: int) -> Wishes | None:
    """None for wishes as they were written once: numbers of a table that nobody has any more."""
    if not isinstance(fields, dict):
        return None
    cpus, memory_gb, speed = (_reals(column) for column in fields["menu"])
    return Wishes(cpus, memory_gb, speed, _numbers(fields["which"], "ui", np.int64).reshape(-1, types))


def _ran(fields: Mapping[str, Any]) -> RoundsRan:
    steps = _reals(fields["steps"])
    partner = fields.get("partner_steps")
    return RoundsRan(
        at=fields["at"],
        start=fields["start"],
        rounds=fields["rounds"],
        steps=steps,
        partner_steps=np.zeros(len(steps)) if partner is None else _reals(partner),
        seconds=_reals(fields["seconds"]),
        lost=_ints(fields.get("lost", [])),
        alone=_reals(fields["alone"]) if "alone" in fields else None,
    )


_READERS: dict[str, Callable[[Mapping[str, Any]], Event]] = {
    "RunStarted": lambda f: RunStarted(at=f["at"], config=f["config"]),
    "JobsSubmitted": _submitted,
    "JobsRejected": lambda f: JobsRejected(at=f["at"], jobs=_ints(f["jobs"]), reason=f["reason"]),
    "JobsDropped": lambda f: JobsDropped(at=f["at"], jobs=_ints(f["jobs"]), reason=f["reason"]),
    "JobsFinished": lambda f: JobsFinished(at=f["at"], jobs=_ints(f["jobs"]), finished_at=_reals(f["finished_at"])),
    "Allocated": _allocated,
    "SolveFailed": lambda f: SolveFailed(at=f["at"], reason=f["reason"]),
    "RoundsRan": _ran,
    "PlacementFailed": lambda f: PlacementFailed(at=f["at"], reason=f["reason"]),
    "CapacityChanged": lambda f: CapacityChanged(at=f["at"], capacity=_ints(f["capacity"])),
    "RunEnded": lambda f: RunEnded(at=f["at"], reason=f["reason"]),
    "ProgressMade": lambda f: ProgressMade(at=f["at"], jobs=_ints(f["jobs"]), steps=_reals(f["steps"])),
    "JobsParked": lambda f: JobsParked(at=f["at"], jobs=_ints(f["jobs"]), reason=f["reason"]),
    "SpeedsLearned": _learned,
    "JobsPinned": lambda f: JobsPinned(at=f["at"], jobs=_ints(f["jobs"]), pinned=bool(f["pinned"])),
    "JobsReturned": lambda f: JobsReturned(at=f["at"], jobs=_ints(f["jobs"])),
    "ClusterChanged": lambda f: ClusterChanged(at=f["at"], cluster=cluster_from(f["cluster"])),
}
