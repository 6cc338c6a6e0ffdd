"""`rota up`: a whole cluster on this machine."""

from __future__ import annotations

import shlex
import signal
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from rota.cli.connection import needs_deploy
from rota.cli.observation_options import observation_options
from rota.cli.options import echo_json, json_option, settings_option
from rota.cli.retention_options import KEPT, retention_options
from rota.cli.run_options import (
    mechanism_option,
    policy_option,
    profiles_option,
    rules_option,
    seconds_option,
)

if TYPE_CHECKING:
    from rota.deploy.local.cluster import LocalCluster
    from rota.deploy.local.settings import UpSettings

EXAMPLES = """
\b
Examples:
  rota up --server v100=4 --server k80=4 --emulate
  rota up --server v100=16/8:cpus=24:memory=500 --emulate --policy srtf \\
       --mechanism tune --profiles synergy --round 60 --time-scale 60
  rota up                                   # again, as it was
  rota up --policy las                      # again, under another policy

\b
--server is TYPE=GPUS (one server) or TYPE=GPUS/GPUS_PER_SERVER (several), then
what each server has: cpus, memory (GB), storage (MB/s), network (Gb/s).
Everything is kept in one folder (.rota); from there `rota submit` and the others
find the scheduler, with certificates and a token that are made on the first use.
"""
_REFRESH_S = 1.0
_KEPT = (
    "tenants",
    "fair_by",
    "policy",
    "mechanism",
    "profiles",
    "rules",
    "round",
    "lease",
    "heartbeat",
    "dead_after",
    "metrics",
    "notify",
    *KEPT,
)


@click.command("up", epilog=EXAMPLES)
@click.option(
    "--server",
    "servers",
    multiple=True,
    metavar="TYPE=GPUS",
    help="One or several servers, e.g. v100=4:cpus=24:memory=256:label=zone=a; repeatable.",
)
@click.option("--emulate", is_flag=True, help="Emulate the GPUs.")
@click.option(
    "--state",
    default=".rota",
    show_default=True,
    metavar="DIR",
    help="Folder in which all is kept.",
)
@policy_option()
@settings_option("--set-policy", "set_policy", "Parameter of the policy")
@click.option(
    "--tenants",
    type=click.Path(resolve_path=True),
    metavar="FILE",
    help="TOML file with weights and limits of tenants.",
)
@click.option(
    "--fair-by",
    type=click.Choice(["tenant", "job"]),
    help="Whom a policy that goes by weights treats alike (default: tenant).",
)
@mechanism_option()
@settings_option("--set-mechanism", "set_mechanism", "Parameter of the mechanism")
@profiles_option()
@rules_option()
@settings_option("--set-rules", "set_rules", "One field of the rules")
@seconds_option("--round", "Length of a round in seconds.")
@seconds_option(
    "--time-scale",
    "Seconds of the scheduler's clock per second on the wall.",
    metavar="K",
)
@seconds_option("--heartbeat", "Seconds between two reports of an agent.")
@seconds_option("--dead-after", "Seconds of silence after which an agent counts as lost.")
@seconds_option("--lease", "Seconds that a job may run on after the end of its round.")
@observation_options
@retention_options(defaults=False)
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=0,
    help="Port of the scheduler (default: any free one).",
)
@click.option(
    "--connection-file",
    metavar="FILE",
    help="Connection file of Synergy: a line per server with its first GPU and CPU.",
)
@click.option(
    "--per-process",
    type=click.IntRange(1, 256),
    metavar="N",
    help="Number of emulated servers per agent process (default: 1 up to 8 servers, else 8).",
)
@click.option(
    "--realtime",
    is_flag=True,
    help="Give emulated GPUs real-time priority, for a busy machine.",
)
@click.option(
    "--anew",
    is_flag=True,
    help="Take nothing of what the last `rota up` in this folder was asked for, but for its time scale.",
)
@json_option
def command(
    *, servers: tuple[str, ...], emulate: bool, state: str, time_scale: float | None, port: int, as_json: bool,
    connection_file: str | None, per_process: int | None, realtime: bool, anew: bool, **serve: Any,
) -> None:  # fmt: skip
    """Start a whole cluster on this machine: scheduler and agents, until Ctrl-C.

    With --json one object is printed once everything is there: address, folder and processes.
    """
    local = needs_deploy("rota.deploy.local.cluster")
    folder = Path(state)
    given = {
        "servers": servers,
        "emulate": emulate,
        "time_scale": time_scale,
        "serve": _serve(serve),
    }
    given |= {"per_process": per_process, "realtime": realtime}
    given["connections"] = str(Path(connection_file).resolve()) if connection_file else ""
    settings = needs_deploy("rota.deploy.local.settings")
    before = settings.remembered(folder)
    asked = settings.merged(given, settings.without_options(before) if anew and before else before)
    screen = _Screen()
    cluster: LocalCluster = local.LocalCluster(
        folder=folder,
        settings=asked,
        port=port,
        tell=screen.say,
    )
    stop = _Stop()
    try:
        cluster.start(lambda: stop.asked)
        if taken := settings.taken_from_before(given, asked):
            screen.say(f"as before: {shlex.join(taken)} (--anew forgets it)")
        _remark_on_gpus(asked, screen)
        if not stop.asked:
            _ready(cluster, as_json=as_json)
        _watch(cluster, stop, screen)
    finally:
        screen.clear()
        left = cluster.unfinished() if cluster.address else None
        late = cluster.stop()
        for name in late:
            screen.say(f"{name} did not stop in time and was killed")
    _bye(cluster, left)


