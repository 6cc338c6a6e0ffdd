"""`rota pilots`: agents as batch jobs of Slurm."""

from __future__ import annotations

import contextlib
import json
import logging
import os
import select
import signal
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from rota.cli.connection import connection, needs_deploy, open_client
from rota.cli.options import echo_json, json_option
from rota.core.errors import ConfigError, RotaError

if TYPE_CHECKING:
    from rota.deploy.control import Client
    from rota.deploy.providers.keeper import Keeper
    from rota.deploy.providers.pool_folder import PoolSettings

EXAMPLES = """
\b
Examples:
  rota pilots start --slurm --partition gpu --gres gpu:v100:4 --time 4h --nodes 4
  rota pilots start --slurm --partition gpu --gres gpu:v100:4 --time 4h --min 2 --max 8
  rota pilots                       which batch job is which node, and what runs there
  rota pilots stop --drain          once their jobs have saved, however long it takes

\b
Each pilot is one batch job on one node, whose agent joins the scheduler (started
with --sign-joins) by a ticket that can be used once. `start` keeps the pool until
Ctrl-C: pilots that end are replaced before their time is over, and between --min
and --max their number follows the queue. Pilots go on without it.
"""
_EARLY_S = 60.0
"""Seconds by which Slurm may give notice earlier than it is asked to."""
_AGAIN_S = 2.0
T = TypeVar("T")
_AMOUNT = click.FloatRange(0, min_open=True)
_pools = click.option(
    "--folder",
    metavar="DIR",
    help="Folder of all pools, on a file system that all servers see (default: ~/.local/state/rota/pilots).",
)


@click.group("pilots", epilog=EXAMPLES, invoke_without_command=True)
@connection
@_pools
@json_option
@click.pass_context
def command(context: click.Context, /, *, folder: str | None, as_json: bool, **options: Any) -> None:
    """List, start and stop pilots: batch jobs of Slurm that are servers of a deployment."""
    if context.invoked_subcommand is not None:
        return
    pools = needs_deploy("rota.deploy.providers.pool_folder").pools_in(_root(folder))
    if not pools:
        if as_json:
            echo_json([])
        else:
            click.echo(f"no pool in {_root(folder)}; `rota pilots start` makes one")
        return
    shown = needs_deploy("rota.deploy.providers.overview").overview(pools, lambda: open_client(options))
    if as_json:
        echo_json(shown.rows)
        return
    from rota.cli.tables import show_table

    header = ("pilot", "Slurm job", "host", "state", "left", "GPUs", "jobs", "remark")
    show_table(None, header, [tuple(row.values()) for row in map(_cells, shown.rows)])
    for remark in shown.remarks:
        click.echo(remark)


def _cells(row: dict[str, Any]) -> dict[str, str]:
    left = row["left_s"]
    shown = "-" if left is None else f"{left // 3600:.0f}:{left % 3600 // 60:02.0f}:{left % 60:02.0f}"
    gpus = "-" if row["gpus"] is None else f"{row['busy']}/{row['gpus']}"
    jobs = " ".join(map(str, row["jobs"])) or "-"
    cells = {"pilot": row["pilot"], "id": row["slurm_job"] or "-", "host": row["host"] or "-", "state": row["state"]}
    return {**cells, "left": shown, "gpus": gpus, "jobs": jobs, "remark": row["remark"]}


