"""The names of everything that a sweep can set or vary.

A name is a parameter of `rota.simulate` (`policy`, `cluster`, `seed`, ...), a setting of one of its
parts with a prefix (`set.KEY` of the workload, `trace.KEY` of the trace format, `policy.KEY`,
`mechanism.KEY`, `profiles.KEY`, `rules.KEY`), or `load`, the jobs per hour of whatever workload it is.
Plurals are accepted.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from rota.core.errors import ConfigError, UnknownName

PARAMETERS = (
    "trace", "trace_format", "workload", "cluster", "policy", "mechanism", "profiles", "rules", "round_s", "seed",
    "measure", "until",
)  # fmt: skip
"""Parameters of `rota.simulate` that have a plain value."""
GROUPS = {
    "set": "settings",
    "trace": "trace_settings",
    "policy": "policy_settings",
    "mechanism": "mechanism_settings",
    "profiles": "profile_settings",
    "rules": "rule_settings",
}
"""Prefix of a setting to the parameter of `rota.simulate` that takes it."""
LOAD = "load"
ALIASES = {
    "policies": "policy", "mechanisms": "mechanism", "clusters": "cluster", "seeds": "seed", "workloads": "workload",
    "traces": "trace", "loads": LOAD, "jobs_per_hour": LOAD, "split": "set.split", "splits": "set.split",
    "jobs": "set.jobs", "round": "round_s",
}  # fmt: skip
_PREFIXES = {prefix: prefix for prefix in GROUPS}
_PREFIXES |= {parameter: prefix for prefix, parameter in GROUPS.items()}
RANGE_KEYS = frozenset({"from", "to", "step", "factor"})


def canonical_name(name: str, where: str) -> str:
    """The one name of a key; raises UnknownName with the nearest."""
    key = name.strip().replace("-", "_")
    key = ALIASES.get(key, key)
    head, dot, tail = key.partition(".")
    if dot and head in _PREFIXES and tail:
        return f"{_PREFIXES[head]}.{tail}"
    if key in PARAMETERS or key == LOAD:
        return key
    known = [*PARAMETERS, LOAD, *ALIASES, *(f"{prefix}.KEY" for prefix in GROUPS)]
    raise UnknownName(f"key in {where}:", name, known)


def flat(table: Mapping[str, Any], where: str) -> dict[str, Any]:
    """Nested tables of settings (`set = {jobs = 3}`) as single keys (`set.jobs`)."""
    values: dict[str, Any] = {}
    for name, value in _entries(table):
        key = canonical_name(name, where)
        if key in values:
            raise ConfigError(f"{where}: {key} is given twice; keep one of the two")
        values[key] = value
    return values


def _entries(table: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    for name, value in table.items():
        is_table = isinstance(value, Mapping) and not (value and RANGE_KEYS.issuperset(value))
        if name in _PREFIXES and is_table:
            for key, inner in value.items():
                yield f"{name}.{key}", inner
        else:
            yield name, value


def plain(value: Any) -> Any:
    """A value in one spelling: text to numbers, whole floats to integers, tuples to lists."""
    if isinstance(value, Mapping):
        return {str(key): plain(value[key]) for key in sorted(value)}
    if isinstance(value, list | tuple | range):
        return [plain(v) for v in value]
    if isinstance(value, str):
        return _from_text(value.strip())
    if hasattr(value, "tolist"):
        return plain(value.tolist())
    if isinstance(value, float) and value.is_integer() and abs(value) < 2**53:
        return int(value)
    return value if value is None or isinstance(value, bool | int | float) else str(value)


def _from_text(text: str) -> Any:
    if text.lower() in {"true", "false"}:
        return text.lower() == "true"
    try:
        number = float(text)
    except ValueError:
        return text
    if number.is_integer() and abs(number) < 2**53:
        return int(number)
    return number if number == number and abs(number) != float("inf") else text  # noqa: PLR0124 - not a number
