"""`rota agent`: the agent of a server."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import click

from rota.cli.connection import needs_deploy
from rota.cli.observation_options import configure_logs, log_format_option
from rota.cli.options import echo_json
from rota.cli.run_options import seconds_option
from rota.core.errors import ConfigError

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
With several --name one process is the agents of as many emulated servers that
are alike, each with a folder of its own in --folder.
Stopping the agent does not stop its jobs: they run until their leases end, and
an agent that is started again in the same folder takes them over.
"""
_AMOUNT = click.FloatRange(0, min_open=True)


@click.command("agent", epilog=EXAMPLES)
@click.option(
    "--scheduler",
    metavar="HOST:PORT",
    help="Address of the scheduler (or ROTA_SCHEDULER, or client.toml).",
)
@click.option(
    "--gpus",
    required=True,
    metavar="WHAT",
    help="GPUs of the server: auto (those that are there), TYPE=N, emulate:TYPE=N, slurm (what Slurm gave this job).",
)
@click.option(
    "--name",
    "names",
    multiple=True,
    metavar="NAME",
    help="Name of the server (default: from the certificate, else of the machine); repeatable for emulated servers.",
)
@click.option(
    "--folder",
    metavar="DIR",
    help="Folder of the agent's own state (default: ~/.local/state/rota/NAME; of root: /var/lib/rota/NAME).",
)
@click.option("--cpus", type=_AMOUNT, help="CPUs for jobs (default: all; emulated: 3 per GPU).")
@click.option(
    "--memory-gb",
    type=_AMOUNT,
    help="Memory for jobs in GB (10^9 bytes; default: all; emulated: 62.5 per GPU).",
)
@click.option("--storage-mbps", type=_AMOUNT, help="Bandwidth of the storage in MB/s.")
@click.option("--network-gbps", type=_AMOUNT, help="Bandwidth of the network in Gb/s.")
@click.option("--rack", default="", metavar="NAME", help="Rack in which the server stands.")
@click.option(
    "--host",
    metavar="IP[:PORT]",
    help="Address at which ranks of a job find this machine (default: the one by which it reaches the scheduler).",
)
@click.option(
    "--connection-file",
    metavar="FILE",
    help="Connection file of Synergy, with lines of ip,port,first gpu,first cpu,numa.",
)
@click.option(
    "--checkpoints",
    metavar="DIR",
    help="Root folder of checkpoints (default: what the scheduler says).",
)
@seconds_option(
    "--longest-save",
    "Seconds that a job may take to save after it was asked to stop, however much it writes.",
    name="longest_save_s",
    default=1800.0,
    show_default=True,
)
@click.option(
    "--config",
    "config",
    metavar="FILE",
    help="File of the operator: users of tenants, images and folders for containers (docs/workers.md).",
)
@click.option(
    "--trust-tenants",
    is_flag=True,
    help="Run all jobs as the agent's own user: tenants can read and harm each other's files.",
)
@click.option(
    "--tenant",
    default="",
    metavar="NAME",
    help="Only tenant of an agent that is not root (default: the first whose job comes).",
)
@click.option(
    "--leave-within",
    "leave_within_s",
    type=_AMOUNT,
    metavar="SECONDS",
    help="On TERM leave for good: drain, let jobs save, end them all within this time (default: jobs run on).",
)
@click.option(
    "--notice",
    "notice_s",
    type=_AMOUNT,
    metavar="SECONDS",
    help="With --leave-within: time to leave after USR1, by which a batch system gives notice.",
)
@click.option(
    "--dcgm-job-mapping",
    "job_mapping",
    metavar="DIR",
    help="Folder with a file per GPU that holds the numbers of its jobs, for --hpc-job-mapping-dir of DCGM's exporter.",
)
@click.option(
    "--per-attempt",
    "attempts_of",
    metavar="DIR",
    help="Run each attempt as a batch job of Slurm, with the settings of the pool in this folder (docs/slurm.md).",
)
@click.option(
    "--certs",
    metavar="DIR",
    help="Folder with the certificates (or ROTA_CERTS, or client.toml).",
)
@click.option(
    "--insecure",
    is_flag=True,
    help="Use no certificates: only for a scheduler on this machine.",
)
@click.option(
    "--log-level",
    type=click.Choice(["debug", "info", "warning", "error"]),
    default="info",
    show_default=True,
    help="Least severity of what is logged to standard error.",
)
@log_format_option
@click.option(
    "--realtime",
    is_flag=True,
    help="Give emulated GPUs real-time priority, for a busy machine.",
)
@click.option("--while-stdin", is_flag=True, hidden=True, help="Stop when standard input ends.")
@click.option(
    "--json",
    "as_json",
    is_flag=True,
    help='Print {"node": ...} on standard output once it is registered.',
)
def command(
    *, log_level: str, log_format: str, while_stdin: bool, as_json: bool, realtime: bool, names: tuple[str, ...],
    **options: Any,
) -> None:  # fmt: skip
    """Run the agent of a server, which starts and stops jobs there, until Ctrl-C or TERM."""
    common: dict[str, str] = {"node": names[0]} if len(names) == 1 else {}
    configure_logs(log_level, log_format, common)
    runs = needs_deploy("rota.deploy.agent.runs")
    _check_several(names, options)
    agents = [_agent_settings(runs, name, dict(options), several=len(names) > 1) for name in names or (None,)]
    first = agents[0]
    if len(agents) == 1:
        common["node"] = first.equipment.node  # as its certificate says

    def ready() -> None:
        nodes = [agent.equipment.node for agent in agents]
        if as_json:
            said = {"node": nodes[0]} if len(nodes) == 1 else {"nodes": nodes}
            echo_json({**said, "scheduler": first.client.address})
            sys.stdout.flush()
        offered = first.equipment
        what = f"{len(offered.devices)} x {offered.type}{' (emulated)' if offered.emulated else ''}"
        alone = len(nodes) == 1
        whose = f"agent {nodes[0]} offers" if alone else f"agents {', '.join(nodes)} each offer"
        click.echo(f"rota: {whose} {what} to {first.client.address}", err=True)

    runs.run_agents(agents, ready, while_stdin=while_stdin, first=realtime)


