"""Kinds of `rota plot` that show single runs over time, from their event logs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from rota.cli.plot_output import bins_option, check, output_options, put

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_HOUR = 3600.0


@click.command(
    "utilization",
    epilog="Example: rota plot utilization fifo=a.jsonl.gz las=b.jsonl.gz -o busy.pdf",
)
@click.argument("logs", nargs=-1, required=True, metavar="[NAME=]LOG...")
@bins_option(120)
@output_options
def utilization(logs: tuple[str, ...], *, bins: int, **out: Any) -> None:
    """GPU time held by jobs over time, from event logs."""
    check(**out)
    from rota.experiments import plotting

    series_by_name = plotting.utilization(logs, bins)

    def numbers() -> dict[str, Any]:
        return {"lines": [{"name": n, "edge_s": s.edge, "utilization": s.value} for n, s in series_by_name.items()]}

    def figure() -> Figure:
        from rota.analysis.plots import utilization_lines

        return utilization_lines(series_by_name)

    put(numbers, figure, **out)


@click.command(
    "stranded",
    epilog="Example: rota plot stranded tune=a.jsonl.gz greedy=b.jsonl.gz -o idle.pdf",
)
@click.argument("logs", nargs=-1, required=True, metavar="[NAME=]LOG...")
@bins_option(100)
@output_options
def stranded(logs: tuple[str, ...], *, bins: int, **out: Any) -> None:
    """CPUs and memory idle beside busy GPUs, from event logs."""
    check(**out)
    from rota.analysis.figures.heat import stranded as draw
    from rota.experiments import plotting_runs

    stranded_by_name = plotting_runs.stranded(logs, bins)
    put(
        lambda: {"runs": [{"name": n, **v.numbers()} for n, v in stranded_by_name.items()]},
        lambda: draw(stranded_by_name),
        **out,
    )


@click.command(
    "fairness-over-time",
    epilog="Example: rota plot fairness-over-time run.jsonl.gz -o tenants.pdf",
)
@click.argument("log")
@bins_option(60)
@output_options
def fairness_over_time(log: str, *, bins: int, **out: Any) -> None:
    """What tenants held and were entitled to, from an event log."""
    check(**out)
    from rota.analysis.figures.shares import fairness_over_time as draw
    from rota.experiments import plotting_runs

    shares = plotting_runs.fairness_over_time(log, bins)
    put(shares.numbers, lambda: draw(shares), **out)


@click.command("gantt", epilog="Example: rota plot gantt run.jsonl.gz --to-hour 24 --colour-by model -o gantt.pdf")
@click.argument("log")
@click.option(
    "--by",
    type=click.Choice(["gpu", "server"]),
    default="gpu",
    show_default=True,
    help="Draw a row per GPU or per server.",
)
@click.option(
    "--colour-by",
    type=click.Choice(["job", "model", "tenant"]),
    default="job",
    show_default=True,
    help="What the colours of a chart by GPU say.",
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
@output_options
def gantt(log: str, *, by: str, colour_by: str, from_hour: float, to_hour: float, **out: Any) -> None:
    """Which job held which GPU when, from an event log."""
    check(**out)
    from rota.experiments import plotting

    held = plotting.occupancy(log, from_hour * _HOUR, to_hour * _HOUR)

    def figure() -> Figure:
        from rota.analysis.figures.schedule import gantt as draw

        return draw(held, by, colour_by=colour_by, width=out["width"])

    put(held.numbers, figure, **out)


KINDS = (utilization, stranded, fairness_over_time, gantt)
