"""Lists of named things with one line each, and one thing in detail."""

from __future__ import annotations

import inspect
import sys
import textwrap
from typing import Any

import click

from rota.cli.options import echo_json
from rota.core.registry import Entry, Registry

_LONG_NAME = 32
"""Beyond this a name gets a line of its own on a terminal, so that the explanation has room."""


def show_registry(registry: Registry[Any], name: str | None, *, as_json: bool) -> None:
    """All entries of a registry, or one with its explanation and parameters."""
    if name is not None:
        _show_entry(registry.kind, registry.entry(name), as_json=as_json)
        return
    entries = [registry.entry(n) for n in registry.names()]
    show_list(registry.kind, [(e.name, e.summary) for e in entries], as_json=as_json)


def show_list(kind: str, rows: list[tuple[str, str]], *, as_json: bool) -> None:
    """Names with one line of explanation."""
    if as_json:
        echo_json([{"name": name, "summary": summary} for name, summary in rows])
        return
    if sys.stdout.isatty() and max((len(name) for name, _ in rows), default=0) > _LONG_NAME:
        _show_below_names(rows)
        return
    from rota.cli.tables import show_table  # rich only when a table is shown

    show_table(None, (kind, "what it does"), rows)


def _show_below_names(rows: list[tuple[str, str]]) -> None:
    from rota.cli.tables import width

    indent = "    "
    for name, summary in rows:
        click.echo(click.style(name, fg="cyan"))
        text = textwrap.fill(
            summary, width() - 2, initial_indent=indent, subsequent_indent=indent, break_on_hyphens=False
        )
        click.echo(text)


def _show_entry(kind: str, entry: Entry[Any], *, as_json: bool) -> None:
    explanation = _explanation(entry)
    parameters = [_parameter(p) for p in entry.parameters().values()]
    if as_json:
        described = {"name": entry.name, "summary": entry.summary, "explanation": explanation}
        echo_json({**described, "parameters": parameters, "preset": dict(entry.preset)})
        return
    from rota.cli.tables import reflow, show_table

    title = f"{entry.name}: {entry.summary}" if entry.summary else entry.name
    click.echo(reflow("\n\n".join(text for text in (title, explanation) if text)) + "\n")
    if entry.preset:
        fixed = ", ".join(f"{k}={v}" for k, v in entry.preset.items())
        click.echo(f"Fixed by the name: {fixed}\n")
    if not parameters:
        click.echo(f"This {kind} has no parameters.")
        return
    rows = [(p["name"], p["type"], "required" if p["required"] else str(p["default"])) for p in parameters]
    show_table(None, ("parameter", "type", "default"), rows)


def _explanation(entry: Entry[Any]) -> str:
    """The text of the module, then that of the class without its first paragraph.

    That paragraph is the summary, or of another name of the class (`las`, and this one is `las-perf`).
    """
    module = inspect.getmodule(entry.factory)
    about = inspect.getdoc(module) or "" if module else ""
    _, _, more = (inspect.getdoc(entry.factory) or "").partition("\n\n")
    return "\n\n".join(text for text in (about, more) if text)


def _parameter(parameter: inspect.Parameter) -> dict[str, Any]:
    required = parameter.default is inspect.Parameter.empty
    annotation = parameter.annotation
    return {
        "name": parameter.name,
        "type": ""
        if annotation is inspect.Parameter.empty
        else annotation
        if isinstance(annotation, str)
        else inspect.formatannotation(annotation),
        "required": required,
        "default": None if required else parameter.default,
    }
