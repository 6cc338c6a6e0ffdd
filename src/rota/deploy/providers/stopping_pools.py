"""The end of a pool: nothing is started any more, pilots are told to leave, and that is waited for."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace

from rota.core.errors import ConfigError, RotaError
from rota.deploy.control import Client
from rota.deploy.providers.pool_folder import PoolFolder
from rota.deploy.providers.port import PilotPhase, PilotStatus
from rota.deploy.providers.slurm.provider import SlurmProvider

_LOOK_S = 1.0
_LONGER_S = 60.0
"""Seconds beyond their notice that pilots are waited for."""


def stop_pool(
    folder: PoolFolder, client: Client, *, drain: bool, gently: bool, wait: bool, tell: Callable[[str], None]
) -> int:
    """End the pilots of a pool; how many are still there."""
    settings = replace(folder.settings(), stopped=True)
    folder.write_settings(settings)  # from here on the keeper starts nothing
    provider = SlurmProvider(settings.name, settings.slurm, logs=folder.logs)
    there = _there(provider)
    if drain and there:
        _drain(there, client, tell)
        there = _there(provider)
    until = time.monotonic() + settings.slurm.notice_s + _LONGER_S
    told: set[str] = set()
    while there and time.monotonic() < until:
        if not folder.settings().stopped:
            raise RotaError(f"pool {settings.name} was started again while it was being stopped; stop it once more")
        new = [pilot.id for pilot in there if pilot.id not in told]  # the keeper may be asking for one just now
        provider.cancel(new, gently=gently)
        told.update(new)
        if not wait:
            break
        time.sleep(_LOOK_S)
        there = _there(provider)
    return len(there)


def _there(provider: SlurmProvider) -> list[PilotStatus]:
    return [pilot for pilot in provider.list() if pilot.phase is not PilotPhase.OVER]


def _drain(pilots: list[PilotStatus], client: Client, tell: Callable[[str], None]) -> None:
    """Keep new jobs away and wait until nothing runs on the pilots any more."""
    names = {pilot.name for pilot in pilots}
    for node in client.nodes():
        if node.node in names and node.state == "up":
            try:
                client.drain(node.node)
            except RotaError as error:
                raise ConfigError(f"--drain needs an administrator's token: {error}") from error
    said = -1
    while True:
        busy = [node for node in client.nodes() if node.node in names and node.jobs and node.state != "lost"]
        if not busy:
            return
        if len(busy) != said:
            said = len(busy)
            tell(f"{said} pilots still have jobs")
        time.sleep(_LOOK_S)
