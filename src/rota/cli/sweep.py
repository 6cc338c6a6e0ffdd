"""`rota sweep`: many runs, from a file or from flags, into a store of results."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from rota.cli import names
from rota.cli.main import FAILED, INTERRUPTED, OK
from rota.cli.options import completes, echo_json, json_option, settings_option
from rota.cli.run_options import MEASURE, PROFILES, seconds_option

if TYPE_CHECKING:
    from rota.experiments.results import Sweep
    from rota.experiments.spec import Spec
    from rota.experiments.tasks import SweepTask

EXAMPLES = """
\b
Examples:
  rota sweep --workload gavel-continuous --cluster v100=8,p100=8,k80=8 \\
       --policies fifo,max-min-fairness-perf --loads 0.5:1.5:0.5 --seeds 0:2 \\
       --measure 200:400 --store results.db -j 2
  rota sweep my-sweep.toml --dry-run
  rota sweep my-sweep.toml --executor ray
  rota sweep --workload gavel-continuous --cluster v100=8 --policies fifo,las \\
       --auto-load 0.1 --measure 500:700

\b
Lists are written a,b,c (or a;b;c), ranges FROM:TO or FROM:TO:STEP with both ends.
Options that are given change or add to what SPEC says. See docs/experiments.md.
"""


@click.command("sweep", epilog=EXAMPLES)
@click.argument("spec", required=False)
@click.option(
    "--name",
    metavar="TEXT",
    help="Name of the sweep in the store (default: that of the file, or `sweep`).",
)
@click.option("--store", metavar="FILE", help="Store of results (default: rota-results.db).")
@click.option(
    "--workload",
    metavar="NAME",
    shell_complete=completes(names.workloads),
    help="Generator of the jobs, by name.",
)
@click.option(
    "--trace",
    multiple=True,
    metavar="FILE",
    help="Trace file with the jobs; repeat to vary.",
)
@settings_option("--set-trace", "trace_settings", "Setting of the trace format")
@click.option(
    "--cluster",
    multiple=True,
    metavar="SPEC",
    help="Servers and their GPUs; repeat to vary.",
)
@click.option(
    "--policies",
    metavar="LIST",
    shell_complete=completes(names.policies),
    help="Policies to vary.",
)
@click.option(
    "--mechanisms",
    metavar="LIST",
    shell_complete=completes(names.mechanisms),
    help="Mechanisms to vary.",
)
@click.option("--loads", metavar="RANGE", help="Loads to vary, in jobs per hour.")
@click.option("--jobs", metavar="RANGE", help="Numbers of jobs of the workload to vary.")
@click.option("--seeds", metavar="RANGE", help="Seeds of the workload to vary.")
@click.option(
    "--split",
    multiple=True,
    metavar="V,L,S",
    help="Mix of models of philly-derived; repeat to vary.",
)
@click.option("--measure", metavar="A:B|auto", help=MEASURE)
@click.option(
    "--until",
    metavar="SECONDS",
    help="Simulated time in seconds at which every run stops.",
)
@click.option("--profiles", metavar="NAME|FILE", help=PROFILES)
@click.option(
    "--rules",
    metavar="LIST",
    shell_complete=completes(names.rules),
    help="Presets of rules to vary.",
)
@settings_option("--set", "settings", "Parameter of the workload")
@settings_option(
    "--vary",
    "vary",
    "Any setting with its values: set.KEY, policy.KEY, mechanism.KEY, profiles.KEY, rules.KEY, ...",
)
@seconds_option(
    "--auto-load",
    "First load, in jobs per hour; it is raised until the cluster is full.",
    metavar="START",
)
@click.option(
    "--auto-factor",
    type=float,
    metavar="F",
    help="Next load = F x load (default: 1.25).",
)
@click.option(
    "--auto-step",
    type=float,
    metavar="S",
    help="Next load = load + S, instead of a factor.",
)
@click.option(
    "--auto-utilization",
    type=float,
    metavar="U",
    help="GPU utilisation (0 to 1) at which to stop (default: 0.99).",
)
@click.option(
    "-j",
    "--workers",
    type=int,
    metavar="N",
    help="Number of processes (default: one per CPU).",
)
@click.option("--executor", metavar="NAME", help="Where runs are made: local (default) or ray.")
@seconds_option("--timeout", "Longest time of a run in seconds on the wall.", name="timeout_s")
@click.option(
    "--overload",
    metavar="MODE",
    help="Detect overload: auto (endless workloads; default), on, off.",
)
@click.option("--no-retry", is_flag=True, help="Leave runs that failed before as they are.")
@click.option(
    "--limit",
    type=click.IntRange(min=1),
    metavar="N",
    help="Number of points to run, from the first.",
)
@click.option(
    "--dry-run",
    is_flag=True,
    help="List the runs and whether the store has them; run nothing.",
)
@click.option("--quiet", is_flag=True, help="Print no line per run.")
@json_option
def command(
    *,
    spec: str | None,
    no_retry: bool,
    limit: int | None,
    dry_run: bool,
    quiet: bool,
    as_json: bool,
    **options: Any,
) -> int:
    """Make many runs, each only once: what the store of results has already is not computed again.

    Ctrl-C loses nothing: run the same command again to go on.
    """
    from rota.experiments import sweeping  # numpy only when needed
    from rota.experiments.store import ResultStore

    wanted = sweeping.make_spec(spec, _settings(options))
    tasks = sweeping.plan(wanted, limit)
    if dry_run:
        _show_plan(wanted, tasks, as_json=as_json)
        return OK
    from rota.cli.sweep_progress import sweep_progress

    with ResultStore(wanted.store) as store, sweep_progress(wanted, quiet=quiet) as progress:
        executor = sweeping.make_executor(wanted)
        retry = not no_retry
        result = sweeping.carry_out(wanted, tasks, store, executor, progress=progress, retry=retry)
    _show(result, as_json=as_json)
    if result.interrupted:
        missing = sum(run.status is None for run in result.runs)
        click.echo(
            f"rota: interrupted: {len(result.runs) - missing} of {len(result.runs)} runs are in "
            f"{result.store}; run the same command again to go on",
            err=True,
        )
        return INTERRUPTED
    return FAILED if any(run.status in {"failed", "timeout"} for run in result.runs) else OK


def _settings(options: dict[str, Any]) -> dict[str, Any]:
    """Options as keywords of `rota.sweep`."""
    from rota.core.errors import ConfigError
    from rota.experiments.keys import canonical_name
    from rota.experiments.spec import axis_from_text

    plain = (
        "name",
        "store",
        "workload",
        "measure",
        "until",
        "profiles",
        "workers",
        "executor",
        "timeout_s",
        "overload",
    )
    settings: dict[str, Any] = {key: options[key] for key in plain if options[key] is not None}
    for key in ("policies", "mechanisms", "loads", "jobs", "seeds", "rules"):
        if options[key] is not None:
            settings[key] = _one_or_list(axis_from_text(options[key], f"--{key}"))
    for key in ("trace", "cluster", "split"):
        if options[key]:
            settings[key] = _one_or_list(options[key])
    settings.update({f"set.{key}": value for key, value in options["settings"].items()})
    settings.update({f"trace.{key}": value for key, value in options["trace_settings"].items()})
    for key, text in options["vary"].items():
        settings[canonical_name(key, "--vary")] = list(axis_from_text(text, f"--vary {key}"))
    auto = {key: options[f"auto_{key}"] for key in ("factor", "step", "utilization")}
    auto = {key: value for key, value in auto.items() if value is not None}
    if options["auto_load"] is not None:
        settings["auto_load"] = {"from": options["auto_load"], **auto}
    elif auto:
        raise ConfigError(f"--auto-{next(iter(auto))} needs --auto-load START")
    return settings


def _one_or_list(values: tuple[Any, ...]) -> Any:
    """A single value is a setting of all runs, not an axis."""
    return values[0] if len(values) == 1 else list(values)


def _show_plan(spec: Spec, tasks: list[SweepTask], *, as_json: bool) -> None:
    from pathlib import Path

    from rota.experiments.store import ResultStore
    from rota.experiments.sweeping import label

    status: dict[str, str | None] = {}
    if Path(spec.store).is_file():
        with ResultStore(spec.store, create=False) as store:
            status = {task.key: store.status(task.key) for task in tasks}
    if as_json:
        echo_json(
            [
                {
                    "key": t.key,
                    "point": label(spec, t),
                    "status": status.get(t.key),
                }
                for t in tasks
            ]
        )
        return
    from rota.cli.tables import show_table

    rows = [(t.key[:12], *_values(label(spec, t), spec.varied), status.get(t.key) or "to do") for t in tasks]
    show_table(None, ("key", *spec.varied, "status"), rows)
    done = sum(s is not None for s in status.values())
    more = " and those that --auto-load adds" if spec.auto_load is not None else ""
    click.echo(f"\n{len(tasks)} runs{more}, {done} with a result in {spec.store}")


def _values(point: dict[str, Any], varied: list[str] | tuple[str, ...]) -> list[str]:
    return [str(point.get(key, "-")) for key in varied]


def _show(sweep: Sweep, *, as_json: bool) -> None:
    if as_json:
        echo_json(
            {
                "name": sweep.name,
                "store": str(sweep.store),
                "computed": sweep.computed,
                "interrupted": sweep.interrupted,
                "runs": [
                    {
                        "key": r.key,
                        "point": r.point,
                        "status": r.status,
                        "error": r.error,
                        "metrics": r.metrics,
                    }
                    for r in sweep.runs
                ],
            }
        )
        return
    from rota.cli.results import show_runs
    from rota.experiments.remarks import remarks_of

    show_runs(sweep.runs)
    for remark in remarks_of(sweep.runs):
        click.echo(f"rota: note: {remark}", err=True)
    statuses = ("ok", "unstable", "timeout", "failed")
    counts = {status: sum(r.status == status for r in sweep.runs) for status in statuses}
    said = ", ".join(f"{n} {status}" for status, n in counts.items() if n or status == "ok")
    click.echo(f"\n{len(sweep.runs)} runs: {said}; {sweep.computed} computed now. Results: {sweep.store}")
