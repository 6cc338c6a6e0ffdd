"""What people see of pilots: one row each, from one squeue and one question to the scheduler."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from rota.core.errors import RotaError
from rota.deploy.clocks import wall_s
from rota.deploy.control import Client
from rota.deploy.providers.pool import NodeFacts, PilotView, views
from rota.deploy.providers.pool_folder import PoolFolder
from rota.deploy.providers.port import PilotStatus
from rota.deploy.providers.slurm.commands import SlurmCommands
from rota.deploy.providers.slurm.provider import pilots_of

_STALE_S = 120.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Overview:
    """Rows as plain values, and sentences about the whole."""

    rows: list[dict[str, Any]]
    remarks: list[str]


def overview(pools: Sequence[PoolFolder], connect: Callable[[], Client]) -> Overview:
    """All pilots of some pools. Who does not answer is said, and what the other one knows is shown."""
    remarks: list[str] = []
    statuses: Sequence[PilotStatus] | None = None
    nodes: dict[str, NodeFacts] | None = None
    try:
        statuses = pilots_of(SlurmCommands(), [pool.path.name for pool in pools])
    except RotaError as error:
        remarks.append(f"Slurm does not answer: {error}")
    try:
        with connect() as client:
            nodes = {
                node.node: NodeFacts(
                    state=node.state, busy=node.busy, gpus=node.gpus, jobs=tuple(node.jobs), silent_s=node.last_seen_s
                )
                for node in client.nodes()
            }
    except RotaError as error:
        remarks.append(f"the scheduler does not answer: {error}")
    rows: list[dict[str, Any]] = []
    for pool in pools:
        rows += [_row(pool, pilot) for pilot in views(pool.pilots()[0], statuses, nodes, {})]
        remarks += _remarks(pool)
    return Overview(rows=rows, remarks=remarks)


def _row(pool: PoolFolder, pilot: PilotView) -> dict[str, Any]:
    node = pilot.node
    return {
        "pool": pool.path.name,
        "pilot": pilot.record.name,
        "slurm_job": pilot.record.id,
        "host": "" if pilot.status is None else pilot.status.host,
        "state": pilot.state.value,
        "left_s": pilot.left_s,
        "gpus": None if node is None else node.gpus,
        "busy": None if node is None else node.busy,
        "jobs": [] if node is None else list(node.jobs),
        "remark": pilot.record.end or ("" if pilot.status is None else pilot.status.reason),
    }


def _remarks(pool: PoolFolder) -> list[str]:
    name = pool.path.name
    if pool.settings().stopped:
        return [f"pool {name} is stopped"]
    status = pool.status()
    found = [f"pool {name}: {who} does not answer: {why}" for who, why in status.get("silent", {}).items()]
    if status.get("refused"):
        found.append(f"pool {name}: Slurm refuses more pilots: {status['refused']}")
    if status.get("failed"):
        found.append(f"pool {name}: {status['failed']}")
    if wall_s() - status.get("at", 0.0) > _STALE_S:
        found.append(f"pool {name}: nobody keeps it; `rota pilots start` with the same options does")
    return found
