"""`rota serve`: the scheduler of a deployment."""

from __future__ import annotations

import logging
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from rota.cli import names
from rota.cli.connection import needs_deploy
from rota.cli.observation_options import configure_logs, log_format_option, observation_options, observed
from rota.cli.options import completes, echo_json, settings_option
from rota.cli.retention_options import KEPT, retention_options
from rota.cli.run_options import (
    mechanism_option,
    policy_option,
    profiles_option,
    rules_option,
    seconds_option,
)
from rota.cli.sizes import size_option

EXAMPLES = """
\b
Examples:
  rota serve --state rota.db --certs ./certs --listen 0.0.0.0:7070 \\
       --policy max-min-fairness-perf --mechanism tune
  rota serve --state rota.db --cluster cluster.toml --certs ./certs
  rota serve --state rota.db --certs ./certs --tenants tenants.toml
  rota serve --state rota.db --certs ./certs --listen 0.0.0.0:7070 \\
       --nodes slurm:partition=gpu,nodes=16,time=4h
  rota serve --state rota.db --certs ./certs --metrics 127.0.0.1:9464 \\
       --notify notify.toml --log-format json
  rota serve --state test.db --insecure --time-scale 60 --round 60

\b
Everything that happens is committed to the state file before anybody acts on it.
Stop it with Ctrl-C or TERM and start it again: it goes on where it was; jobs run
on meanwhile until their leases end. With --cluster only the servers of that file
may join, under their names (type-0, type-1, ...); without it any agent with a
certificate may.
"""


