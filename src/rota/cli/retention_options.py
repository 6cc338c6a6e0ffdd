"""Options that say how long a scheduler keeps what: `--keep-events 30d` and so on."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Any, TypeVar

import click

F = TypeVar("F", bound=Callable[..., Any])

_SECONDS = {"": 1.0, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0, "w": 604800.0}
_BYTES = {"": 1.0, "B": 1.0, "KB": 1e3, "MB": 1e6, "GB": 1e9, "TB": 1e12}
_FOR_EVER = ("forever", "inf")
_LEAST_SIZE = 1e6


def _amount(what: str, units: dict[str, float], example: str, least: float = 0.0) -> Callable[..., float | None]:
    """Callback for a number with a unit, from `least` on; `forever` is no limit."""

    def read(_ctx: click.Context, param: click.Parameter, value: str | None) -> float | None:
        if value is None or value.strip() in _FOR_EVER:
            return None if value is None else math.inf
        parts = re.fullmatch(r"(\d+(?:\.\d*)?(?:e\+?\d+)?)\s*([A-Za-z]*)", value.strip())
        factor = None if parts is None else units.get(parts[2], units.get(parts[2].upper()))
        if parts is None or factor is None or not least <= float(parts[1]) * factor < math.inf:
            from_ = f" from {least:g} on" if least else ""
            problem = f"{value!r} is not {what}{from_}; write it as {example}, or forever"
            raise click.BadParameter(problem, param=param)
        return float(parts[1]) * factor

    return read


_duration = _amount("a time", _SECONDS, "30d, 12h, 15m or a number of seconds")
_size = _amount("a size", _BYTES, "2GB, 500MB or a number of bytes", _LEAST_SIZE)

KEPT = ("keep_jobs", "keep_events", "keep_rounds", "keep_checkpoints", "keep_size")
_TEXTS = {
    "keep_jobs": ("90d", "Wall time that jobs which are over can be asked for; then they are deleted."),
    "keep_events": ("30d", "Wall time that events stay in the journal."),
    "keep_rounds": ("1d", "The same for events that every round has (plans, allocations, leases)."),
    "keep_checkpoints": ("30d", "Wall time that checkpoints stay after the end of their job."),
    "keep_size": ("2GB", "Size of the state file above which the oldest events go before their time."),
}


def retention_options(*, defaults: bool) -> Callable[[F], F]:
    """All of them; without defaults, those that are not given are None."""

    def add(function: F) -> F:
        for name in reversed(KEPT):
            default, text = _TEXTS[name]
            is_size = name == "keep_size"
            option = click.option(
                f"--{name.replace('_', '-')}",
                callback=_size if is_size else _duration,
                default=default if defaults else None,
                show_default=defaults,
                metavar="SIZE" if is_size else "TIME",
                help=text,
            )
            function = option(function)
        return function

    return add
