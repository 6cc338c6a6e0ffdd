"""`rota agent`: the agent of a server."""

from __future__ import annotations

import logging
import sys
from pathlib import Path
from typing import Any

import click

from rota.cli.connection import needs_deploy
from rota.cli.options import echo_json

EXAMPLES = """
\b
Examples:
  rota agent --scheduler gpu-head:7070 --gpus auto --certs ./for-node1
  rota agent --scheduler gpu-head:7070 --gpus emulate:v100=8 --certs ./for-node1
  rota agent --scheduler 127.0.0.1:7070 --gpus emulate:k80=4 --name k80-0 --insecure

\b
The name of the server is that of its certificate (`rota certs agent NAME`).
With a connection file the agent takes the line of its own address (or --host):
its GPUs and CPUs are counted from the first ones that stand there.
Stopping the agent does not stop its jobs: they run until their leases end, and
an agent that is started again in the same folder takes them over.
"""
_AMOUNT = click.FloatRange(0, min_open=True)


@click.command("agent", epilog=EXAMPLES)
@click.option("--scheduler", metavar="HOST:PORT", help="Where it is (or ROTA_SCHEDULER, or client.toml).")
@click.option("--gpus", required=True, metavar="WHAT", help="auto, TYPE=N, or emulate:TYPE=N.")
@click.option("--name", metavar="NAME", help="Of the server (default: that of the certificate, else of the machine).")
@click.option("--folder", metavar="DIR", help="What it remembers (default: ~/.local/state/rota/NAME).")
@click.option("--cpus", type=_AMOUNT, help="CPUs for jobs (default: all; emulated: 3 per GPU).")
@click.option("--memory-gb", type=_AMOUNT, help="Memory for jobs (default: all; emulated: 62.5 per GPU).")
@click.option("--storage-mbps", type=_AMOUNT, help="Storage bandwidth, MB/s.")
@click.option("--network-gbps", type=_AMOUNT, help="Network, Gb/s.")
@click.option("--rack", default="", metavar="NAME", help="Where it stands.")
@click.option("--host", metavar="IP[:PORT]", help="Where ranks of a gang find this machine (default: 127.0.0.1).")
@click.option("--connection-file", metavar="FILE", help="Synergy's: ip,port,first gpu,first cpu,numa on each line.")
@click.option("--checkpoints", metavar="DIR", help="Root of checkpoints (default: what the scheduler says).")
@click.option("--certs", metavar="DIR", help="Folder of certificates (or ROTA_CERTS, or client.toml).")
@click.option("--insecure", is_flag=True, help="No certificates: only for a scheduler on this machine.")
@click.option(
    "--log-level", type=click.Choice(["debug", "info", "warning", "error"]), default="info", show_default=True
)
@click.option("--while-stdin", is_flag=True, hidden=True, help="Stop when standard input ends.")
@click.option("--json", "as_json", is_flag=True, help='Print {"node": ...} on standard output once it is registered.')
def command(*, log_level: str, while_stdin: bool, as_json: bool, **options: Any) -> None:
    """Run the agent of a server until Ctrl-C or TERM."""
    logging.basicConfig(level=log_level.upper(), format="%(asctime)s %(levelname)s %(message)s")
    runs = needs_deploy("rota.deploy.agent.runs")
    settings = _settings(options)
    name = options.pop("name") or (settings.bundle.subject.name if settings.bundle is not None else _host_name())
    given = options.pop("folder")
    folder = Path(given) if given else Path.home() / ".local" / "state" / "rota" / name
    checkpoints = options.pop("checkpoints")
    gpus = options.pop("gpus")

    from rota.deploy.agent.machine import Said, equipment  # noqa: PLC0415

    mine = _connection(options)
    offered = equipment(gpus, Said(name=name, **{key: value for key, value in options.items() if value is not None}))

    def ready() -> None:
        if as_json:
            echo_json({"node": name, "scheduler": settings.address})
            sys.stdout.flush()
        what = f"{len(offered.devices)} x {offered.type}{' (emulated)' if offered.emulated else ''}"
        click.echo(f"rota: agent {name} offers {what} to {settings.address}", err=True)

    where = Path(checkpoints) if checkpoints else None
    runs.run_agent(
        offered, folder, settings, ready, checkpoints=where, while_stdin=while_stdin, connection=mine
    )  # fmt: skip


def _connection(options: dict[str, Any]) -> Any:
    """The line of the connection file that is ours; what it says goes into the options."""
    path = options.pop("connection_file")
    if path is None:
        return None
    from rota.deploy.worker.inventory import own_connection  # noqa: PLC0415

    mine = own_connection(path, options["host"] or "")
    options |= {"host": mine.host, "first_gpu": mine.first_gpu, "first_cpu": mine.first_cpu}
    return mine


def _settings(options: dict[str, Any]) -> Any:
    client = needs_deploy("rota.deploy.security.client")

    from rota.deploy.security.subjects import Role  # noqa: PLC0415

    return client.find_settings(
        options.pop("scheduler"), options.pop("certs"), insecure=options.pop("insecure"), role=Role.AGENT,
        name=options["name"],
    )  # fmt: skip


def _host_name() -> str:
    import socket  # noqa: PLC0415

    return socket.gethostname()
