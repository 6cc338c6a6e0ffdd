"""`rota profiles`: what can be given to `--profiles`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from rota.cli import names
from rota.cli.listing import show_list
from rota.cli.options import completes, echo_json, json_option

if TYPE_CHECKING:
    from rota.profiles import Catalogue


@click.command("profiles", epilog="Example: rota profiles gavel")
@click.argument("name", required=False, metavar="[NAME|FILE]", shell_complete=completes(names.profiles))
@json_option
def command(name: str | None, *, as_json: bool) -> None:
    """List throughput catalogues, or show one (by name or from a file)."""
    from rota import profiles  # noqa: PLC0415 - kept off the path of --help

    if name is None:
        show_list("catalogue", [(n, _about(profiles.load(n))) for n in profiles.names()], as_json=as_json)
        return
    catalogue = profiles.load(name)
    if as_json:
        rows = [
            {"profile": r.profile, "gpus": r.gpus, "rates": r.rates, "spread_rates": r.spread_rates}
            for r in catalogue.describe()
        ]
        echo_json({"name": catalogue.name, "about": catalogue.about, "types": catalogue.types, "rows": rows})
        return
    _show(catalogue)


def _show(catalogue: Catalogue) -> None:
    from rota.cli.tables import show_table  # noqa: PLC0415

    types = catalogue.types
    rows = [
        (row.profile, str(row.gpus), *(f"{row.rates[t]:.3f}" if t in row.rates else "-" for t in types))
        for row in catalogue.describe()
    ]
    show_table(
        f"{catalogue.name}: steps/s, GPUs on one server", ("profile", "GPUs", *types), rows, numbers=len(types) + 1
    )


def _about(catalogue: Catalogue) -> str:
    title = catalogue.about.get("title", f"{len(catalogue.names)} profiles")
    licence = catalogue.about.get("licence")
    return f"{title} ({licence})" if licence else title
