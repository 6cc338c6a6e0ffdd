"""`rota fidelity`: one trace simulated and emulated, job by job."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import click

from rota.cli.options import echo_json, json_option, settings_option
from rota.cli.run_options import (
    mechanism_option,
    policy_option,
    profiles_option,
    rules_option,
    seconds_option,
)
from rota.cli.standard_output import check_outputs, people_aside

if TYPE_CHECKING:
    from rota.deploy.fidelity import Fidelity

EXAMPLES = """
\b
Examples:
  rota fidelity my.trace --cluster v100=16/2:cpus=6:memory=125 --policy las \\
       --mechanism tune --profiles synergy --round 300 --time-scale 240
  rota fidelity my.trace --cluster v100=4,k80=4 --policy max-min-fairness-perf \\
       --time-scale 600 --limit 20 --jobs-csv both.csv --figure fidelity.pdf
"""


@click.command("fidelity", epilog=EXAMPLES)
@click.argument("trace", metavar="TRACE")
@click.option(
    "--trace-format",
    metavar="NAME",
    help="Format of the trace, e.g. gavel (`rota trace formats`).",
)
@settings_option("--set-trace", "trace_settings", "Setting of the trace format")
@click.option(
    "--cluster",
    required=True,
    metavar="SPEC",
    help="Servers and their GPUs, as for `rota simulate`.",
)
@policy_option(required=True)
@settings_option("--set-policy", "policy_settings", "Parameter of the policy")
@mechanism_option()
@settings_option("--set-mechanism", "mechanism_settings", "Parameter of the mechanism")
@profiles_option(default=None)
@seconds_option("--round", "Length of a round in seconds.", name="round_s")
@rules_option(default="default", show_default=True)
@settings_option("--set-rules", "rule_settings", "One field of the rules")
@click.option(
    "--time-scale",
    type=click.FloatRange(1.0, 10000.0),
    default=60.0,
    show_default=True,
    metavar="K",
    help="Seconds of the emulated cluster's clock per second on the wall.",
)
@click.option(
    "--limit",
    type=click.IntRange(1),
    metavar="N",
    help="Number of jobs to take from the begin of the trace.",
)
@click.option(
    "--steps-divided-by",
    type=click.FloatRange(1.0),
    default=1.0,
    metavar="K",
    help="Divide the number of steps of every job by this.",
)
@click.option(
    "--jobs-csv",
    metavar="FILE",
    help="Write both completion times of every job to this CSV file; - is standard output.",
)
@click.option(
    "--figure",
    metavar="FILE",
    help="Draw the distribution of the ratios (.png, .pdf or .svg).",
)
@json_option
def command(
    *,
    trace: str,
    jobs_csv: str | None,
    figure: str | None,
    as_json: bool,
    **options: Any,
) -> None:
    """Run a trace simulated and emulated, and compare job by job.

    The emulation has a real scheduler, real agents, leases and checkpoints; only the GPUs are
    emulated, and time.
    """
    if figure is not None:
        from rota.analysis.trace_plots import form_of  # kept off the path of --help

        form_of(figure)
    check_outputs({"--jobs-csv": jobs_csv, "--figure": figure}, as_json=as_json)
    fidelity = _run(trace, options)
    if jobs_csv is not None:
        _write(jobs_csv, fidelity)
    if figure is not None:
        _draw(figure, fidelity)
    if as_json:
        echo_json(_plain(fidelity))
        return
    with people_aside(jobs_csv):
        _show(fidelity)


def _run(trace: str, options: dict[str, Any]) -> Fidelity:
    import dataclasses

    import numpy as np

    from rota import api, clusters, workloads
    from rota.deploy.fidelity import compare
    from rota.deploy.scheduler.options import Options

    jobs = workloads.read_trace(
        trace, options["trace_format"], options["trace_settings"], catalogue=options["profiles"]
    )
    jobs = jobs if options["limit"] is None else jobs.rows(0, min(options["limit"], len(jobs)))
    shorter = np.maximum(1.0, np.round(jobs.total_steps / options["steps_divided_by"]))
    jobs = dataclasses.replace(jobs, total_steps=shorter)
    cluster = clusters.load(options["cluster"])
    same = {
        name: options[name]
        for name in (
            "policy",
            "policy_settings",
            "mechanism",
            "mechanism_settings",
            "rules",
            "rule_settings",
            "round_s",
        )
    }
    simulated = api.simulate(jobs=jobs, cluster=cluster, profiles=options["profiles"], **same)
    profiles = options["profiles"] or simulated.config["profiles"]
    emulated = Options(state="", profiles=profiles, time_scale=options["time_scale"], **same)
    wall = simulated.summary["makespan_s"] / options["time_scale"]
    with _bar(f"emulating {len(jobs)} jobs for about {wall:,.0f} s", len(jobs)) as progress:
        return compare(jobs, simulated, cluster, emulated, progress)


@contextlib.contextmanager
def _bar(label: str, total: int) -> Iterator[Callable[[int, int], None] | None]:
    if not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(label, total=total)
        yield lambda done, _: bar.update(task, completed=done)


def _plain(fidelity: Fidelity) -> dict[str, Any]:
    return {
        "jobs": len(fidelity.simulated),
        "metrics": {
            d.name: {"simulated": d.simulated, "emulated": d.emulated, "difference": d.part}
            for d in fidelity.differences()
        },
        "ratio_percentiles": dict(zip(("p5", "p50", "p95"), _percentiles(fidelity), strict=True)),
        "preemptions": fidelity.preemptions,
        "wall_s": fidelity.wall_s,
        "simulated_jct_s": fidelity.simulated.tolist(),
        "emulated_jct_s": fidelity.emulated.tolist(),
    }


def _percentiles(fidelity: Fidelity) -> list[float]:
    import numpy as np

    values: list[float] = np.percentile(fidelity.ratios, [5, 50, 95]).tolist()
    return values


def _show(fidelity: Fidelity) -> None:
    from rota.cli.tables import show_table

    rows = [
        (d.name, f"{d.simulated:,.0f} s", f"{d.emulated:,.0f} s", f"{100 * d.part:+.2f} %")
        for d in fidelity.differences()
    ]
    header = ("metric", "simulated", "emulated", "difference")
    show_table(f"{len(fidelity.simulated)} jobs", header, rows, numbers=3)
    low, middle, high = _percentiles(fidelity)
    click.echo(
        f"Per job, emulated over simulated: median {middle:.3f}, 5 % below {low:.3f}, 5 % above "
        f"{high:.3f}. {fidelity.preemptions} preemptions; {fidelity.wall_s:,.0f} s on the wall."
    )


def _write(path: str, fidelity: Fidelity) -> None:
    import csv

    from rota.analysis.output import writing

    with writing(path, text=True) as file:
        lines = csv.writer(file)
        lines.writerow(("job_id", "simulated_jct_s", "emulated_jct_s", "ratio"))
        rows = zip(fidelity.simulated, fidelity.emulated, fidelity.ratios, strict=True)
        for number, row in enumerate(rows):
            lines.writerow((number, *(f"{value:.3f}" for value in row)))


def _draw(path: str, fidelity: Fidelity) -> None:
    from rota.analysis import plots
    from rota.analysis.figures import curves
    from rota.analysis.output import write_file
    from rota.analysis.trace_plots import form_of

    figure = curves.ratio_cdf({"jobs": fidelity.ratios}, ("emulated", "simulated"))
    write_file(path, plots.rendered(figure, form_of(path)))
