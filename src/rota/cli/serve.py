"""`rota serve`: the scheduler of a deployment."""

from __future__ import annotations

import logging
import sys
from pathlib import Path
from typing import Any

import click

from rota.cli import names
from rota.cli.connection import needs_deploy
from rota.cli.options import completes, echo_json, seconds, settings_option

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
@click.option("--state", required=True, metavar="FILE", help="Where everything is kept; made if it is not there.")
@click.option("--listen", default="127.0.0.1:7070", show_default=True, metavar="ADDR", help="HOST:PORT; port 0: any.")
@click.option("--certs", metavar="DIR", help="Folder of certificates (default: ROTA_CERTS, else ~/.config/rota/certs).")
@click.option("--insecure", is_flag=True, help="No certificates and no tokens: only on a loopback address.")
@click.option("--cluster", metavar="SPEC", shell_complete=completes(names.clusters), help="The servers that may join.")
@click.option(
    "--policy", default="max-min-fairness-perf", show_default=True, metavar="NAME",
    shell_complete=completes(names.policies), help="Who gets what.",
)  # fmt: skip
@settings_option("--set-policy", "policy_settings", "Parameter of the policy")
@click.option("--mechanism", metavar="NAME", shell_complete=completes(names.mechanisms), help="Who runs where.")
@settings_option("--set-mechanism", "mechanism_settings", "Parameter of the mechanism")
@click.option(
    "--profiles", default="gavel", show_default=True, metavar="NAME|FILE", shell_complete=completes(names.profiles),
    help="How fast jobs go.",
)  # fmt: skip
@click.option(
    "--rules", default="default", show_default=True, metavar="NAME", shell_complete=completes(names.rules),
    help="How rounds are carried out; `rota rules` lists presets.",
)  # fmt: skip
@settings_option("--set-rules", "rule_settings", "Single field of the rules")
@click.option("--round", "round_s", type=float, callback=seconds, metavar="SECONDS", help="Length of a round.")
@click.option(
    "--time-scale", type=float, default=1.0, callback=seconds, show_default=True, metavar="K",
    help="Scheduler seconds per second on the wall; above 1 only with emulated jobs.",
)  # fmt: skip
@click.option("--checkpoints", default="", metavar="DIR", help="Root of checkpoints, the same on every server.")
@click.option("--heartbeat", type=float, default=2.0, callback=seconds, show_default=True, help="Of agents, seconds.")
@click.option("--dead-after", type=float, default=10.0, callback=seconds, show_default=True, help="Silent for so long.")
@click.option("--lease", type=float, default=30.0, callback=seconds, show_default=True, help="Beyond a round, seconds.")
@click.option(
    "--keep-finished", "keep_finished_s", type=click.FloatRange(0), default=3600.0, show_default=True,
    metavar="SECONDS", help="Wall seconds that jobs which are over stay in memory; later they are read from --state.",
)  # fmt: skip
@click.option(
    "--keep-finished-jobs", type=click.IntRange(0), default=10_000, show_default=True, metavar="N",
    help="How many jobs that are over stay in memory at most.",
)  # fmt: skip
@click.option("--seed", type=int, default=0, show_default=True, help="Of policies that draw.")
@click.option(
    "--log-level", type=click.Choice(["debug", "info", "warning", "error"]), default="info", show_default=True
)
@click.option("--while-stdin", is_flag=True, hidden=True, help="Stop when standard input ends.")
@click.option("--json", "as_json", is_flag=True, help='Print {"address": ...} on standard output once it listens.')
def command(*, log_level: str, while_stdin: bool, as_json: bool, **options: Any) -> None:
    """Run the scheduler of a deployment until Ctrl-C or TERM."""
    logging.basicConfig(level=log_level.upper(), format="%(asctime)s %(levelname)s %(message)s")
    serving = needs_deploy("rota.deploy.server.serving")
    port, made = _port(options, serving), _options(options)

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

    address, given, insecure = options.pop("listen"), options.pop("certs"), options.pop("insecure")
    if not is_unix(address):
        split(address)  # an address that cannot be one is refused before anything is opened
    if insecure and given is not None:
        raise click.UsageError("give either --certs or --insecure")
    certs: Path | None = None if insecure else certs_folder(given)
    return serving.Port(address=address, certs=certs, insecure=insecure)


def _options(options: dict[str, Any]) -> Any:
    from rota import clusters
    from rota.deploy.scheduler.options import Options, Retention, Timing

    heartbeat, dead_after, lease = (options.pop(name) for name in ("heartbeat", "dead_after", "lease"))
    keep_s = options.pop("keep_finished_s")
    keep_jobs = options.pop("keep_finished_jobs")
    if dead_after <= heartbeat:
        raise click.UsageError(f"--dead-after {dead_after:g} must be above --heartbeat {heartbeat:g}")
    spec = options.pop("cluster")
    if options["checkpoints"]:  # agents are told; they run in other folders
        options["checkpoints"] = str(Path(options["checkpoints"]).absolute())
    return Options(
        **options,
        cluster=None if spec is None else clusters.load(spec),
        timing=Timing(heartbeat_s=heartbeat, dead_after_s=dead_after, lease_s=lease),
        retention=Retention(keep_finished_s=keep_s, keep_finished_jobs=keep_jobs),
    )
