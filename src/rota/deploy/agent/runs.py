"""Agents as a process: from settings to its end, by a signal or because its parent is gone.

One process is one agent, unless servers are emulated: several of those may share a process, which saves 40 MB each.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import grpc

from rota.core.errors import ConfigError
from rota.deploy.agent.config_file import AgentFile
from rota.deploy.agent.devices import Devices
from rota.deploy.agent.job_mapping import JobMapping
from rota.deploy.agent.leaving import Departure, LeaveTimes, leave_on_signals
from rota.deploy.agent.main import Agent, Equipment
from rota.deploy.agent.own_address import own_address
from rota.deploy.agent.processes import Processes
from rota.deploy.agent.saving import LONGEST_SAVE_S
from rota.deploy.security.client import ClientSettings, connect, explained
from rota.deploy.security.diagnosis import diagnose
from rota.deploy.security.renewals import RenewedCertificate
from rota.deploy.stopping import stop_on_eof, stop_on_signals
from rota.deploy.worker.container_rules import ContainerRules
from rota.deploy.worker.inventory import Connection, inspect, part_of
from rota.deploy.worker.launcher import Launcher
from rota.deploy.worker.tenancy import (
    OneTenant,
    SeparateUsers,
    Tenancy,
    TrustedTenants,
    check_reachable,
    make_folder,
)
from rota.emulate.priority import realtime

log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class AgentSettings:
    """The agent of one server: what it offers, where it remembers, whom it serves."""

    equipment: Equipment
    folder: Path
    client: ClientSettings
    checkpoints: Path | None = None
    connection: Connection | None = None
    """The part of the machine that it may use; None: all of it."""
    longest_save_s: float = LONGEST_SAVE_S
    """Seconds that a job may take to save after it was asked to stop, however much it writes."""
    trust_tenants: bool = False
    """Whether all jobs may run as the agent's user."""
    tenant: str = ""
    """The only tenant whose jobs may run here as the agent's user; empty: the first that comes."""
    file: AgentFile = field(default_factory=AgentFile)
    launcher: Launcher | None = None
    """Starts all tasks; None: processes and containers of this machine."""
    leave: LeaveTimes | None = None
    """How it goes for good when it is told to stop; None: it stops, and its jobs run on until their leases end."""
    job_mapping: Path | None = None
    """Folder with a file per GPU that says which jobs hold it, for DCGM's exporter; None: there is none."""

    @property
    def trusting(self) -> bool:
        """Without certificates everybody is an administrator already."""
        return self.trust_tenants or self.client.bundle is None

    def tenancy(self, folder: Path) -> Tenancy:
        """Whose jobs run here, and as whom. Raises ConfigError."""
        if self.trusting:
            return TrustedTenants()
        if os.geteuid() != 0:
            return OneTenant(folder / "tenant", self.tenant)
        check_reachable(folder / "doors", "the agent's folder")
        return SeparateUsers(folder, self.file.tenants, self.file.uids)

    def containers(self) -> ContainerRules:
        """What containers may be made of."""
        return replace(self.file.containers, everything=self.trusting)


def run_agents(
    agents: Sequence[AgentSettings], ready: Callable[[], None], *, while_stdin: bool = False, first: bool = False
) -> None:
    """Serve until told to stop; `ready` is called when all are registered.

    With `first` emulated devices keep time on a busy machine, by real-time priority. A refusal that will not get better
    is a ConfigError, and ends the others too.
    """
    if first and not all(agent.equipment.emulated for agent in agents):
        raise ConfigError("real-time priority is for emulated GPUs (emulate:TYPE=N); leave --realtime out")
    if first and not realtime():
        raise ConfigError(
            "this process may not have real-time priority: it needs Linux and CAP_SYS_NICE, or a limit above 0 "
            "(ulimit -r); leave --realtime out to do without"
        )
    asyncio.run(_run(agents, ready, while_stdin=while_stdin))


async def _run(agents: Sequence[AgentSettings], ready: Callable[[], None], *, while_stdin: bool) -> None:
    stop = asyncio.Event()
    departures = {agent.equipment.node: Departure() for agent in agents}
    if agents[0].leave is not None:
        leave_on_signals(agents[0].leave, list(departures.values()))
    else:
        stop_on_signals(stop)
    if while_stdin:
        stop_on_eof(stop)
    missing = {agent.equipment.node for agent in agents}

    def came(node: str) -> None:
        if node in missing:
            missing.discard(node)
            if not missing:
                ready()

    running = [
        asyncio.ensure_future(_one(agent, partial(came, agent.equipment.node), departures[agent.equipment.node]))
        for agent in agents
    ]
    stopped = asyncio.ensure_future(stop.wait())
    try:
        waiting: set[asyncio.Future[Any]] = {*running, stopped}
        while len(waiting) > 1 and not stopped.done():  # agents that left are done one after the other
            done, waiting = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
            for one in done:
                one.result()
    finally:
        for one in (*running, stopped):
            one.cancel()
        await asyncio.gather(*running, stopped, return_exceptions=True)


def _renewed_channels(settings: AgentSettings, channels: list[Any]) -> Callable[[], list[Any] | None]:
    """What looks for a renewed certificate; new channels are added to `channels`, which are closed with the agent."""
    certificate = RenewedCertificate(settings.client)

    def renewed() -> list[Any] | None:
        client = certificate.look()
        if client is None:
            return None
        new = [connect(one, agent=settings.equipment.node) for one in client.each()]
        channels.extend(new)
        return new

    return renewed


async def _one(settings: AgentSettings, ready: Callable[[], None], departure: Departure) -> None:
    folder = settings.folder.absolute()  # jobs have working folders of their own
    equipment = settings.equipment
    machine = None
    if settings.connection is not None:
        machine = part_of(inspect(), settings.connection, equipment.cpus, emulated=equipment.emulated)
    devices = Devices(equipment, folder) if equipment.emulated else None
    make_folder(folder, 0o711)
    tenancy = settings.tenancy(folder)
    if not tenancy.separate:
        log.warning("%s", tenancy.describe())
    processes = Processes(
        folder, machine, devices, settings.longest_save_s, tenancy, settings.containers(), settings.launcher
    )
    mapping = None if settings.job_mapping is None else JobMapping(settings.job_mapping, equipment.devices)
    channels = [connect(one, agent=equipment.node) for one in settings.client.each()]
    agent = Agent(
        equipment=replace(equipment, limits=processes.describe()), folder=folder, channel=channels[0],
        standbys=tuple(channels[1:]), renewed=_renewed_channels(settings, channels),
        checkpoints=None if settings.checkpoints is None else settings.checkpoints.absolute(), processes=processes,
        devices=devices, departure=departure, address=partial(own_address, settings.client.address),
        diagnosis=partial(diagnose, settings.client.address, settings.client.bundle), job_mapping=mapping,
    )  # fmt: skip
    try:
        with explained(settings.client):
            await agent.run(ready)
    except grpc.RpcError as error:
        if error.code() in {grpc.StatusCode.INVALID_ARGUMENT, grpc.StatusCode.FAILED_PRECONDITION}:
            raise ConfigError(f"the scheduler refuses node {equipment.node!r}: {error.details()}") from error
        raise
    finally:
        for channel in channels:
            await channel.close()
