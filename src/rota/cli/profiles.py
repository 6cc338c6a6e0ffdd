"""`rota profiles`: what can be given to `--profiles`."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click

from rota.cli import names
from rota.cli.listing import show_list
from rota.cli.options import completes, echo_json, json_option

if TYPE_CHECKING:
    from rota.core.sensitivity import Sensitivity
    from rota.profiles import Catalogue, ProfileRow


@click.command("profiles", epilog="Example: rota profiles gavel")
@click.argument(
    "name",
    required=False,
    metavar="[NAME|FILE]",
    shell_complete=completes(names.profiles),
)
@json_option
def command(name: str | None, *, as_json: bool) -> None:
    """List throughput catalogues, or show one (by name or from a file)."""
    from rota import profiles  # kept off the path of --help

    if name is None:
        summaries = [(known, _about(profiles.load(known))) for known in profiles.names()]
        show_list("catalogue", summaries, as_json=as_json)
        return
    catalogue = profiles.load(name)
    if as_json:
        rows = [_as_fields(row) for row in catalogue.describe()]
        shown = {
            "name": catalogue.name,
            "about": catalogue.about,
            "types": catalogue.types,
            "rows": rows,
        }
        if catalogue.fits:
            shown["fits"] = [asdict(fit) for fit in catalogue.fits]
        echo_json(shown)
        return
    _show(catalogue)


def _as_fields(row: ProfileRow) -> dict[str, Any]:
    """A row for a program; fields of sensitivities are named as in a catalogue file."""
    return {
        "profile": row.profile,
        "gpus": row.gpus,
        "rates": row.rates,
        "spread_rates": row.spread_rates,
        "step_s": row.step_s,
        "sensitivities": {
            gpu_type: {
                "cpus": s.ideal_cpus,
                "memory_gb": s.ideal_memory_gb,
                "speedup": s.speedup,
                "cpu_axis": s.cpus,
                "memory_axis": s.memory_gb,
                "speed": s.speed,
            }
            for gpu_type, s in row.sensitivities.items()
        },
    }


def _show(catalogue: Catalogue) -> None:
    rows = catalogue.describe()
    if any(row.step_s for row in rows):
        _show_models(catalogue.name, rows)
        _show_fits(catalogue)
    else:
        _show_rates(catalogue, rows)


def _show_rates(catalogue: Catalogue, rows: list[ProfileRow]) -> None:
    from rota.cli.tables import show_table

    types = catalogue.types
    cells = [
        (row.profile, str(row.gpus), *(f"{row.rates[t]:.3f}" if t in row.rates else "-" for t in types)) for row in rows
    ]
    show_table(
        f"{catalogue.name}: steps/s, GPUs on one server", ("profile", "GPUs", *types), cells, numbers=len(types) + 1
    )


def _show_models(name: str, rows: list[ProfileRow]) -> None:
    """A line per profile and type: there is more to say of each than fits into columns of types."""
    from rota.cli.tables import show_table

    cells = [
        (row.profile, gpu_type, str(row.gpus or "any"), f"{rate:.3f}", *_ideal(row.sensitivities.get(gpu_type)))
        for row in rows
        for gpu_type, rate in row.rates.items()
    ]
    show_table(
        f"{name}: steps/s; CPUs and memory that pay, per GPU",
        ("profile", "type", "GPUs", "steps/s", "CPUs", "memory GB", "speed-up"),
        cells,
        numbers=5,
    )


def _show_fits(catalogue: Catalogue) -> None:
    """The formula behind a derived catalogue, and how far it is from what was measured."""
    from rota.cli.tables import show_pairs, show_table

    if not catalogue.fits:
        return
    click.echo()
    cells = [
        (
            fit.profile,
            *("-" if v is None else f"{v:.3g}" for v in (fit.pipeline.gpu, fit.pipeline.cpu, fit.pipeline.storage)),
            "-" if fit.pipeline.data_gb is None else f"{fit.pipeline.data_gb:g}",
            f"{100 * fit.mean_error:.1f} %",
            f"{100 * fit.max_error:.1f} %",
        )
        for fit in catalogue.fits
    ]
    header = ("profile", "GPU", "per CPU", "storage", "data GB", "mean error", "largest error")
    title = "fit on v100, steps/s per GPU; errors relative to the measured cells"
    show_table(title, header, cells, numbers=6)
    click.echo()
    ratios = [
        (fit.profile, f"{fit.counterpart}: " + ", ".join(f"{t} {r:.3f}" for t, r in fit.ratios.items()))
        for fit in catalogue.fits
        if fit.counterpart is not None
    ]
    title = "speed of the GPU relative to v100; models without a line have no counterpart there"
    show_pairs(title, ratios)


def _ideal(sensitivity: Sensitivity | None) -> tuple[str, str, str]:
    if sensitivity is None:
        return "-", "-", "-"
    return f"{sensitivity.ideal_cpus:g}", f"{sensitivity.ideal_memory_gb:g}", f"{sensitivity.speedup:g}"


def _about(catalogue: Catalogue) -> str:
    title = catalogue.about.get("title", f"{len(catalogue.names)} profiles")
    licence = catalogue.about.get("licence")
    return f"{title} ({licence})" if licence else title
