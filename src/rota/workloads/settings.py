"""Settings of workloads, checked where they enter."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from rota.core.errors import ConfigError


def at_least(name: str, value: float | None, least: float, example: str) -> float:
    """A number that must be given and may not be smaller."""
    if value is None or isinstance(value, bool) or not least <= value < math.inf:
        shown = "is not given" if value is None else f"= {value!r}"
        raise ConfigError(f"{name} {shown}; give a number >= {least:g}, e.g. {name}={example}")
    return value


def positive(name: str, value: float | None, example: str) -> float:
    """A number that must be given and be greater than 0."""
    if value is None or isinstance(value, bool) or not 0 < value < math.inf:
        shown = "is not given" if value is None else f"= {value!r}"
        raise ConfigError(f"{name} {shown}; give a number > 0, e.g. {name}={example}")
    return value


def whole(name: str, value: int | None, least: int, example: str) -> int:
    """A whole number that must be given and may not be smaller."""
    if value is None or isinstance(value, bool) or not isinstance(value, int) or value < least:
        shown = "is not given" if value is None else f"= {value!r}"
        raise ConfigError(f"{name} {shown}; give a whole number >= {least}, e.g. {name}={example}")
    return value


def capacity_by_type(given: Mapping[str, int] | str | None) -> dict[str, int]:
    """GPUs by type, alphabetical, from a mapping or from text such as `v100=36,k80=36`."""
    if given is None:
        fix = "give capacity, e.g. capacity=v100=36,p100=36,k80=36"
        raise ConfigError(f"steady_state needs the cluster: {fix}")
    from_text = (part.split("=", 1) for part in given.split(",")) if isinstance(given, str) else ()
    pairs = given.items() if isinstance(given, Mapping) else from_text
    try:
        capacity = {str(gpu_type).strip(): int(count) for gpu_type, count in pairs}
    except ValueError:
        problem = f"capacity = {given!r} is not type=count,..., e.g. capacity=v100=36,p100=36"
        raise ConfigError(problem) from None
    if any(count < 0 for count in capacity.values()):
        fix = "give GPUs by type, e.g. v100=36,p100=36"
        raise ConfigError(f"capacity = {given!r} has a negative count; {fix}")
    return dict(sorted(capacity.items()))


def pairs(setting: str, value: str | Mapping[str, str], example: str) -> dict[str, str]:
    """A setting such as `a:b,c:d` as a table; a table passes as it is."""
    if isinstance(value, Mapping):
        return dict(value)
    table: dict[str, str] = {}
    for part in filter(None, (piece.strip() for piece in value.split(","))):
        name, colon, rest = (piece.strip() for piece in part.partition(":"))
        if not (name and colon and rest):
            raise ConfigError(f"{setting}: {part!r} is not NAME:VALUE; give e.g. {setting}={example}")
        if name in table:
            raise ConfigError(f"{setting}: {name!r} is given twice; keep one")
        table[name] = rest
    return table


def chosen(setting: str, value: str, known: Sequence[str]) -> str:
    """A setting that is one of a few words."""
    if value not in known:
        raise ConfigError(f"{setting} = {value!r} is not one of {', '.join(known)}; give one of these")
    return value