@command.command(
    "start", epilog="Example: rota pilots start --slurm --partition gpu --gres gpu:v100:4 --time 4h --nodes 4"
)
@click.option("--slurm", "on_slurm", is_flag=True, required=True, help="Start pilots as batch jobs of Slurm.")
@click.option(
    "--pool",
    default="",
    metavar="NAME",
    help="Name of the pool; its nodes are NAME-0, NAME-1, ... (default: the partition).",
)
@click.option("--partition", default="", metavar="NAME", help="Partition of Slurm (default: that of the site).")
@click.option(
    "--gres", default="", metavar="GRES", help="GPUs of each pilot, e.g. gpu:v100:4 (default: the whole node)."
)
@click.option("--nodes", type=click.IntRange(1), metavar="N", help="Number of pilots to begin with (default: --min).")
@click.option("--min", "least", type=click.IntRange(0), metavar="N", help="Least number of pilots (default: --nodes).")
@click.option("--max", "most", type=click.IntRange(1), metavar="N", help="Largest number of pilots (default: --nodes).")
@click.option(
    "--time",
    "time_limit",
    default="",
    metavar="TIME",
    help="Time limit of each pilot: 4h, 90m or as in Slurm (default: that of the partition).",
)
@click.option(
    "--notice",
    "notice_s",
    type=_AMOUNT,
    default=120.0,
    show_default=True,
    metavar="SECONDS",
    help="Seconds before its time limit at which a pilot lets its jobs save and leaves.",
)
@click.option(
    "--replace-before",
    "replace_s",
    type=click.FloatRange(0),
    metavar="SECONDS",
    help="Seconds before its end at which a pilot is replaced (default: --notice and a quarter of --time).",
)
@click.option(
    "--idle",
    "idle_s",
    type=click.FloatRange(0),
    default=300.0,
    show_default=True,
    metavar="SECONDS",
    help="Seconds without a job after which a pilot beyond --min goes.",
)
@click.option(
    "--cpus",
    type=click.IntRange(1),
    metavar="N",
    help="CPUs of each pilot (default: the same part of the node as of its GPUs).",
)
@click.option(
    "--mem",
    default="",
    metavar="SIZE",
    help="Memory of each pilot, as in Slurm, e.g. 200G (default: the same part of the node as of its GPUs).",
)
@click.option("--account", default="", metavar="NAME", help="Account of Slurm.")
@click.option("--qos", default="", metavar="NAME", help="Quality of service of Slurm.")
@click.option("--constraint", default="", metavar="FEATURES", help="Features that nodes must have.")
@click.option("--exclude", default="", metavar="NODES", help="Nodes on which no pilot runs.")
@click.option("--nodelist", default="", metavar="NODES", help="Nodes on which pilots run.")
@click.option("--reservation", default="", metavar="NAME", help="Reservation of Slurm.")
@click.option("--exclusive", is_flag=True, help="Let each pilot have its node alone.")
@click.option(
    "--per-attempt",
    is_flag=True,
    help="Run each attempt of a job as a batch job of its own, for Slurm's accounts; for rounds from 5 minutes on.",
)
@click.option(
    "--agent-config",
    "agent_file",
    default="",
    metavar="FILE",
    help="File of the operator for all agents, as --config of `rota agent`: users of tenants, images, folders.",
)
@click.option(
    "--sbatch",
    "more",
    multiple=True,
    metavar="OPTION",
    help="One more option of sbatch, e.g. --sbatch=--hint=nomultithread; repeatable.",
)
@click.option("--emulate", is_flag=True, help="Emulate the GPUs that Slurm gives.")
@click.option(
    "--trust-tenants", is_flag=True, help="Run all jobs as the user of the pilot: tenants can harm each other."
)
@click.option("--tenant", default="", metavar="NAME", help="Only tenant of pilots that are not root.")
@click.option(
    "--work-dir",
    default="",
    metavar="DIR",
    help="Folder on a local disk of each server (default: TMPDIR, else /tmp).",
)
@click.option(
    "--authority",
    metavar="DIR",
    help="Folder with the key of the authority, ca.key (default: the folder of certificates).",
)
@click.option(
    "--every",
    "every_s",
    type=_AMOUNT,
    default=10.0,
    show_default=True,
    metavar="SECONDS",
    help="Seconds between two looks at Slurm's queue.",
)
@click.option("--while-stdin", is_flag=True, hidden=True, help="Stop when standard input ends.")
@connection
@_pools
@json_option
def start(*, every_s: float, as_json: bool, nodes: int | None, while_stdin: bool, **options: Any) -> None:
    """Start a pool of pilots and keep it until Ctrl-C. The pilots go on; `rota pilots stop` ends them."""
    logging.basicConfig(level="WARNING", format="%(asctime)s %(levelname)s %(message)s")
    stop = _Stop(while_stdin=while_stdin)
    with contextlib.closing(open_client(dict(options))) as client:
        keeper = _keeper(options, nodes, client, stop)
        try:
            if keeper is not None and _keep(keeper, stop, every_s=every_s, as_json=as_json):
                _tell("the pool is stopped")
                return
        finally:
            if keeper is not None:
                keeper.folder.unlock()
    _tell("pilots go on; `rota pilots start` keeps them again, `rota pilots stop` ends them")


def _keep(keeper: Keeper, stop: _Stop, *, every_s: float, as_json: bool) -> bool:
    """Keep a pool until we are told to stop; True if the pool was stopped and nothing of it is left."""
    told = False
    while not stop.asked:
        began = time.monotonic()
        pilots = keeper.turn()
        if not told and pilots is not None:
            told = True
            _tell_started(keeper, as_json=as_json)
        if keeper.stopped and pilots is not None and all(pilot.state.value == "over" for pilot in pilots):
            return True
        stop.wait(max(0.2, every_s - (time.monotonic() - began)))
    return False


