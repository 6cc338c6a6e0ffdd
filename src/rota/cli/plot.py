"""`rota plot`: figures for papers from stores, job tables, event logs and catalogues."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import click

from rota.cli import names
from rota.cli.options import F, completes, echo_json, settings_option

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from rota.analysis.figures.curves import PlotLine
    from rota.experiments.plotting import Curves, RunSelection

EXAMPLES = """
\b
Examples:
  rota plot jct-vs-load results.db -o jct.pdf
  rota plot jct-cdf fifo=a.csv las=b.csv -o cdf.pdf
  rota plot utilization fifo=a.jsonl.gz las=b.jsonl.gz -o busy.pdf
  rota plot gantt run.jsonl.gz --to-hour 24 -o gantt.pdf
  rota plot sensitivity synergy -o cpus.pdf
  rota plot colocation gavel --type v100 -o pairs.pdf
  rota plot makespan-vs-jobs results.db -o makespan.pdf
  rota plot ftf-cdf fifo=a.csv las=b.csv -o fair.pdf
  rota plot stranded tune=a.jsonl.gz greedy=b.jsonl.gz -o idle.pdf
  rota plot fairness-over-time run.jsonl.gz -o tenants.pdf
  rota plot solve-time-vs-jobs --policy max-min-fairness-perf -o solve.pdf
  rota plot sim-vs-real real.csv sim.csv -o ratio.pdf
