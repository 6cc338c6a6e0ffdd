"""What a sweep is: settings of all runs, what is varied, and how it is carried out.

See docs/experiments.md.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from rota.analysis.overload import MODES
from rota.core.errors import ConfigError, UnknownName
from rota.core.parsing import parse_toml
from rota.core.tolerance import TOLERANCE
from rota.experiments.keys import LOAD, RANGE_KEYS, flat, plain
from rota.experiments.own_names import spelled

Values = dict[str, Any]
DEFAULT_STORE = "rota-results.db"
EXECUTORS = ("local", "ray")
TABLES = ("sweep", "run", "axes")
MOST_RUNS = 1_000_000
"""More points than that are a slip of the keyboard."""


@dataclass(frozen=True, kw_only=True)
class AutoLoad:
    """Raise the load from run to run until the cluster cannot follow."""

    start: float = 1.0
    factor: float = 1.25
    step: float | None = None
    """Added instead of multiplying by the factor."""
    utilization: float = 0.99
    """A run with this GPU utilisation (0 to 1) is the last one."""
    most: int = 40

    def after(self, load: float) -> float:
        """The next load; rounded, so that it does not depend on the way to it in the last bit."""
        return round(load * self.factor if self.step is None else load + self.step, 9)


@dataclass(frozen=True, kw_only=True)
class Condition:
    """Points of one kind, and what holds for them."""

    when: Values
    then: Values


@dataclass(frozen=True, kw_only=True)
class Spec:
    """A sweep, checked as far as it can be without building a run."""

    name: str = "sweep"
    run: Values = field(default_factory=dict)
    """Settings of every run, by the names in `rota.experiments.keys`."""
    axes: dict[str, tuple[Any, ...]] = field(default_factory=dict)
    zipped: tuple[dict[str, tuple[Any, ...]], ...] = ()
    exclude: tuple[Values, ...] = ()
    only: tuple[Condition, ...] = ()
    override: tuple[Condition, ...] = ()
    auto_load: AutoLoad | None = None
    store: str = DEFAULT_STORE
    timeout_s: float | None = None
    overload: str = "auto"
    workers: int | None = None
    executor: str = "local"

    def __post_init__(self) -> None:
        if self.overload not in MODES:
            raise UnknownName("mode of overload detection:", str(self.overload), MODES)
        if self.executor not in EXECUTORS:
            raise UnknownName("executor", str(self.executor), EXECUTORS)
        if self.workers is not None and (not isinstance(self.workers, int) or self.workers < 1):
            raise ConfigError(f"workers = {self.workers!r}: give a whole number >= 1")
        if self.timeout_s is not None and not (isinstance(self.timeout_s, int | float) and self.timeout_s > 0):
            raise ConfigError(f"timeout_s = {self.timeout_s!r}: give a positive number of seconds")
        names = [*self.axes, *(key for group in self.zipped for key in group)]
        twice = sorted({key for key in names if names.count(key) > 1})
        if twice:
            raise ConfigError(f"{twice[0]} is varied twice; keep one of the two axes")
        if self.auto_load is not None and LOAD in {*names, *self.run}:
            raise ConfigError("load is given, and auto_load chooses it; leave one of them out")

    @property
    def varied(self) -> list[str]:
        """Names of what is varied, in order; those that an override changes included."""
        names = [*self.axes, *(key for group in self.zipped for key in group)]
        names += [key for rule in self.override for key in rule.then]
        return list(dict.fromkeys([*names, *([] if self.auto_load is None else [LOAD])]))

    def points(self) -> list[Values]:
        """The values of every run, in order, without doubles."""
        groups = [[{key: value} for value in values] for key, values in self.axes.items()]
        groups += [_rows(group) for group in self.zipped]
        if self.auto_load is not None:
            groups.append([{LOAD: self.auto_load.start}])
        size = 1
        for group in groups:
            size *= len(group)
        if size > MOST_RUNS:
            fix = f"{MOST_RUNS:,} are the most, shorten an axis"
            raise ConfigError(f"the sweep has {size:,} points; {fix}")
        by_text: dict[str, Values] = {}
        for parts in itertools.product(*groups):
            values = dict(self.run)
            for part in parts:
                values.update(part)
            for rule in self.override:
                if matches(values, rule.when):
                    values.update(rule.then)
            if self._wanted(values):
                by_text.setdefault(repr(plain(values)), values)
        return list(by_text.values())

    def _wanted(self, values: Values) -> bool:
        if any(matches(values, rule) for rule in self.exclude):
            return False
        return all(matches(values, rule.then) for rule in self.only if matches(values, rule.when))


def matches(values: Mapping[str, Any], wanted: Mapping[str, Any]) -> bool:
    """Whether each wanted key has the value, or one of the list of values."""
    for key, value in wanted.items():
        allowed = value if isinstance(value, list | tuple) else [value]
        if plain(values.get(key)) not in [plain(v) for v in allowed]:
            return False
    return True


def read_spec(path: str | Path) -> Spec:
    """The sweep of a TOML file."""
    try:
        text = Path(path).read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as problem:
        fix = "check the path"
        raise ConfigError(f"cannot read the sweep {str(path)!r}: {problem}; {fix}") from None
    try:
        document = parse_toml(text)
    except ValueError as problem:
        raise ConfigError(f"{path} is not valid TOML: {problem}") from None
    document.setdefault("sweep", {})
    if isinstance(document["sweep"], dict):
        document["sweep"].setdefault("name", Path(path).stem)
    return spec_from(spelled(document, Path(path).parent), str(path))


def spec_from(document: Mapping[str, Any], where: str) -> Spec:
    """The sweep of a document with the tables sweep, run and axes."""
    for key, table in document.items():
        if key not in TABLES:
            raise UnknownName(f"table in {where}:", key, TABLES)
        if not isinstance(table, Mapping):
            raise ConfigError(f"{where}: {key} = {table!r} is not a table; write [{key}]")
    how = dict(document.get("sweep", {}))
    special = ("zip", "exclude", "only", "override", "auto_load")
    plain_keys = [f.name for f in fields(Spec) if f.name not in {"run", "axes", "zipped", *special}]
    for key in how:
        if key not in {*plain_keys, *special}:
            raise UnknownName(f"key in {where}, [sweep]:", key, [*plain_keys, *special])
    exclude = tuple(flat(t, f"{where}, [[sweep.exclude]]") for t in _tables(how, "exclude", where))
    return Spec(
        **{key: how[key] for key in plain_keys if key in how},
        run=flat(document.get("run", {}), f"{where}, [run]"),
        axes=_axes(document.get("axes", {}), f"{where}, [axes]"),
        zipped=tuple(_zipped(_axes(t, f"{where}, [[sweep.zip]]"), where) for t in _tables(how, "zip", where)),
        exclude=exclude,
        only=tuple(_condition(t, f"{where}, [[sweep.only]]") for t in _tables(how, "only", where)),
        override=tuple(_condition(t, f"{where}, [[sweep.override]]") for t in _tables(how, "override", where)),
        auto_load=None if "auto_load" not in how else auto_load(how["auto_load"], f"{where}, [sweep.auto_load]"),
    )


def auto_load(table: Mapping[str, Any], where: str) -> AutoLoad:
    """An automatic load sweep; `from` is where it starts."""
    known = {"from": "start", **{f.name: f.name for f in fields(AutoLoad)}}
    for key, value in table.items():
        if key not in known:
            raise UnknownName(f"key in {where}:", key, known)
        if isinstance(value, bool) or not isinstance(value, int | float) or not value > 0:
            raise ConfigError(f"{where}: {key} = {value!r} is not a positive number")
    steps = AutoLoad(**{known[key]: value for key, value in table.items()})
    if steps.step is None and steps.factor <= 1:
        fix = "give a number > 1"
        raise ConfigError(f"{where}: factor = {steps.factor!r} does not raise the load; {fix}")
    return steps


def _tables(how: Mapping[str, Any], key: str, where: str) -> list[Mapping[str, Any]]:
    tables = how.get(key, [])
    if not isinstance(tables, list | tuple) or not all(isinstance(t, Mapping) for t in tables):
        raise ConfigError(f"{where}: write each {key} as a table of its own, [[sweep.{key}]]")
    return list(tables)


def _condition(table: Mapping[str, Any], where: str) -> Condition:
    when = table.get("when")
    if not isinstance(when, Mapping) or not when:
        raise ConfigError(f'{where}: when is missing; say for which runs, e.g. when = {{policy = "allox"}}')
    then = {key: value for key, value in table.items() if key != "when"}
    return Condition(when=flat(when, f"{where}, when"), then=flat(then, where))


def _axes(table: Mapping[str, Any], where: str) -> dict[str, tuple[Any, ...]]:
    return {key: axis(value, f"{where}: {key}") for key, value in flat(table, where).items()}


def _zipped(group: dict[str, tuple[Any, ...]], where: str) -> dict[str, tuple[Any, ...]]:
    lengths = {key: len(values) for key, values in group.items()}
    if len(set(lengths.values())) > 1:
        shown = ", ".join(f"{key} has {n}" for key, n in lengths.items())
        problem = f"{where}, [[sweep.zip]]: values go along with each other one by one, but {shown}"
        raise ConfigError(problem)
    return group


def _rows(group: Mapping[str, Sequence[Any]]) -> list[Values]:
    return [dict(zip(group, row, strict=True)) for row in zip(*group.values(), strict=True)]


def axis(given: Any, where: str) -> tuple[Any, ...]:
    """The values of an axis: a list, a range {from, to, step} with both ends, or a single value."""
    if isinstance(given, Mapping):
        return _range(given, where)
    if isinstance(given, str) or not isinstance(given, Iterable):
        return (given,)
    values = tuple(v.item() if hasattr(v, "item") else v for v in given)
    if not values:
        raise ConfigError(f"{where} has no values; give at least one, or leave it out")
    return values


def _range(given: Mapping[str, Any], where: str) -> tuple[Any, ...]:
    for key in given:
        if key not in RANGE_KEYS:
            raise UnknownName(f"key of the range {where}:", str(key), RANGE_KEYS)
    numbers = {key: value for key, value in given.items() if not isinstance(value, bool)}
    finite = all(isinstance(v, int | float) and math.isfinite(v) for v in numbers.values())
    if not finite or not {"from", "to"} <= numbers.keys():
        raise ConfigError(f"{where}: a range needs the numbers from and to, e.g. {{from = 1, to = 9, step = 1}}")
    first = numbers["from"]
    last = numbers["to"]
    if "factor" in numbers:
        if "step" in numbers or numbers["factor"] <= 1 or first <= 0:
            raise ConfigError(f"{where}: give either step, or a factor > 1 with from > 0")
        limit = last * (1 + TOLERANCE)
        powers = _powers(first, numbers["factor"])
        values = list(itertools.takewhile(lambda value: value <= limit, powers))
    else:
        values = _evenly(first, last, numbers.get("step", 1), where)
    if not values:
        raise ConfigError(f"{where}: the range from {first} to {last} is empty")
    return tuple(round(v, 9) if isinstance(v, float) else v for v in values)


def _evenly(first: float, last: float, step: float, where: str) -> list[float]:
    if step <= 0:
        raise ConfigError(f"{where}: step = {step!r} must be greater than 0")
    count = math.floor((last - first) / step + TOLERANCE) + 1
    if count > MOST_RUNS:
        fix = f"{MOST_RUNS:,} are the most, use a larger step"
        raise ConfigError(f"{where} has {count:,} values; {fix}")
    return [first + i * step for i in range(count)]


def _powers(first: float, factor: float) -> Iterable[float]:
    return (first * factor**i for i in itertools.count())


def axis_from_text(text: str, where: str) -> tuple[Any, ...]:
    """Values on a command line: ranges with both ends (`1:9:1`, `0:3`), lists (`a,b` or `a;b`)."""
    parts = text.split(":")
    if 2 <= len(parts) <= 3 and all(isinstance(plain(p), int | float) for p in parts):
        return _range(dict(zip(("from", "to", "step"), map(plain, parts), strict=False)), where)
    values = [part.strip() for part in text.split(";" if ";" in text else ",")]
    if not all(values):
        fix = "write values as a,b,c or a range as FROM:TO:STEP"
        raise ConfigError(f"{where}: {text!r} has an empty value; {fix}")
    return tuple(values)
