"""An agent as a process: from settings to its end, by a signal or because its parent is gone."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import grpc

from rota.core.errors import ConfigError
from rota.deploy.agent.devices import Devices
from rota.deploy.agent.main import Agent, Equipment
from rota.deploy.agent.processes import Processes
from rota.deploy.security.client import ClientSettings, connect, explained
from rota.deploy.stopping import stop_on_eof, stop_on_signals
from rota.deploy.worker.inventory import Connection, Machine, inspect, part_of


def run_agent(
    equipment: Equipment,
    folder: Path,
    settings: ClientSettings,
    ready: Callable[[], None],
    *,
    checkpoints: Path | None = None,
    while_stdin: bool = False,
    connection: Connection | None = None,
) -> None:
    """Serve until told to stop. A refusal that will not get better is a ConfigError.

    `connection` is the part of the machine that this agent may use; None: all of it.
    """
    part = None
    if connection is not None:
        part = part_of(inspect(), connection, equipment.cpus, emulated=equipment.emulated)
    folder = folder.absolute()  # jobs have working folders of their own
    checkpoints = None if checkpoints is None else checkpoints.absolute()
    with explained(settings):
        try:
            asyncio.run(_run(equipment, folder, settings, ready, checkpoints, part, while_stdin=while_stdin))
        except grpc.RpcError as error:
            if error.code() in {grpc.StatusCode.INVALID_ARGUMENT, grpc.StatusCode.FAILED_PRECONDITION}:
                raise ConfigError(f"the scheduler refuses node {equipment.node!r}: {error.details()}") from error
            raise


async def _run(
    equipment: Equipment,
    folder: Path,
    settings: ClientSettings,
    ready: Callable[[], None],
    checkpoints: Path | None,
    machine: Machine | None,
    *,
    while_stdin: bool,
) -> None:
    stop = asyncio.Event()
    stop_on_signals(stop)
    if while_stdin:
        stop_on_eof(stop)
    channel = connect(settings, agent=equipment.node)
    devices = Devices(equipment, folder) if equipment.emulated else None
    processes = Processes(folder, machine, devices)
    equipment = replace(equipment, limits=processes.describe())
    agent = Agent(
        equipment=equipment, folder=folder, channel=channel, checkpoints=checkpoints, processes=processes,
        devices=devices,
    )  # fmt: skip
    working, stopped = asyncio.ensure_future(agent.run(ready)), asyncio.ensure_future(stop.wait())
    try:
        await asyncio.wait({working, stopped}, return_when=asyncio.FIRST_COMPLETED)
        if working.done():
            working.result()
    finally:
        for one in (working, stopped):
            one.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.gather(working, stopped, return_exceptions=True)
        await channel.close()
