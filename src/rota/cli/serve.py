"""`rota serve`: the scheduler of a deployment."""

from __future__ import annotations

import logging
import sys
from pathlib import Path
from typing import Any

import click

from rota.cli import names
from rota.cli.connection import needs_deploy
from rota.cli.options import completes, echo_json, settings_option
from rota.cli.run_options import (
    mechanism_option,
    policy_option,
    profiles_option,
    rules_option,
    seconds_option,
)

EXAMPLES = """
\b
Examples:
  rota serve --state rota.db --certs ./certs --listen 0.0.0.0:7070 \\
       --policy max-min-fairness-perf --mechanism tune
  rota serve --state rota.db --cluster cluster.toml --certs ./certs
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
    "--cluster",
    metavar="SPEC",
    shell_complete=completes(names.clusters),
    help="Servers that may join.",
)
@policy_option(default="max-min-fairness-perf", show_default=True)
@settings_option("--set-policy", "policy_settings", "Parameter of the policy")
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
@click.option(
    "--seed",
    type=int,
    default=0,
    show_default=True,
    help="Seed of policies that draw at random.",
)
@click.option(
    "--log-level",
    type=click.Choice(["debug", "info", "warning", "error"]),
    default="info",
    show_default=True,
    help="Least severity of what is logged to standard error.",
)
@click.option("--while-stdin", is_flag=True, hidden=True, help="Stop when standard input ends.")
@click.option(
    "--json",
    "as_json",
    is_flag=True,
    help='Print {"address": ...} on standard output once it listens.',
)
def command(*, log_level: str, while_stdin: bool, as_json: bool, **options: Any) -> None:
    """Run the scheduler of a deployment until Ctrl-C or TERM."""
    logging.basicConfig(level=log_level.upper(), format="%(asctime)s %(levelname)s %(message)s")
    serving = needs_deploy("rota.deploy.server.serving")
    port = _port(options, serving)
    made = _options(options)

    import asyncio

    def ready(address: str) -> None:
        if as_json:
            echo_json({"address": address})
            sys.stdout.flush()
        click.echo(f"rota: scheduler listens on {address}; state in {made.state}", err=True)

    async def run() -> None:
        stop = asyncio.Event()
        serving.stop_on_signals(stop)
        if while_stdin:
            serving.stop_on_eof(stop)
        await serving.serve(made, port, ready, stop=stop)

    asyncio.run(run())


def _port(options: dict[str, Any], serving: Any) -> Any:
    from rota.deploy.security.addresses import is_unix, split
    from rota.deploy.security.places import certs_folder

    address = options.pop("listen")
    given = options.pop("certs")
    insecure = options.pop("insecure")
    if not is_unix(address):
        split(address)  # an address that cannot be one is refused before anything is opened
    if insecure and given is not None:
        raise click.UsageError("give either --certs or --insecure")
    certs: Path | None = None if insecure else certs_folder(given)
    return serving.Port(address=address, certs=certs, insecure=insecure)


def _options(options: dict[str, Any]) -> Any:
    from rota import clusters
    from rota.deploy.scheduler.options import Options, Retention, Timing

    heartbeat = options.pop("heartbeat")
    dead_after = options.pop("dead_after")
    lease = options.pop("lease")
    keep_s = options.pop("keep_finished_s")
    keep_jobs = options.pop("keep_finished_jobs")
    if dead_after <= heartbeat:
        problem = f"--dead-after {dead_after:g} must be above --heartbeat {heartbeat:g}"
        raise click.UsageError(problem)
    spec = options.pop("cluster")
    if options["checkpoints"]:  # agents are told; they run in other folders
        options["checkpoints"] = str(Path(options["checkpoints"]).absolute())
    return Options(
        **options,
        cluster=None if spec is None else clusters.load(spec),
        timing=Timing(heartbeat_s=heartbeat, dead_after_s=dead_after, lease_s=lease),
        retention=Retention(keep_finished_s=keep_s, keep_finished_jobs=keep_jobs),
    )