"""
_HOUR = 3600.0
_sweep = click.option(
    "--sweep",
    "sweep_name",
    metavar="NAME",
    help="Name of the sweep, if the store has several.",
)
_where = settings_option("--where", "where", "Take only runs with this value, e.g. load=0.5")
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


def _output(function: F) -> F:
    """Where the figure goes, or its numbers instead."""
    function = click.option("--json", "as_json", is_flag=True, help="Print the numbers instead of drawing them.")(
        function
    )
    text = "File for the figure: .png, .pdf or .svg."
    return click.option("-o", "--output", metavar="FILE", help=text)(function)


@click.group("plot", epilog=EXAMPLES)
def command() -> None:
    """Draw a figure for a paper, as PNG, PDF or SVG by the name of the file.

    Colours can be told apart by people with colour blindness. See docs/figures.md.
    """


@command.command("jct-vs-load", epilog="Example: rota plot jct-vs-load results.db -o jct.pdf")
@click.argument("store")
@_sweep
@_where
@_output
def jct_vs_load(store: str, *, sweep_name: str | None, where: dict[str, str], **out: Any) -> None:
    """Mean completion time by load and policy, from a store.

    Mean over seeds with a 95 % band; a cross marks a load at which a run was unstable.
    """
    from rota.analysis.figures import curves
    from rota.experiments import plotting

    _draw_curves(plotting.jct_vs_load, curves.jct_vs_load, store, _choice(sweep_name, where), out)


@command.command("jct-cdf", epilog="Example: rota plot jct-cdf fifo=a.csv las=b.csv -o cdf.pdf")
@click.argument("sources", nargs=-1, required=True, metavar="STORE|[NAME=]CSV...")
@_sweep
@_where
@_output
def jct_cdf(
    sources: tuple[str, ...],
    *,
    sweep_name: str | None,
    where: dict[str, str],
    **out: Any,
) -> None:
    """Distribution of completion times, from CSVs or a store.

    Runs of a store that differ in nothing but their seed are one line.
    """
    _check(**out)
    from rota.analysis.figures import curves
    from rota.experiments import plotting

    values_by_name = plotting.jct_cdf(sources, _choice(sweep_name, where))
    _put(
        lambda: _distribution(values_by_name, "jct_s"),
        lambda: curves.jct_cdf(values_by_name),
        **out,
    )


@command.command("ftf-cdf", epilog="Example: rota plot ftf-cdf fifo=a.csv las=b.csv -o fair.pdf")
@click.argument("sources", nargs=-1, required=True, metavar="STORE|[NAME=]CSV...")
@_sweep
@_where
@_output
def ftf_cdf(
    sources: tuple[str, ...],
    *,
    sweep_name: str | None,
    where: dict[str, str],
    **out: Any,
) -> None:
    """Distribution of finish-time fairness, from CSVs or a store.

    Above 1 a job ended later than with its own part of the cluster.
    """
    _check(**out)
    from rota.analysis.figures import curves
    from rota.experiments import plotting

    values_by_name = plotting.ftf_cdf(sources, _choice(sweep_name, where))
    _put(
        lambda: _distribution(values_by_name, "ftf"),
        lambda: curves.ftf_cdf(values_by_name),
        **out,
    )


@command.command(
    "sim-vs-real",
    epilog="Example: rota plot sim-vs-real real.csv sim.csv -o ratio.pdf",
)
@click.argument("reference", metavar="[NAME=]CSV")
@click.argument("others", nargs=-1, required=True, metavar="[NAME=]CSV...")
@_output
def sim_vs_real(reference: str, others: tuple[str, ...], **out: Any) -> None:
    """Completion times of other runs over those of a first one.

    Distribution of the ratio job by job, e.g. simulated over real; works for any two files of
    --jobs-csv.
    """
    _check(**out)
    from rota.analysis.figures.curves import ratio_cdf
    from rota.experiments.plotting import named
    from rota.experiments.plotting_runs import ratios

    ratios_by_name = ratios(reference, others)
    other = next(iter(ratios_by_name)) if len(ratios_by_name) == 1 else "other"
    _put(
        lambda: _distribution(ratios_by_name, "ratio"),
        lambda: ratio_cdf(ratios_by_name, (other, named(reference)[0])),
        **out,
    )


@command.command(
    "utilization",
    epilog="Example: rota plot utilization fifo=a.jsonl.gz las=b.jsonl.gz -o busy.pdf",
)
@click.argument("logs", nargs=-1, required=True, metavar="[NAME=]LOG...")
@click.option(
    "--bins",
    type=click.IntRange(1, 10_000),
    default=120,
    show_default=True,
    help="Number of bins over time.",
)
@_output
def utilization(logs: tuple[str, ...], *, bins: int, **out: Any) -> None:
    """GPU time held by jobs over time, from event logs."""
    _check(**out)
    from rota.experiments import plotting

    series_by_name = plotting.utilization(logs, bins)

    def figure() -> Figure:
        from rota.analysis.plots import utilization_lines

        return utilization_lines(series_by_name)

    _put(
        lambda: {
            "lines": [
                {
                    "name": n,
                    "edge_s": s.edge,
                    "utilization": s.value,
                }
                for n, s in series_by_name.items()
            ]
        },
        figure,
        **out,
    )


@command.command(
    "stranded",
    epilog="Example: rota plot stranded tune=a.jsonl.gz greedy=b.jsonl.gz -o idle.pdf",
)
@click.argument("logs", nargs=-1, required=True, metavar="[NAME=]LOG...")
@click.option(
    "--bins",
    type=click.IntRange(1, 10_000),
    default=100,
    show_default=True,
    help="Number of bins over time.",
)
@_output
def stranded(logs: tuple[str, ...], *, bins: int, **out: Any) -> None:
    """CPUs and memory idle beside busy GPUs, from event logs."""
    _check(**out)
    from rota.analysis.figures.heat import stranded as draw
    from rota.experiments import plotting_runs

    stranded_by_name = plotting_runs.stranded(logs, bins)
    _put(
        lambda: {"runs": [{"name": n, **v.numbers()} for n, v in stranded_by_name.items()]},
        lambda: draw(stranded_by_name),
        **out,
    )


@command.command(
    "fairness-over-time",
    epilog="Example: rota plot fairness-over-time run.jsonl.gz -o tenants.pdf",
)
@click.argument("log")
@click.option(
    "--bins",
    type=click.IntRange(1, 10_000),
    default=60,
    show_default=True,
    help="Number of bins over time.",
)
@_output
def fairness_over_time(log: str, *, bins: int, **out: Any) -> None:
    """What tenants held and were entitled to, from an event log."""
    _check(**out)
    from rota.analysis.figures.shares import fairness_over_time as draw
    from rota.experiments import plotting_runs

    shares = plotting_runs.fairness_over_time(log, bins)
    _put(shares.numbers, lambda: draw(shares), **out)


@command.command(
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
@_output
def solve_time_vs_jobs(
    files: tuple[str, ...], *, policies: tuple[str, ...], jobs: str, multi_gpu: bool, **out: Any
) -> None:
    """CPU time of a solve by jobs and policy, measured or from JSON.

    JSON files are what `rota bench solve --json` printed, one object per line.
    """
    if bool(files) == bool(policies):
        raise click.UsageError("give either files of `rota bench solve --json` or --policy NAME")
    sizes = [part.strip() for part in jobs.split(",")]
    if not all(size.isdecimal() and int(size) > 0 for size in sizes):
        raise click.UsageError(f"--jobs {jobs!r}: write whole numbers > 0 as N,N,...")
    _check(**out)
    from rota.analysis.figures.curves import solve_time
    from rota.experiments import plotting_runs

    lines = (
        plotting_runs.solve_times(files)
        if files
        else plotting_runs.measured_solve_times(policies, [int(size) for size in sizes], multi_gpu=multi_gpu)
    )
    _put(lambda: {"lines": [line.numbers() for line in lines]}, lambda: solve_time(lines), **out)


@command.command("gantt", epilog="Example: rota plot gantt run.jsonl.gz --to-hour 24 -o gantt.pdf")
@click.argument("log")
@click.option(
    "--by",
    type=click.Choice(["gpu", "server"]),
    default="gpu",
    show_default=True,
    help="Draw a row per GPU or per server.",
)
@click.option(
    "--from-hour",
    type=float,
    default=0.0,
    show_default=True,
    help="Simulated hour at which the figure begins.",
)
@click.option(
    "--to-hour",
    type=float,
    default=float("inf"),
    help="Simulated hour at which it ends (default: the end of the run).",
)
@_output
def gantt(log: str, *, by: str, from_hour: float, to_hour: float, **out: Any) -> None:
    """Which job held which GPU when, from an event log."""
    _check(**out)
    from rota.experiments import plotting

    held = plotting.occupancy(log, from_hour * _HOUR, to_hour * _HOUR)

    def figure() -> Figure:
        from rota.analysis.figures.schedule import gantt as draw

        return draw(held, by)

    _put(held.numbers, figure, **out)


@command.command("sensitivity", epilog="Example: rota plot sensitivity synergy -o cpus.pdf")
@click.argument("catalogue", shell_complete=completes(names.profiles))
@_type
@_profile
@_output
def sensitivity(catalogue: str, *, type_: str | None, models: tuple[str, ...], **out: Any) -> None:
    """Heat maps of speed by CPUs and memory, by catalogue."""
    _check(**out)
    from rota.analysis.figures import catalogue as drawing
    from rota.experiments import plotting

    tables = plotting.sensitivity(catalogue, type_, models)
    _put(lambda: {"models": drawing.sensitivity_numbers(tables)}, lambda: drawing.sensitivity(tables), **out)


@command.command(
    "colocation",
    epilog="Example: rota plot colocation gavel --type v100 -o pairs.pdf",
)
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
@_output
def colocation(
    catalogue: str,
    *,
    type_: str | None,
    gpus: int,
    models: tuple[str, ...],
    **out: Any,
) -> None:
    """Heat map of the speed of models that share GPUs."""
    _check(**out)
    from rota.analysis.figures import catalogue as drawing
    from rota.experiments import plotting

    company = plotting.colocation(catalogue, type_, gpus, models)
    _put(company.numbers, lambda: drawing.colocation(company), **out)


@command.command(
    "makespan-vs-jobs",
    epilog="Example: rota plot makespan-vs-jobs results.db -o makespan.pdf",
)
@click.argument("store")
@_sweep
@_where
@_output
def makespan_vs_jobs(
    store: str,
    *,
    sweep_name: str | None,
    where: dict[str, str],
    **out: Any,
) -> None:
    """Makespan by number of jobs and policy, from a store."""
    from rota.analysis.figures import curves
    from rota.experiments import plotting

    selection = _choice(sweep_name, where)
    _draw_curves(plotting.makespan_vs_jobs, curves.makespan_vs_jobs, store, selection, out)


def _draw_curves(
    read: Callable[[str, RunSelection], Curves],
    draw: Callable[[Sequence[PlotLine]], Figure],
    store: str,
    selection: RunSelection,
    out: dict[str, Any],
) -> None:
    _check(**out)
    drawn = read(store, selection)
    if drawn.left_out:
        click.echo(f"rota: {drawn.left_out} runs without a result or failed are left out", err=True)
    _put(
        lambda: {"lines": [line.numbers() for line in drawn.lines], "left_out": drawn.left_out},
        lambda: draw(drawn.lines),
        **out,
    )


def _distribution(values_by_name: dict[str, Any], column: str) -> dict[str, Any]:
    import numpy as np

    return {
        "lines": [{"name": n, "jobs": len(v), column: np.sort(v[np.isfinite(v)])} for n, v in values_by_name.items()]
    }  # fmt: skip


def _choice(sweep: str | None, where: dict[str, str]) -> RunSelection:
    from rota.experiments.plotting import RunSelection

    return RunSelection(sweep=sweep, where=where)


def _check(*, output: str | None, as_json: bool) -> None:
    """What is wrong with the output is said before anything is read."""
    if as_json and output is None:
        return
    if as_json or output is None:
        raise click.UsageError("give either -o FILE (.png, .pdf or .svg) or --json")
    from rota.analysis.output import check_writable
    from rota.analysis.plots import require_matplotlib
    from rota.analysis.trace_plots import form_of

    form_of(output)
    require_matplotlib()
    check_writable(output)


def _put(
    numbers: Callable[[], dict[str, Any]],
    figure: Callable[[], Figure],
    *,
    output: str | None,
    as_json: bool,
) -> None:
    if as_json or output is None:
        echo_json(numbers())
        return
    from rota.analysis.output import write_file
    from rota.analysis.plots import rendered
    from rota.analysis.trace_plots import form_of

    write_file(output, rendered(figure(), form_of(output)))
    click.echo(output)