@click.command("serve", epilog=EXAMPLES)
@click.option(
    "--state",
    required=True,
    metavar="FILE",
    help="Journal of the scheduler; made if it is not there.",
)
@click.option(
    "--listen",
    default="127.0.0.1:7070",
    show_default=True,
    metavar="HOST:PORT",
    help="Address on which the scheduler listens; port 0 is any free one.",
)
@click.option(
    "--certs",
    metavar="DIR",
    help="Folder with the certificates (default: ROTA_CERTS, else ~/.config/rota/certs).",
)
@click.option(
    "--insecure",
    is_flag=True,
    help="Use no certificates and no tokens: only on a loopback address.",
)
@click.option(
    "--sign-joins",
    is_flag=True,
    help="Sign certificates of servers that show a join ticket (rota pilots); needs ca.key in the folder of --certs.",
)
@click.option(
    "--nodes",
    metavar="SPEC",
    help="Keep pilots on Slurm beside the scheduler, e.g. slurm:partition=gpu,nodes=16,time=4h (implies --sign-joins).",
)
@click.option(
    "--cluster",
    metavar="SPEC",
    shell_complete=completes(names.clusters),
    help="Servers that may join.",
)
@policy_option(default="max-min-fairness-perf", show_default=True)
@settings_option("--set-policy", "policy_settings", "Parameter of the policy")
@click.option(
    "--tenants",
    type=click.Path(resolve_path=True),
    metavar="FILE",
    help="TOML file with weights and limits of tenants.",
)
@click.option(
    "--standby-of",
    metavar="HOST:PORT",
    help="Stand by for the scheduler there: take its journal over as it is written, and its work when it is gone.",
)
@click.option(
    "--standby-token-file",
    metavar="FILE",
    help="File with an administrator's token, with which a standby asks for the journal.",
)
@click.option(
    "--advertise",
    default="",
    metavar="HOST:PORT",
    help="Address at which agents and users reach this standby (default: that of --listen).",
)
@click.option(
    "--standby-sync",
    is_flag=True,
    help="Let every commit wait until the standby has it, 2 seconds at most.",
)
@click.option(
    "--take-over",
    is_flag=True,
    help="Be in charge without asking servers: only if the other scheduler surely does not run.",
)
@click.option(
    "--discard-live-settings",
    is_flag=True,
    help="Forget what `rota policy set` and `rota tenants set` changed; otherwise that counts more than these options.",
)
@click.option(
    "--fair-by",
    type=click.Choice(["tenant", "job"]),
    default="tenant",
    show_default=True,
    help="Whom a policy that goes by weights treats alike: tenants and then the jobs of each, or all jobs.",
)
@mechanism_option()
@settings_option("--set-mechanism", "mechanism_settings", "Parameter of the mechanism")
@profiles_option(default="gavel", show_default=True)
@rules_option(default="default", show_default=True)
@settings_option("--set-rules", "rule_settings", "One field of the rules")
@seconds_option("--round", "Length of a round in seconds.", name="round_s")
@seconds_option(
    "--time-scale",
    "Seconds of the scheduler's clock per second on the wall; above 1 only with emulated jobs.",
    default=1.0,
    show_default=True,
    metavar="K",
)
@click.option(
    "--checkpoints",
    default="",
    metavar="DIR",
    help="Root folder of checkpoints, the same on every server.",
)
@seconds_option(
    "--heartbeat",
    "Seconds between two reports of an agent.",
    default=2.0,
    show_default=True,
)
@seconds_option(
    "--dead-after",
    "Seconds of silence after which an agent counts as lost.",
    default=10.0,
    show_default=True,
)
@seconds_option(
    "--lease",
    "Seconds that a job may run on after the end of its round.",
    default=30.0,
    show_default=True,
)
@click.option(
    "--least-turn",
    "least_turn_s",
    type=click.FloatRange(0),
    default=0.0,
    show_default=True,
    metavar="SECONDS",
    help="Wall seconds that a job runs at least, once started, before it may be preempted, unless it says so itself.",
)
@click.option(
    "--keep-finished",
    "keep_finished_s",
    type=click.FloatRange(0),
    default=3600.0,
    show_default=True,
    metavar="SECONDS",
    help="Wall seconds that jobs which are over stay in memory; later they are read from --state.",
)
@click.option(
    "--keep-finished-jobs",
    type=click.IntRange(0),
    default=10_000,
    show_default=True,
    metavar="N",
    help="Largest number of jobs which are over that stay in memory.",
)
@retention_options(defaults=True)
@click.option(
    "--claim-checkpoints",
    is_flag=True,
    help="Take over a folder of --checkpoints that belongs to another state file; nothing in it is removed.",
)
@click.option(
    "--logs",
    default="",
    metavar="DIR",
    help="Folder in which the output of jobs is kept (default: the name of --state and .logs).",
)
@size_option(
    "--keep-logs",
    "Output of all jobs that is kept; the oldest of the tenant with most goes first.",
    default="4GB",
)
@size_option("--keep-job-logs", "Output of one job that is kept.", default="64MB")
@size_option("--log-segment", "Size of the pieces in which output is dropped.", default="1MB")
@click.option(
    "--keep-logs-days",
    type=click.FloatRange(0, min_open=True),
    default=30.0,
    show_default=True,
    metavar="DAYS",
    help="Days for which the output of a job is kept, from its end on.",
)
@click.option(
    "--questions-per-minute",
    type=click.IntRange(0),
    default=60,
    show_default=True,
    metavar="N",
    help="Questions of each tenant that are answered (why, eta, what-if, ledger); 0: none.",
)
@seconds_option(
    "--question-cpu",
    "CPU seconds of one question; three times as many a minute for each tenant.",
    default=20.0,
    show_default=True,
)
@click.option(
    "--seed",
    type=int,
    default=0,
    show_default=True,
    help="Seed of policies that draw at random.",
)
@observation_options
@click.option(
    "--log-level",
    type=click.Choice(["debug", "info", "warning", "error"]),
    default="info",
    show_default=True,
    help="Least severity of what is logged to standard error.",
)
@log_format_option
@click.option("--while-stdin", is_flag=True, hidden=True, help="Stop when standard input ends.")
@click.option(
    "--json",
    "as_json",
    is_flag=True,
    help='Print {"address": ...} on standard output once it listens.',
)
def command(*, log_level: str, log_format: str, while_stdin: bool, as_json: bool, **options: Any) -> None:
    """Run the scheduler of a deployment until Ctrl-C or TERM."""
    configure_logs(log_level, log_format)
    serving = needs_deploy("rota.deploy.server.serving")
    places: dict[str, str] = {}
    seen = Observed(observed(options, log_format, lambda url: places.update(metrics=url)), places)
    port = _port(options, serving)
    pilots = _pilots(options, port)
    other = _standby_of(options, port)
    made = _options(options)

    import asyncio

    try:
        asyncio.run(_run(made, port, other, pilots, seen, as_json=as_json, while_stdin=while_stdin))
    finally:
        if pilots is not None:
            pilots.stop()


