"""Kinds of `rota plot` that show what a catalogue of profiles says."""

from __future__ import annotations

from typing import Any

import click

from rota.cli import names
from rota.cli.options import completes
from rota.cli.plot_output import check, output_options, put

_type = click.option(
    "--type",
    "type_",
    metavar="NAME",
    help="Accelerator type (default: the last of the catalogue).",
)
_profile = click.option(
    "--profile",
    "models",
    multiple=True,
    metavar="NAME",
    help="Model to draw (default: all); repeatable.",
)


@click.command("sensitivity", epilog="Example: rota plot sensitivity synergy -o cpus.pdf")
@click.argument("catalogue", required=False, shell_complete=completes(names.profiles))
@click.option("--profiles", "profiles", metavar="NAME|FILE", help="The catalogue, instead of the argument.")
@_type
@_profile
@output_options
def sensitivity(
    catalogue: str | None, *, profiles: str | None, type_: str | None, models: tuple[str, ...], **out: Any
) -> None:
    """Heat maps of speed by CPUs and memory, by catalogue; of a profiled job with steps/s, and dots where measured."""
    if (catalogue is None) == (profiles is None):
        raise click.UsageError("name one catalogue: rota plot sensitivity --profiles resnet18.toml -o heat.png")
    catalogue = catalogue or profiles or ""
    check(**out)
    from rota.analysis.figures import catalogue as drawing
    from rota.experiments import plotting

    tables = plotting.sensitivity(catalogue, type_, models)
    profiled = plotting.profiled(catalogue, type_, models)
    if profiled and len(profiled) == len(tables):
        put(lambda: {"models": drawing.sensitivity_numbers(tables)}, lambda: drawing.profiled(profiled), **out)
        return
    put(lambda: {"models": drawing.sensitivity_numbers(tables)}, lambda: drawing.sensitivity(tables), **out)


@click.command("colocation", epilog="Example: rota plot colocation gavel --type v100 -o pairs.pdf")
@click.argument("catalogue", shell_complete=completes(names.profiles))
@_type
@click.option(
    "--gpus",
    type=click.IntRange(min=1),
    default=1,
    show_default=True,
    help="Number of GPUs of each job.",
)
@_profile
@output_options
def colocation(catalogue: str, *, type_: str | None, gpus: int, models: tuple[str, ...], **out: Any) -> None:
    """Heat map of the speed of models that share GPUs."""
    check(**out)
    from rota.analysis.figures import catalogue as drawing
    from rota.experiments import plotting

    company = plotting.colocation(catalogue, type_, gpus, models)
    put(company.numbers, lambda: drawing.colocation(company), **out)


KINDS = (sensitivity, colocation)
