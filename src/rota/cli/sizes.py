"""Sizes on the command line: `64MB`, `4GB`, or a number of bytes."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Any, TypeVar

import click

F = TypeVar("F", bound=Callable[..., Any])

_UNITS = {"": 1, "B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12}
_SIZE = re.compile(r"([0-9]+(?:\.[0-9]+)?)\s*([KMGT]?B)?", re.IGNORECASE)
_LEAST = 1000
_MOST = 10**16


def size_option(flag: str, text: str, *, default: str) -> Callable[[F], F]:
    """An option that takes a size; its value is a number of bytes."""
    return click.option(flag, default=default, show_default=True, metavar="SIZE", callback=_bytes, help=text)


def _bytes(ctx: click.Context, param: click.Parameter, value: str) -> int:
    found = _SIZE.fullmatch(value)
    size = math.nan if found is None else float(found[1]) * _UNITS[(found[2] or "").upper()]
    if not _LEAST <= size <= _MOST:
        message = f"{value!r} is no size; give a number with a unit, like 500KB, 64MB or 4GB"
        raise click.BadParameter(message, ctx, param)
    return int(size)