def _tell(text: str) -> None:
    """One line for the operator, unless it goes to a disk that is full."""
    with contextlib.suppress(OSError):
        click.echo(f"rota: {text}", err=True)


def _tell_started(keeper: Keeper, *, as_json: bool) -> None:
    place = "" if keeper.place is None else keeper.place.words
    if as_json:
        click.echo(json.dumps({"pool": keeper.settings.name, "place": place, "pilots": len(keeper.records)}))
        sys.stdout.flush()
        return
    _tell(f"pool {keeper.settings.name}: {len(keeper.records)} pilots asked for on {place}")


class _Stop:
    """Ctrl-C and TERM, seen between two turns."""

    def __init__(self, *, while_stdin: bool) -> None:
        self.asked = False
        self.while_stdin = while_stdin
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, self._ask)

    def _ask(self, number: int, frame: Any) -> None:
        del number, frame
        self.asked = True

    def wait(self, seconds: float) -> None:
        """Sleep, but not beyond a signal."""
        until = time.monotonic() + seconds
        while not self.asked and time.monotonic() < until:
            left = min(0.2, max(0.0, until - time.monotonic()))
            if self.while_stdin and select.select([0], [], [], left)[0]:
                self.asked = not os.read(0, 4096)
            elif not self.while_stdin:
                time.sleep(left)

    def tried(self, action: Callable[[], T], passing: type[RotaError], who: str) -> T | None:
        """What an action gives, as soon as nothing is in its way any more; None if we are told to stop before."""
        said = ""
        while not self.asked:
            try:
                return action()
            except passing as error:
                if said != str(error):
                    said = str(error)
                    _tell(f"{who}, trying again: {said}")
            self.wait(_AGAIN_S)
        return None


def _keeper(options: dict[str, Any], nodes: int | None, client: Client, stop: _Stop) -> Keeper | None:
    """The keeper that the options mean, once Slurm answers; None if we are told to stop before."""
    keeper_module = needs_deploy("rota.deploy.providers.keeper")
    provider_module = needs_deploy("rota.deploy.providers.slurm.provider")

    from rota.deploy.providers.pool_folder import PoolFolder

    asked = _settings(options, nodes, client, options["token_file"] or "")
    settings = stop.tried(lambda: _with_fair_share(asked), provider_module.PlaceSilent, "Slurm does not answer")
    if settings is None:
        return None
    folder = PoolFolder(path=_root(options["folder"]) / settings.name)
    folder.make()
    if not stop.while_stdin:
        folder.lock()
    elif not stop.tried(folder.lock, ConfigError, "its last keeper has not ended yet"):
        return None  # `rota serve` was killed and started again meanwhile
    folder.write_settings(settings)
    if settings.slurm.per_attempt:
        _say_if_rounds_are_short(client)
    provider = provider_module.SlurmProvider(
        settings.name, settings.slurm, replace_s=settings.replace_s, logs=folder.logs
    )
    keeper: Keeper = keeper_module.Keeper(
        folder=folder, settings=settings, provider=provider, client=client, tell=_tell, begin_with=nodes or 0
    )
    return keeper


def _with_fair_share(settings: PoolSettings) -> PoolSettings:
    """The settings with CPUs and memory of a pilot, which Slurm is asked for."""
    from rota.deploy.providers.slurm.commands import SlurmCommands
    from rota.deploy.providers.slurm.shares import with_fair_share

    return replace(settings, slurm=with_fair_share(settings.slurm, SlurmCommands()))


def _say_if_rounds_are_short(client: Client) -> None:
    from rota.deploy.providers.slurm.attempt_batch import SHORT_ROUND_S

    try:
        status = client.status()
    except RotaError:  # the keeper says that it does not answer
        return
    seconds = status.round_s / (status.time_scale or 1.0)
    if seconds < SHORT_ROUND_S:
        _tell(
            f"rounds of {seconds:g} s are short for --per-attempt: Slurm takes seconds to start a batch job; "
            f"give rounds of {SHORT_ROUND_S:g} s and more (rota serve --round)"
        )


_SLURM = ("partition", "gres", "mem", "account", "qos", "constraint", "exclude", "nodelist", "reservation")


