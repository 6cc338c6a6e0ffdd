"""`rota simulate`: run a workload on a cluster under a policy."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from rota.analysis.output import STANDARD_OUTPUT, writing
from rota.cli import names
from rota.cli.main import INTERRUPTED, OK
from rota.cli.options import completes, echo_json, json_option, measure, settings_option
from rota.cli.run_options import (
    MEASURE,
    mechanism_option,
    policy_option,
    profiles_option,
    rules_option,
    seconds_option,
)
from rota.cli.standard_output import check_outputs, people_aside

if TYPE_CHECKING:
    from rota.api import Result

EXAMPLES = """
\b
Examples:
  rota simulate --workload gavel-continuous --set interarrival_s=4500 --seed 42 \\
       --cluster v100=36,p100=36,k80=36 --policy max-min-fairness-perf \\
       --measure 100:200
  rota simulate --trace some.trace.gz --cluster my-cluster.toml \\
       --policy finish-time-fairness --jobs-csv jobs.csv --events run.jsonl
  rota simulate --trace some.trace --cluster v100=8/4 --policy allox \\
       --set-policy alpha=0.5 --rules gavel-artifact --json
  rota simulate --trace some.trace --cluster v100=8 --policy srtf --jobs-csv - | sort -t, -k4n
  rota simulate --trace some.csv --cluster v100=16 --policy las --tenants tenants.toml