class _Stop:
    """Whether Ctrl-C or TERM came."""

    def __init__(self) -> None:
        self.asked = False
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, self._ask)

    def _ask(self, *_: Any) -> None:
        self.asked = True


class _Screen:
    """One line that is written over on a terminal; remarks above it."""

    def __init__(self) -> None:
        self.live = sys.stderr.isatty()
        self._shown = 0

    def say(self, text: str) -> None:
        self.clear()
        click.echo(f"rota: {text}", err=True)

    def show(self, text: str) -> None:
        if self.live:
            from rota.cli.tables import width

            cut = text[: width() - 1]
            click.echo("\r" + cut.ljust(self._shown), err=True, nl=False)
            self._shown = len(cut)

    def clear(self) -> None:
        if self._shown:
            click.echo("\r" + " " * self._shown + "\r", err=True, nl=False)
            self._shown = 0


def _serve(options: dict[str, Any]) -> list[str]:
    """The options of `rota serve` that were given, as they are written there."""
    words: list[str] = []
    for key in _KEPT:
        if options[key] is not None:
            words += [f"--{key.replace('_', '-')}", str(options[key])]
    words += ["--metrics-public"] if options["metrics_public"] else []
    for key in ("set_policy", "set_mechanism", "set_rules"):
        for name, value in options[key].items():
            words += [f"--{key.replace('_', '-')}", f"{name}={value}"]
    return words


def _ready(cluster: LocalCluster, *, as_json: bool) -> None:
    if as_json:
        echo_json(
            {
                "address": cluster.address,
                "folder": str(cluster.folder.resolve()),
                "processes": cluster.pids(),
                **({"metrics": cluster.metrics} if cluster.metrics else {}),
            }
        )
        sys.stdout.flush()
        return
    elsewhere = f" (with --scheduler {cluster.address} and --certs and --token-file of {cluster.folder})"
    where = "" if cluster.folder.name == ".rota" else elsewhere
    count = cluster.servers
    metrics = f"Metrics for Prometheus: {cluster.metrics}\n" if cluster.metrics else ""
    click.echo(
        f"{count} server{'' if count == 1 else 's'} up; the scheduler listens on "
        f"{cluster.address}.\nIn another terminal{where}:\n  {_first_job(cluster)}\n"
        f"  rota jobs          rota nodes          rota events -f\n{metrics}Ctrl-C stops everything."
    )


def _first_job(cluster: LocalCluster) -> str:
    """A submission that works on this cluster."""
    options = cluster.settings.serve
    if not cluster.settings.emulate:
        return "rota submit -- COMMAND"
    if "--profiles" not in options:
        return "rota submit --emulated --profile resnet18-32 --steps 20000"
    catalogues = options[options.index("--profiles") + 1]
    return f"rota submit --emulated --profile NAME --steps 20000     (names: rota profiles {catalogues})"


def _remark_on_gpus(asked: UpSettings, screen: _Screen) -> None:
    """Say so if servers with GPUs were asked for on a machine that has none."""
    if asked.emulate:
        return
    gpus, why = needs_deploy("rota.deploy.worker.inventory").find_gpus()
    if not gpus:
        missing = f" ({why})" if why else ""
        screen.say(f"no GPU was found on this machine{missing}: jobs get numbers of GPUs and nothing behind them; "
                   "--emulate emulates GPUs")  # fmt: skip


def _watch(cluster: LocalCluster, stop: _Stop, screen: _Screen) -> None:
    from rota.core.errors import RotaError

    shown = 0.0
    while not stop.asked:
        cluster.tend()
        if screen.live and time.monotonic() - shown >= _REFRESH_S:
            shown = time.monotonic()
            try:
                now = cluster.client().status()
                nodes = cluster.client().nodes()
            except RotaError:
                screen.show("the scheduler does not answer")
            else:
                up = sum(node.state == "up" for node in nodes)
                busy = sum(node.busy for node in nodes)
                gpus = sum(node.gpus for node in nodes)
                screen.show(
                    f"{now.running} running, {now.queued} queued, {now.finished} finished | "
                    f"{busy}/{gpus} GPUs | {up}/{len(nodes)} servers | {now.now_s:,.0f} s"
                )
        time.sleep(0.1)


def _bye(cluster: LocalCluster, left: int | None) -> None:
    again = "rota up" if str(cluster.folder) == ".rota" else f"rota up --state {cluster.folder}"
    jobs = "" if left is None else f"{left} job{'' if left == 1 else 's'} unfinished; "
    click.echo(f"rota: stopped; {jobs}`{again}` goes on from {cluster.folder}", err=True)
