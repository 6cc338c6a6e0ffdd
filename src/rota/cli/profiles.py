"""`rota profiles`: what can be given to `--profiles`."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click

from rota.cli import names
from rota.cli.connection import connection
from rota.cli.learned import show_learned
from rota.cli.listing import show_list
from rota.cli.options import completes, echo_json, json_option, settings_option
from rota.core.parsing import is_count

if TYPE_CHECKING:
    from rota.core.sensitivity import Sensitivity
    from rota.profiles import Catalogue, ProfileRow


MARKS = {"extended": "x", "derived": "d", "estimated": "e", "predicted": "p", "learned": "l"}
"""Behind a rate that was not measured."""
RULES = {
    "extended": " by a model of those who measured",
    "derived": " by a stated ratio",
    "predicted": " by a pipeline model",
    "learned": " from jobs while they ran",
}


def gpu_counts(_ctx: click.Context, param: click.Parameter, value: str | None) -> tuple[int, ...]:
    """Callback for `16,32`."""
    parts = [part.strip() for part in value.split(",")] if value else []
    if not all(is_count(part) and int(part) > 0 for part in parts):
        raise click.BadParameter(f"{value!r} is not a list of numbers of GPUs, e.g. 16,32", param=param)
    return tuple(int(part) for part in parts)


@click.command("profiles", epilog="Example: rota profiles gavel")
@click.argument(
    "name",
    required=False,
    metavar="[NAME|FILE]",
    shell_complete=completes(names.profiles),
)
@settings_option("--set-profiles", "settings", "How numbers of GPUs that were not measured are found: scaling")
@click.option("--gpus", callback=gpu_counts, metavar="LIST", help="With scaling: further numbers of GPUs, e.g. 16,32.")
@click.option("--learned", is_flag=True, help="Show the speeds that a scheduler learned from jobs while they ran.")
@click.option("--tenant", metavar="NAME", default="", help="With --learned: only of this tenant (administrators).")
@click.option("-o", "--output", metavar="FILE", help="With --learned: write them as a profile file (.toml).")
@connection
@json_option
def command(
    name: str | None,
    *,
    settings: dict[str, str],
    gpus: tuple[int, ...],
    learned: bool,
    tenant: str,
    output: str | None,
    as_json: bool,
    **options: Any,
) -> None:
    """List throughput catalogues, show one (by name or from a file) or several (a,b), or what a scheduler learned."""
    from rota import profiles  # kept off the path of --help

    if learned:
        _refuse_catalogue(name, settings, gpus)
        show_learned(options, tenant=tenant, output=output, as_json=as_json)
        return
    if tenant or output:
        raise click.UsageError(f"{'--tenant' if tenant else '--output'} needs --learned")
    if name is None:
        summaries = [(known, _about(profiles.load(known))) for known in profiles.names()]
        show_list("catalogue", summaries, as_json=as_json)
        return
    catalogue = profiles.load(name)
    if settings:
        catalogue = catalogue.scaled(_scaling(settings))
    if as_json:
        rows = [_as_fields(row) for row in catalogue.describe(gpus)]
        shown = {
            "name": catalogue.name,
            "about": catalogue.about,
            "types": catalogue.types,
            "scaling": catalogue.scaling,
            "notes": catalogue.remarks,
            "rows": rows,
        }
        if catalogue.fits:
            shown["fits"] = [asdict(fit) for fit in catalogue.fits]
        echo_json(shown)
        return
    for remark in catalogue.remarks:
        click.echo(f"rota: note: {remark}", err=True)
    _show(catalogue, gpus)


def _refuse_catalogue(name: str | None, settings: dict[str, str], gpus: tuple[int, ...]) -> None:
    if name is not None or settings or gpus:
        raise click.UsageError(
            "--learned asks a scheduler; give no catalogue, --set-profiles or --gpus with it. To look at a file that "
            "it wrote: rota profiles FILE"
        )


def _scaling(settings: dict[str, str]) -> str:
    from rota.core.errors import UnknownName

    for key in settings:
        if key != "scaling":
            raise UnknownName("setting of profiles:", key, ("scaling",))
    return settings["scaling"]


def _as_fields(row: ProfileRow) -> dict[str, Any]:
    """A row for a program; fields of sensitivities are named as in a catalogue file."""
    from rota.cli.profile_text import model_fields

    return {
        "profile": row.profile,
        "gpus": row.gpus,
        "rates": row.rates,
        "spread_rates": row.spread_rates,
        "origins": {gpu_type: row.origins.get(gpu_type, "measured") for gpu_type in row.rates},
        "watts": row.watts,
        "errors": row.errors,
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
        "profiled": {gpu_type: model_fields(model) for gpu_type, model in row.models.items() if model.cells},
    }


def _show(catalogue: Catalogue, gpus: tuple[int, ...]) -> None:
    rows = catalogue.describe(gpus)
    if any(row.step_s for row in rows):
        _show_models(catalogue.name, rows)
        _show_profiled(rows)
        _show_fits(catalogue)
    else:
        _show_rates(catalogue, rows)


def _show_rates(catalogue: Catalogue, rows: list[ProfileRow]) -> None:
    from rota.cli.tables import show_table

    types = catalogue.types
    cells = [(row.profile, str(row.gpus), *(_rate(row, gpu_type) for gpu_type in types)) for row in rows]
    show_table(
        f"{catalogue.name}: steps/s, GPUs on one server", ("profile", "GPUs", *types), cells, numbers=len(types) + 1
    )
    used = {origin for row in rows for origin in row.origins.values()}
    legend = [f"{mark} {origin}{RULES.get(origin, '')}" for origin, mark in MARKS.items() if origin in used]
    if legend:
        rule = f" by scaling={catalogue.scaling}" if "estimated" in used else ""
        click.echo(f"\n{'; '.join(legend)}{rule}; all others measured; - not measured")


def _rate(row: ProfileRow, gpu_type: str) -> str:
    if gpu_type not in row.rates:
        return "-"
    error = row.errors.get(gpu_type)
    spread = "" if error is None else f" +- {100 * error:.0f} %"
    return f"{row.rates[gpu_type]:.3f}{MARKS.get(row.origins.get(gpu_type, ''), '')}{spread}"


def _show_models(name: str, rows: list[ProfileRow]) -> None:
    """A line per profile and type: there is more to say of each than fits into columns of types."""
    from rota.cli.tables import show_table

    cells = [
        (row.profile, gpu_type, str(row.gpus or "any"), _rate(row, gpu_type), *_ideal(row.sensitivities.get(gpu_type)))
        for row in rows
        for gpu_type in row.rates
    ]
    show_table(
        f"{name}: steps/s; CPUs and memory that pay, per GPU",
        ("profile", "type", "GPUs", "steps/s", "CPUs", "memory GB", "speed-up"),
        cells,
        numbers=5,
    )


def _show_profiled(rows: list[ProfileRow]) -> None:
    """The cells of models that `rota profile` measured: which were, which are predicted, with which error."""
    from rota.cli.profile_text import show_model

    for row in rows:
        for gpu_type, model in row.models.items():
            if model.cells is not None:
                click.echo()
                how = "" if model.origin == "measured" else f", {model.origin}"
                show_model(f"{row.profile}: {row.gpus or 'any number'} x {gpu_type}{how}", model)


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