def _check_several(names: tuple[str, ...], options: dict[str, Any]) -> None:
    """Several servers in one process only make sense if they are not there."""
    if len(names) <= 1:
        return
    if len(set(names)) < len(names):
        fix = "every server needs a name of its own"
        raise ConfigError(f"--name: {', '.join(names)} are not different; {fix}")
    if not options["gpus"].strip().startswith("emulate:") or options["connection_file"]:
        raise ConfigError("--name can be given several times only for emulated servers without a connection file")
    if options["job_mapping"]:
        raise ConfigError("--dcgm-job-mapping is for one server: their GPUs have the same numbers; give one --name")


def _agent_settings(runs: Any, given: str | None, options: dict[str, Any], *, several: bool) -> Any:
    """The agent of one server, out of the options."""
    settings = _settings(options, given)
    name = given or (settings.bundle.subject.name if settings.bundle is not None else _host_name())
    place, checkpoints, gpus = (options.pop(key) for key in ("folder", "checkpoints", "gpus"))
    longest_save_s = options.pop("longest_save_s")
    mapping = options.pop("job_mapping")
    leave = _leave_times(runs, options.pop("leave_within_s"), options.pop("notice_s"))
    isolation = {key: options.pop(key) for key in ("trust_tenants", "tenant", "config")}
    folder = Path(place) if place else _own_folder(name, trusting=isolation["trust_tenants"] or settings.bundle is None)
    mine = _connection(options)

    from rota.deploy.agent.config_file import AgentFile, read_agent_file
    from rota.deploy.agent.machine import MachineOptions, equipment

    config = isolation.pop("config")
    attempts_of = options.pop("attempts_of")
    offered = equipment(
        gpus, MachineOptions(name=name, **{key: value for key, value in options.items() if value is not None})
    )

    return runs.AgentSettings(
        equipment=offered,
        launcher=_launcher(attempts_of, offered) if attempts_of else None,
        folder=folder / name if several and place else folder,
        client=settings,
        checkpoints=Path(checkpoints) if checkpoints else None,
        connection=mine,
        longest_save_s=longest_save_s,
        leave=leave,
        job_mapping=Path(mapping).absolute() if mapping else None,
        file=read_agent_file(config) if config else AgentFile(),
        **isolation,
    )


def _launcher(pool: str, offered: Any) -> Any:
    from rota.deploy.providers.slurm.attempt_launcher import launcher_of_pool

    return launcher_of_pool(pool, offered.type, emulated=offered.emulated)


def _leave_times(runs: Any, term_s: float | None, notice_s: float | None) -> Any:
    if term_s is None:
        if notice_s is not None:
            raise ConfigError("--notice needs --leave-within, the time to leave after TERM")
        return None
    return runs.LeaveTimes(term_s=term_s, notice_s=notice_s or 0.0)


def _own_folder(name: str, *, trusting: bool) -> Path:
    """Where an agent keeps its state; for one that is root, where users of jobs can get to."""
    if os.geteuid() == 0 and not trusting:
        return Path("/var/lib/rota") / name
    return Path.home() / ".local" / "state" / "rota" / name


def _connection(options: dict[str, Any]) -> Any:
    """The line of the connection file that is ours; what it says goes into the options."""
    path = options.pop("connection_file")
    if path is None:
        return None
    from rota.deploy.worker.inventory import own_connection

    mine = own_connection(path, options["host"] or "")
    options |= {"host": mine.host, "first_gpu": mine.first_gpu, "first_cpu": mine.first_cpu}
    return mine


def _settings(options: dict[str, Any], name: str | None) -> Any:
    client = needs_deploy("rota.deploy.security.client")

    from rota.deploy.security.subjects import Role

    return client.find_settings(
        options.pop("scheduler"), options.pop("certs"), insecure=options.pop("insecure"), role=Role.AGENT,
        name=name,
    )  # fmt: skip


def _host_name() -> str:
    import socket

    return socket.gethostname()
