"""Types of option values: ranges, `key=value` settings, and names that a shell can complete."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

import click
from click.shell_completion import CompletionItem

from rota.core.parsing import is_count

F = TypeVar("F", bound=Callable[..., Any])

json_option = click.option(
    "--json",
    "as_json",
    is_flag=True,
    help="Print one JSON object instead of text for people.",
)


def measure(
    _ctx: click.Context,
    param: click.Parameter,
    value: str | None,
) -> tuple[int, int] | str | None:
    """Callback for `A:B`, a half-open range of job ids, or `auto`."""
    if value is None or value.strip() == "auto":
        return value if value is None else value.strip()
    first, colon, last = value.partition(":")
    if not (colon and is_count(first.strip()) and is_count(last.strip())):
        fix = "write it as A:B, e.g. 4000:5000, or auto"
        raise click.BadParameter(f"{value!r} is not a range of job ids; {fix}", param=param)
    if int(first) >= int(last):
        fix = "the first id must be below the second"
        raise click.BadParameter(f"{value!r} is empty; {fix}", param=param)
    return int(first), int(last)


def seconds(_ctx: click.Context, param: click.Parameter, value: float | None) -> float | None:
    """Callback for a positive, finite number of seconds, or of what the metavar says."""
    if value is not None and not (math.isfinite(value) and value > 0):
        what = "number of seconds" if param.metavar in {None, "SECONDS"} else "number"
        raise click.BadParameter(f"{value!r} must be a positive {what}", param=param)
    return value


def completes(names: Callable[[], Iterable[str]]) -> Callable[..., list[CompletionItem]]:
    """What a shell offers for a name.

    Rota looks names up itself, so that it can offer the nearest one.
    """

    def complete(
        _ctx: click.Context,
        _param: click.Parameter,
        incomplete: str,
    ) -> list[CompletionItem]:
        return [CompletionItem(n) for n in names() if n.startswith(incomplete)]

    return complete


def settings(
    _ctx: click.Context,
    param: click.Parameter,
    values: tuple[str, ...],
) -> dict[str, str]:
    """Callback for repeated `key=value` options."""
    value_of: dict[str, str] = {}
    for value in values:
        key, equals, text = value.partition("=")
        key = key.strip()
        if not (key and equals):
            raise click.BadParameter(f"{value!r} is not of the form key=value", param=param)
        if key in value_of:
            raise click.BadParameter(f"{key!r} is set twice", param=param)
        value_of[key] = text.strip()
    return value_of


def settings_option(flag: str, name: str, text: str) -> Callable[[F], F]:
    """A repeatable `key=value` option that arrives as one dict."""
    return click.option(
        flag,
        name,
        multiple=True,
        callback=settings,
        metavar="KEY=VALUE",
        help=f"{text}; repeatable.",
    )


def echo_json(payload: Mapping[str, Any] | list[Any]) -> None:
    """Print JSON that every parser accepts: what is not a finite number becomes null."""
    click.echo(json.dumps(plain(payload), allow_nan=False))


def plain(value: Any) -> Any:
    """The same value out of JSON's own types."""
    if isinstance(value, Mapping):
        return {str(k): plain(v) for k, v in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [plain(v) for v in value]
    if hasattr(value, "tolist"):
        return plain(value.tolist())
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return value if value is None or isinstance(value, (bool, int, str)) else str(value)
