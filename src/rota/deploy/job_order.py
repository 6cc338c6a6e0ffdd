"""Tables of a job file that come after others by name: an order in which each comes after what it names.

[[job]]
name = "evaluate"
after = ["train", 17]     # tables of this file by name, jobs that were submitted before by number
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from rota.core.errors import ConfigError
from rota.core.job_spec import JobSpec

KEYS = ("after", "after_any")


@dataclass(frozen=True, slots=True, kw_only=True)
class JobTable:
    """One table of a file."""

    spec: JobSpec
    count: int
    """Jobs like this."""
    after: Mapping[str, Sequence[str | int]]
    """By key: names of tables and numbers of jobs that it comes after."""
    place: Callable[[str], str]
    """File and line of a key."""


def predecessors_from(value: object, key: str, place: Callable[[str], str]) -> tuple[str | int, ...]:
    """What a table says about jobs before it: a name, a number, or a list of them."""
    given = value if isinstance(value, list) else [value]
    for entry in given:
        if not isinstance(entry, str | int) or isinstance(entry, bool) or (isinstance(entry, int) and entry < 0):
            raise ConfigError(
                f"{place(key)}: {key} has {entry!r}; give names of tables of this file or numbers of jobs"
            )
    return tuple(given)


def in_order(tables: Sequence[JobTable]) -> list[JobSpec]:
    """All jobs, each after those that it names. Raises ConfigError for names that are not there and for circles."""
    by_name: dict[str, list[int]] = {}
    for number, table in enumerate(tables):
        if table.spec.name:
            by_name.setdefault(table.spec.name, []).append(number)
    before = [_tables_before(table, by_name) for table in tables]
    entries: dict[int, range] = {}
    jobs: list[JobSpec] = []
    for number in _sorted(tables, before):
        table = tables[number]
        spec = _with_entries(table, by_name, entries)
        entries[number] = range(len(jobs) + 1, len(jobs) + table.count + 1)
        jobs += [spec] * table.count
    return jobs


def _tables_before(table: JobTable, by_name: Mapping[str, list[int]]) -> set[int]:
    found: set[int] = set()
    for key in KEYS:
        for name in table.after.get(key, ()):
            if isinstance(name, int):
                continue
            if name not in by_name:
                near = difflib.get_close_matches(name, by_name, n=1)
                hint = f"did you mean {near[0]!r}?" if near else "give the name of a table of this file"
                raise ConfigError(
                    f"{table.place(key)}: {key} names {name!r}, which no job of this file is called; {hint}"
                )
            found.update(by_name[name])
    return found


def _sorted(tables: Sequence[JobTable], before: Sequence[set[int]]) -> list[int]:
    """Numbers of tables, as they stand in the file wherever that is possible."""
    order: list[int] = []
    left = dict.fromkeys(range(len(tables)))
    while left:
        ready = [number for number in left if not (before[number] & left.keys())]
        if not ready:
            raise ConfigError(_circle(tables, before, set(left)))
        order += ready
        for number in ready:
            del left[number]
    return order


def _circle(tables: Sequence[JobTable], before: Sequence[set[int]], left: set[int]) -> str:
    """Jobs that wait for each other, in words."""
    path = [min(left)]
    while (following := min(before[path[-1]] & left)) not in path:
        path.append(following)
    circle = [*path[path.index(following) :], following]
    names = " after ".join(repr(tables[number].spec.name) for number in circle)
    place = tables[circle[0]].place("after" if tables[circle[0]].after.get("after") else "after_any")
    return f"{place}: these jobs wait for each other and would never start: {names}; take one `after` out"


def _with_entries(table: JobTable, by_name: Mapping[str, list[int]], entries: Mapping[int, range]) -> JobSpec:
    if not any(table.after.values()):
        return table.spec
    numbers: dict[str, tuple[int, ...]] = {}
    for key in KEYS:
        named: list[int] = []
        for name in table.after.get(key, ()):
            if isinstance(name, int):
                named.append(name)
            else:
                named += [-entry for number in by_name[name] for entry in entries[number]]
        numbers[key] = tuple(named)
    try:
        return replace(table.spec, **numbers)  # type: ignore[arg-type]
    except ConfigError as error:
        raise ConfigError(f"{table.place('after')}: {error}") from error