def _settings(options: dict[str, Any], nodes: int | None, client: Client, token_file: str) -> PoolSettings:
    from rota.deploy.clocks import wall_date
    from rota.deploy.providers.pool_folder import PoolSettings
    from rota.deploy.providers.slurm.settings import SlurmSettings, read_time
    from rota.deploy.security.certificates import load_authority
    from rota.deploy.security.subjects import check_name

    if client.settings.bundle is None:
        raise ConfigError("pilots join with certificates; leave --insecure out")
    authority = Path(options["authority"] or client.settings.bundle.files.authority.parent).absolute()
    load_authority(authority, wall_date())  # whoever starts pilots makes tickets
    least, most = _least_and_most(options, nodes)
    time_s = read_time(options["time_limit"]) if options["time_limit"] else 0.0
    slurm = SlurmSettings(
        **{name: options[name] for name in _SLURM}, time_s=time_s, notice_s=options["notice_s"],
        cpus=options["cpus"] or 0, exclusive=options["exclusive"], more=tuple(options["more"]),
        per_attempt=options["per_attempt"],
    )  # fmt: skip
    return PoolSettings(
        name=check_name("a pool", options["pool"] or options["partition"].replace(",", "-") or "slurm"), least=least,
        most=most, slurm=slurm, scheduler=client.settings.address, certs=str(authority), token_file=token_file,
        replace_s=_replace_s(time_s, options["notice_s"], options["replace_s"]),
        idle_s=options["idle_s"], emulate=options["emulate"], work=options["work_dir"], agent=_agent_options(options),
    )  # fmt: skip


def _least_and_most(options: dict[str, Any], nodes: int | None) -> tuple[int, int]:
    """Numbers of pilots. Raises ConfigError."""
    least: int = nodes or 1 if options["least"] is None else options["least"]
    most: int = max(nodes or 1, least) if options["most"] is None else options["most"]
    if most < max(least, 1):
        raise ConfigError(f"--max {most} is below --min {least}; give at least as much")
    if nodes is not None and not least <= nodes <= most:
        raise ConfigError(f"--nodes {nodes} is not between --min {least} and --max {most}; leave it out or change it")
    return least, most


def _replace_s(time_s: float, notice_s: float, asked_s: float | None) -> float:
    """Seconds before the end of a pilot at which its successor is asked for. Raises ConfigError.

    Less than all of its time: otherwise every pilot has a successor from its first second on.
    """
    if asked_s is None:
        usual_s = notice_s + _EARLY_S + min(600.0, time_s / 4)
        return min(usual_s, 0.75 * time_s) if time_s else usual_s
    if time_s and asked_s >= time_s:
        raise ConfigError(f"--replace-before {asked_s:g} s is not below --time, {time_s:g} s; give less")
    return asked_s


def _agent_options(options: dict[str, Any]) -> tuple[str, ...]:
    trusted = ("--trust-tenants",) if options["trust_tenants"] else ()
    tenant = ("--tenant", options["tenant"]) if options["tenant"] else ()
    config = ("--config", str(_checked_file(options["agent_file"]))) if options["agent_file"] else ()
    return (*trusted, *tenant, *config)


def _checked_file(path: str) -> Path:
    """The file of the operator, which pilots find under the same name. Raises ConfigError if it cannot be used."""
    from rota.deploy.agent.config_file import read_agent_file

    read_agent_file(path)
    return Path(path).absolute()


@command.command("stop", epilog="Example: rota pilots stop gpu --drain")
@click.argument("pool", required=False)
@click.option("--drain", is_flag=True, help="Drain first: jobs save and go elsewhere, however long that takes.")
@click.option("--now", "at_once", is_flag=True, help="Cancel the batch jobs: Slurm gives them KillWait seconds.")
@click.option("--no-wait", is_flag=True, help="Do not wait until they are gone.")
@connection
@_pools
def stop(pool: str | None, *, drain: bool, at_once: bool, no_wait: bool, folder: str | None, **options: Any) -> None:
    """End the pilots of a pool (default: of all). Jobs on them save and go back to the queue."""
    if drain and at_once:
        raise click.UsageError("give either --drain or --now")
    stopping = needs_deploy("rota.deploy.providers.stopping_pools")
    pools = needs_deploy("rota.deploy.providers.pool_folder").pools_in(_root(folder))
    chosen = [one for one in pools if pool is None or one.path.name == pool]
    if not chosen:
        known = ", ".join(one.path.name for one in pools) or "none"
        raise ConfigError(f"there is no pool {pool or ''!r} in {_root(folder)}; known: {known}")
    for one in chosen:
        with open_client(dict(options)) as client:
            left = stopping.stop_pool(one, client, drain=drain, gently=not at_once, wait=not no_wait, tell=_say)
        _say(f"pool {one.path.name}: " + (f"{left} pilots are still there" if left else "no pilot is left"))


def _say(text: str) -> None:
    click.echo(text, err=True)


def _root(folder: str | None) -> Path:
    return Path(folder).absolute() if folder else Path.home() / ".local" / "state" / "rota" / "pilots"
