"""Kinds of `rota plot` with curves: metrics over what was varied, and distributions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click

from rota.analysis.figures import quantities
from rota.cli import names
from rota.cli.options import F, completes
from rota.cli.plot_output import (
    band_options,
    check,
    curve_options,
    output_options,
    put,
    selection,
    style_of,
    sweep_option,
    where_option,
)
from rota.core.parsing import is_count

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from rota.analysis.figures.style import Style
    from rota.core.arrays import FloatArray
    from rota.experiments.plotting import RunSelection

_X_LABELS = {"load": "load (jobs per hour)", "set.jobs": "jobs"}


def _over_options(metric: str, x: str) -> Callable[[F], F]:
    """What is drawn over what."""

    def decorate(function: F) -> F:
        function = click.option(
            "--x",
            default=x,
            show_default=True,
            metavar="KEY",
            help="Number that was varied in the sweep, for the x axis, e.g. load, set.jobs or round_s.",
        )(function)
        return click.option(
            "--metric",
            default=metric,
            show_default=True,
            metavar="NAME",
            shell_complete=completes(lambda: quantities.KNOWN),
            help=f"Metric to draw: {', '.join(quantities.KNOWN)}, or any other number that runs have.",
        )(function)

    return decorate


@click.command("jct-vs-load", epilog="Example: rota plot jct-vs-load results.db --metric p99_jct_s --log-y -o p99.pdf")
@click.argument("store")
@sweep_option
@where_option
@_over_options("mean_jct_s", "load")
@curve_options
@band_options
@output_options
def jct_vs_load(store: str, *, sweep_name: str | None, where: dict[str, str], **out: Any) -> None:
    """Mean completion time (or another metric) by load and policy, from a store.

    Mean over seeds with a 95 % interval; a cross marks a load at which a run was unstable.
    """
    _draw_curves(store, selection(sweep_name, where), out)


@click.command("makespan-vs-jobs", epilog="Example: rota plot makespan-vs-jobs results.db -o makespan.pdf")
@click.argument("store")
@sweep_option
@where_option
@_over_options("makespan_s", "set.jobs")
@curve_options
@band_options
@output_options
def makespan_vs_jobs(store: str, *, sweep_name: str | None, where: dict[str, str], **out: Any) -> None:
    """Makespan (or another metric) by number of jobs and policy, from a store."""
    _draw_curves(store, selection(sweep_name, where), out)


def _draw_curves(store: str, runs: RunSelection, out: dict[str, Any]) -> None:
    metric = out.pop("metric")
    x = out.pop("x")
    style = style_of(out)
    check(**out)
    from rota.analysis.figures import curves
    from rota.analysis.figures.style import chosen
    from rota.experiments.keys import canonical_name
    from rota.experiments.plotting import metric_over

    found = metric_over(store, runs, x=x, metric=metric)
    if found.left_out:
        click.echo(f"rota: {found.left_out} runs without a result or failed are left out", err=True)
    by_name = chosen({line.name: line for line in found.lines}, style)
    lines = [replace(line, name=name) for name, line in by_name.items()]
    x = canonical_name(x, "--x")
    put(
        lambda: {"metric": metric, "lines": [line.numbers() for line in lines], "left_out": found.left_out},
        lambda: curves.metric(lines, quantities.quantity(metric), xlabel=_X_LABELS.get(x, x), style=style),
        **out,
    )


@click.command("jct-cdf", epilog="Example: rota plot jct-cdf fifo=a.csv las=b.csv -o cdf.pdf")
@click.argument("sources", nargs=-1, required=True, metavar="STORE|[NAME=]CSV...")
@sweep_option
@where_option
@curve_options
@output_options
def jct_cdf(sources: tuple[str, ...], *, sweep_name: str | None, where: dict[str, str], **out: Any) -> None:
    """Distribution of completion times, from CSVs or a store.

    Runs of a store that differ in nothing but their seed are one line.
    """
    style = style_of(out)
    check(**out)
    from rota.analysis.figures import curves
    from rota.experiments import plotting

    found = plotting.jct_cdf(sources, selection(sweep_name, where))
    _draw_distribution(found, "jct_s", curves.jct_cdf, style, out)


@click.command("ftf-cdf", epilog="Example: rota plot ftf-cdf fifo=a.csv las=b.csv -o fair.pdf")
@click.argument("sources", nargs=-1, required=True, metavar="STORE|[NAME=]CSV...")
@sweep_option
@where_option
@curve_options
@output_options
def ftf_cdf(sources: tuple[str, ...], *, sweep_name: str | None, where: dict[str, str], **out: Any) -> None:
    """Distribution of finish-time fairness, from CSVs or a store.

    Above 1 a job ended later than with its own part of the cluster.
    """
    style = style_of(out)
    check(**out)
    from rota.analysis.figures import curves
    from rota.experiments import plotting

    found = plotting.ftf_cdf(sources, selection(sweep_name, where))
    _draw_distribution(found, "ftf", curves.ftf_cdf, style, out)


@click.command("sim-vs-real", epilog="Example: rota plot sim-vs-real real.csv sim.csv -o ratio.pdf")
@click.argument("reference", metavar="[NAME=]CSV")
@click.argument("others", nargs=-1, required=True, metavar="[NAME=]CSV...")
@curve_options
@output_options
def sim_vs_real(reference: str, others: tuple[str, ...], **out: Any) -> None:
    """Completion times of other runs over those of a first one.

    Distribution of the ratio job by job, e.g. simulated over real; works for any two files of
    --jobs-csv.
    """
    style = style_of(out)
    check(**out)
    from rota.analysis.figures.curves import ratio_cdf
    from rota.experiments.plotting import named
    from rota.experiments.plotting_runs import ratios

    def draw(ratios_by_name: dict[str, FloatArray], style: Style) -> Figure:
        other = next(iter(ratios_by_name)) if len(ratios_by_name) == 1 else "other"
        return ratio_cdf(ratios_by_name, (other, named(reference)[0]), style)

    _draw_distribution(ratios(reference, others), "ratio", draw, style, out)


def _draw_distribution(
    values_by_name: dict[str, FloatArray],
    column: str,
    draw: Callable[[dict[str, FloatArray], Style], Figure],
    style: Style,
    out: dict[str, Any],
) -> None:
    import numpy as np

    from rota.analysis.figures.style import chosen

    kept = chosen(values_by_name, style)

    def numbers() -> dict[str, Any]:
        lines = [{"name": n, "jobs": len(v), column: np.sort(v[np.isfinite(v)])} for n, v in kept.items()]
        return {"lines": lines}

    put(numbers, lambda: draw(kept, style), **out)


@click.command(
    "solve-time-vs-jobs",
    epilog="Example: rota plot solve-time-vs-jobs --policy max-min-fairness-perf -o solve.pdf",
)
@click.argument("files", nargs=-1, metavar="[JSON]...")
@click.option(
    "--policy",
    "policies",
    multiple=True,
    metavar="NAME",
    shell_complete=completes(names.policies),
    help="Policy to measure now; repeatable.",
)
@click.option(
    "--jobs",
    default="32,64,128,256,512",
    show_default=True,
    metavar="N,N,...",
    help="Numbers of active jobs to measure with.",
)
@click.option("--multi-gpu", is_flag=True, help="Let some jobs ask for 2, 4 or 8 GPUs.")
@curve_options
@output_options
def solve_time_vs_jobs(
    files: tuple[str, ...], *, policies: tuple[str, ...], jobs: str, multi_gpu: bool, **out: Any
) -> None:
    """CPU time of a solve by jobs and policy, measured or from JSON.

    JSON files are what `rota bench solve --json` printed, one object per line.
    """
    if bool(files) == bool(policies):
        raise click.UsageError("give either files of `rota bench solve --json` or --policy NAME")
    sizes = [part.strip() for part in jobs.split(",")]
    if not all(is_count(size) and int(size) > 0 for size in sizes):
        raise click.UsageError(f"--jobs {jobs!r}: write whole numbers > 0 as N,N,...")
    style = style_of(out)
    check(**out)
    from rota.analysis.figures.curves import solve_time
    from rota.analysis.figures.style import chosen
    from rota.experiments import plotting_runs

    found = (
        plotting_runs.solve_times(files)
        if files
        else plotting_runs.measured_solve_times(policies, [int(size) for size in sizes], multi_gpu=multi_gpu)
    )
    by_name = chosen({line.name: line for line in found}, style)
    lines = [replace(line, name=name) for name, line in by_name.items()]
    put(lambda: {"lines": [line.numbers() for line in lines]}, lambda: solve_time(lines, style), **out)


KINDS = (jct_vs_load, jct_cdf, makespan_vs_jobs, ftf_cdf, solve_time_vs_jobs, sim_vs_real)