\b
CLUSTER is type=count,... (optionally type=count/gpus_per_server, then what each
server has: v100=128/8:cpus=24:memory=500), the name of a built-in cluster, a
TOML file, an INI file of Synergy, or a CSV list of servers (sn, gpu, model, as
openb has it). Files ending in .gz are read as they are.
\b
Completion times are of measured jobs that finished; without --measure all are
measured. Percentiles lie on a straight line between neighbours in the sorted list
(method 7 of Hyndman and Fan, as in NumPy).
"""


@click.command("simulate", epilog=EXAMPLES)
@click.option("--trace", metavar="FILE", help="Trace file with the jobs; its format is detected.")
@click.option(
    "--trace-format",
    metavar="NAME",
    help="Format of the trace, e.g. gavel (`rota trace formats`).",
)
@settings_option("--set-trace", "trace_settings", "Setting of the trace format")
@click.option(
    "--workload",
    metavar="NAME",
    shell_complete=completes(names.workloads),
    help="Generator of the jobs, by name.",
)
@settings_option("--set", "settings", "Parameter of the workload")
@click.option(
    "--cluster",
    required=True,
    metavar="SPEC",
    shell_complete=completes(names.clusters),
    help="Servers and their GPUs; see below.",
)
@policy_option(required=True)
@settings_option("--set-policy", "policy_settings", "Parameter of the policy")
@mechanism_option()
@settings_option("--set-mechanism", "mechanism_settings", "Parameter of the mechanism")
@profiles_option(
    default=None,
    help="Catalogue of throughput profiles, a name or a file, or several as a,b (default: that of the workload).",
)
@settings_option(
    "--set-profiles",
    "profile_settings",
    "How speeds that were not measured are found: scaling, or a parameter of the estimator of pair speeds",
)
@click.option(
    "--tenants",
    metavar="FILE",
    help="TOML file of tenants, as for `rota serve`: weight, quota, borrow and max_running count.",
)
@seconds_option("--round", "Length of a round in seconds.", name="round_s")
@rules_option(default="default", show_default=True)
@settings_option("--set-rules", "rule_settings", "One field of the rules")
@click.option(
    "--seed",
    type=int,
    show_default="the workload's own, mostly 0",
    help="Seed from which all random choices follow.",
)
@click.option("--measure", callback=measure, metavar="A:B|auto", help=MEASURE)
@seconds_option("--until", "Simulated time in seconds at which the run stops.")
@click.option("--jobs-csv", metavar="FILE", help="Write one line per job to this CSV file; - is standard output.")
@click.option(
    "--events",
    metavar="FILE",
    help="Write the event log to this file (JSON lines; .gz to compress); - is standard output.",
)
@click.option(
    "--checkpoint",
    metavar="FILE",
    help="Save the state of the run to this file, to go on with --resume.",
)
@seconds_option("--checkpoint-every", "Simulated seconds between two checkpoints.")
@click.option("--resume", metavar="FILE", help="Go on from a checkpoint of the same run.")
@json_option
def command(*, jobs_csv: str | None, as_json: bool, **options: Any) -> int:
    """Simulate a workload on a cluster under a policy, and print how well it went."""
    _check(jobs_csv, options, as_json=as_json)
    result = _run(options)
    if jobs_csv is not None:
        from rota.analysis.jobs_csv import write_jobs_csv  # numpy only when needed

        write_jobs_csv(jobs_csv, result.jobs)
    with people_aside(jobs_csv, options["events"]):
        show(result, as_json=as_json)
    return INTERRUPTED if result.interrupted else OK


def _check(jobs_csv: str | None, options: dict[str, Any], *, as_json: bool) -> None:
    """Refuse, before any work, what would fail after it."""
    _check_sources(options)
    used: dict[Path, str] = {}
    for flag in ("trace", "resume", "tenants"):
        if options[flag] is not None:
            used[Path(options[flag]).resolve()] = f"--{flag}"
    outputs = {
        "--jobs-csv": jobs_csv,
        "--events": options["events"],
        "--checkpoint": options["checkpoint"],
    }
    check_outputs(outputs, as_json=as_json)
    if options["checkpoint"] is not None and _is_device(Path(options["checkpoint"])):
        raise click.UsageError(f"--checkpoint {options['checkpoint']} is no file to go on from; give a file name")
    for flag, path in outputs.items():
        if path is None or path == STANDARD_OUTPUT:
            continue
        target = Path(path).resolve()
        other = used.setdefault(target, flag)
        may_be_same = {flag, other} == {"--checkpoint", "--resume"} or _is_device(target)
        if other != flag and not may_be_same:
            raise click.UsageError(f"{flag} and {other} name the same file: {path}")


def _check_sources(options: dict[str, Any]) -> None:
    """Options that need or exclude one another."""
    if (options["trace"] is None) == (options["workload"] is None):
        raise click.UsageError("give either --trace FILE or --workload NAME")
    if options["trace_format"] is not None and options["trace"] is None:
        raise click.UsageError("--trace-format needs --trace")
    if options["trace_settings"] and options["trace"] is None:
        raise click.UsageError("--set-trace needs --trace; parameters of a workload go to --set")
    if options["settings"] and options["workload"] is None:
        fix = "settings of the trace go to --set-trace, parameters of the policy to --set-policy"
        raise click.UsageError(f"--set is for --workload; {fix}")
    if options["checkpoint_every"] is not None and options["checkpoint"] is None:
        raise click.UsageError("--checkpoint-every needs --checkpoint FILE")
    if options["checkpoint"] == STANDARD_OUTPUT:
        raise click.UsageError("--checkpoint - is no file to go on from; give a file name")


def _is_device(path: Path) -> bool:
    return path.exists() and not path.is_file()


def _run(options: dict[str, Any]) -> Result:
    from rota import api
    from rota.cli.progress import progress_bar

    with contextlib.ExitStack() as stack:
        if options["events"] == STANDARD_OUTPUT:
            options = {**options, "events": stack.enter_context(writing(STANDARD_OUTPUT))}
        bar = stack.enter_context(progress_bar("simulating"))
        return api.simulate(**options, progress=bar)


TYPE_BLIND = ("drf", "fifo", "ftf", "las", "srsf", "srtf", "tetris")
"""Rankings that do not look at GPU types; each has a twin that does."""


def _about_types(result: Result) -> list[str]:
    """What a user of a ranking should know on a cluster of several types."""
    policy = result.config.get("policy")
    types = {server[1] for server in result.config.get("cluster", {}).get("servers", ())}
    if policy not in TYPE_BLIND or len(types) < 2:
        return []
    how = "a job that starts takes any free GPU, drawn by the seed"
    return [f"{policy} does not look at GPU types: {how}; {policy}-perf chooses the type (docs/rules.md)"]


def show(result: Result, *, as_json: bool) -> None:
    """A result for a program or for a person; remarks go to standard error."""
    for note in [*result.notes, *_about_types(result)]:
        click.echo(f"rota: note: {note}", err=True)
    if as_json:
        echo_json(payload(result))
        return
    from rota.cli.tables import show_pairs, summary_rows

    config = result.config
    title = f"{config.get('policy', 'run')}"
    if result.interrupted:
        title += " (interrupted: what was done so far)"
    show_pairs(title, summary_rows(result.summary))


def payload(result: Result) -> dict[str, Any]:
    """All there is to say about a run, as one object."""
    from rota._version import __version__

    return {
        **result.summary,
        "interrupted": result.interrupted,
        "notes": list(result.notes),
        "config": result.config,
        "version": __version__,
    }