@dataclass(frozen=True, slots=True)
class Observed:
    """Metrics and notifications beside the scheduler."""

    settings: Any
    places: dict[str, str]
    """Addresses that are known once it listens, by what is served there."""


async def _run(
    made: Any, port: Any, other: Any, pilots: Any, seen: Observed, *, as_json: bool, while_stdin: bool
) -> None:
    import asyncio

    from rota.deploy.server import serving

    stop = asyncio.Event()
    serving.stop_on_signals(stop)
    if while_stdin:
        serving.stop_on_eof(stop)
    start = made
    if other is not None:
        term = await _stand_by(made, other, port, as_json=as_json, stop=stop)
        if term is None:
            return
        start = replace(made, term=term, state_checked=True)

    def ready(address: str) -> None:
        _tell_ready(start, {"address": address, **seen.places}, as_json=as_json)
        if pilots is not None:
            pilots.start(address)

    await serving.serve(start, port, ready, stop=stop, observed=seen.settings)


def _tell_ready(made: Any, places: dict[str, str], *, as_json: bool) -> None:
    if as_json:
        echo_json(places)
        sys.stdout.flush()
    if not made.checkpoints:
        logging.getLogger(__name__).warning(
            "no --checkpoints: what a job saves stays on its server, and a job that moves to another one cannot go "
            "on from it; give a folder that all servers see"
        )
    metrics = f"; metrics on {places['metrics']}" if "metrics" in places else ""
    click.echo(f"rota: scheduler listens on {places['address']}; state in {made.state}{metrics}", err=True)


def _port(options: dict[str, Any], serving: Any) -> Any:
    from rota.deploy.security.addresses import is_unix, split
    from rota.deploy.security.places import certs_folder

    address = options.pop("listen")
    given = options.pop("certs")
    insecure = options.pop("insecure")
    sign_joins = options.pop("sign_joins") or options["nodes"] is not None
    if not is_unix(address):
        split(address)  # an address that cannot be one is refused before anything is opened
    if insecure and given is not None:
        raise click.UsageError("give either --certs or --insecure")
    if insecure and sign_joins:
        raise click.UsageError("--sign-joins and --nodes need certificates; leave --insecure out")
    certs: Path | None = None if insecure else certs_folder(given)
    return serving.Port(address=address, certs=certs, insecure=insecure, sign_joins=sign_joins)


def _standby_of(options: dict[str, Any], port: Any) -> Any:
    """The scheduler for which this one is to stand by, if one was asked for."""
    address = options.pop("standby_of")
    token_file = options.pop("standby_token_file")
    own = options.pop("advertise") or port.address
    if options.pop("take_over"):
        if address is not None:
            raise click.UsageError("give either --standby-of or --take-over")
        _take_over(options)
    if address is None:
        return None
    from rota.deploy.security.client import find_settings

    standby = needs_deploy("rota.deploy.server.standby")
    certs = None if port.insecure else port.certs
    settings = find_settings(address, certs, token_file, insecure=port.insecure)
    return standby.StandbyOf(settings=settings, address=own)


