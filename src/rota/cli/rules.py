"""`rota rules`: what can be given to `--rules` and `--set-rules`."""

from __future__ import annotations

import dataclasses

import click

from rota.cli import names
from rota.cli.listing import show_list
from rota.cli.options import completes, echo_json, json_option

_ABOUT = {
    "default": "The sane version: rounds on a grid, spread jobs run slower, nothing is wasted.",
    "gavel-artifact": "The published Gavel simulator with its accidental rules, for comparison with its numbers.",
    "synergy-artifact": "The published Synergy simulator with its accidental rules, for comparison with its numbers.",
}


@click.command("rules", epilog="Example: rota rules gavel-artifact")
@click.argument("name", required=False, shell_complete=completes(names.rules))
@json_option
def command(name: str | None, *, as_json: bool) -> None:
    """List rules presets, or show one."""
    from rota.core.rules import PRESETS, Rules, preset  # kept off the path of --help

    if name is None:
        show_list("rules", [(n, _ABOUT.get(n, "")) for n in PRESETS], as_json=as_json)
        return
    fields = dataclasses.asdict(preset(name))
    if as_json:
        echo_json(fields)
        return
    from rota.cli.tables import show_table

    sane = dataclasses.asdict(Rules())
    rows = [
        (key, _text(value), "" if value == sane[key] else f"default: {_text(sane[key])}")
        for key, value in fields.items()
    ]
    show_table(f"rules {name}", ("field", "value", ""), rows)


def _text(value: object) -> str:
    return ",".join(map(str, value)) if isinstance(value, tuple) else str(value)