def _take_over(options: dict[str, Any]) -> None:
    """A new term, later than all that were ever elected; numbers that the other one gave are not given again."""
    from rota.deploy.clocks import wall_s
    from rota.deploy.scheduler import lost_events

    options["term"] = int(wall_s())
    if Path(options["state"]).exists():
        lost_events.mark(Path(options["state"]), "taken over by --take-over")


async def _stand_by(made: Any, other: Any, port: Any, *, as_json: bool, stop: Any) -> int | None:
    from rota.deploy.server.serving import RULES
    from rota.deploy.server.standby import stand_by

    def ready(address: str) -> None:
        if as_json:
            echo_json({"address": address, "standby_of": other.settings.address})
            sys.stdout.flush()
        click.echo(f"rota: standby of {other.settings.address} listens on {address}; state in {made.state}", err=True)

    return await stand_by(made, other, port, RULES, ready, stop)


def _pilots(options: dict[str, Any], port: Any) -> Any:
    """The keeper of pilots beside the scheduler, if one was asked for."""
    spec = options.pop("nodes")
    if spec is None:
        return None
    beside = needs_deploy("rota.deploy.providers.beside")
    return beside.PilotsBeside(arguments=beside.pilots_arguments(spec), state=Path(options["state"]), certs=port.certs)


def _options(options: dict[str, Any]) -> Any:
    from rota import clusters
    from rota.deploy.scheduler.options import LogLimits, Options, QuestionLimits, Timing
    from rota.deploy.tenants import Tenants, read_tenants

    heartbeat = options.pop("heartbeat")
    dead_after = options.pop("dead_after")
    lease = options.pop("lease")
    retention = _retention(options)
    if dead_after <= heartbeat:
        problem = f"--dead-after {dead_after:g} must be above --heartbeat {heartbeat:g}"
        raise click.UsageError(problem)
    limits = LogLimits(
        job_bytes=options.pop("keep_job_logs"),
        total_bytes=options.pop("keep_logs"),
        keep_s=options.pop("keep_logs_days") * 86400.0,
        segment_bytes=options.pop("log_segment"),
    )
    if limits.segment_bytes * 4 > limits.job_bytes:
        problem = f"--log-segment is {limits.segment_bytes:,} bytes; give at most a quarter of --keep-job-logs"
        raise click.UsageError(f"{problem} ({limits.job_bytes:,} bytes)")
    cpu_s = options.pop("question_cpu")
    asked = QuestionLimits(
        per_minute=options.pop("questions_per_minute"),
        cpu_s=cpu_s,
        cpu_s_per_minute=3 * cpu_s,
    )
    spec = options.pop("cluster")
    tenants = options.pop("tenants")
    if options["checkpoints"]:  # agents are told; they run in other folders
        options["checkpoints"] = str(Path(options["checkpoints"]).absolute())
    return Options(
        **options,
        cluster=None if spec is None else clusters.load(spec),
        tenants=Tenants() if tenants is None else read_tenants(tenants),
        tenants_file=tenants or "",
        timing=Timing(heartbeat_s=heartbeat, dead_after_s=dead_after, lease_s=lease),
        retention=retention,
        log_limits=limits,
        questions=asked,
    )


def _retention(options: dict[str, Any]) -> Any:
    from rota.deploy.scheduler.options import Retention

    jobs, events, rounds, checkpoints, size = (options.pop(name) for name in KEPT)
    if checkpoints > jobs:
        context = click.get_current_context()
        if context.get_parameter_source("keep_checkpoints") is not ParameterSource.DEFAULT:
            problem = "--keep-checkpoints must not be above --keep-jobs: checkpoints of a job go with it at the latest"
            raise click.UsageError(problem)
        checkpoints = jobs
    return Retention(
        keep_finished_s=options.pop("keep_finished_s"),
        keep_finished_jobs=options.pop("keep_finished_jobs"),
        keep_jobs_s=jobs,
        keep_events_s=events,
        keep_rounds_s=rounds,
        keep_checkpoints_s=checkpoints,
        keep_bytes=size,
    )
