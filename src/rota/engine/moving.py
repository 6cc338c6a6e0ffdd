"""Jobs that step aside for a while, and a cluster that changes: what that does to the columns of the state.

Simulation needs neither. In a deployment servers come and go, and a job may have to wait for reasons that no policy
should know about: it is backing off after a failure, or its last lease has not run out yet.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from rota.core.arrays import BoolArray, FloatArray, IntArray
from rota.core.cluster import Cluster
from rota.core.placement import Placement

Table = tuple[FloatArray, IntArray]
"""Columns of jobs: floats and integers."""


def split(table: Table, at: IntArray) -> tuple[Table, Table]:
    """Those that stay and those at `at`."""
    ints = table[1]
    stay = np.delete(np.arange(ints.shape[1]), at)
    return _taken(table, stay), _taken(table, at)


def merged(one: Table, two: Table, id_row: int) -> Table:
    """Both together, ids ascending."""
    floats, ints = (np.concatenate(pair, axis=1) for pair in zip(one, two, strict=True))
    return _taken((floats, ints), np.argsort(ints[id_row], kind="stable"))


def _taken(table: Table, at: IntArray) -> Table:
    """Some of the columns (`take`, because indexing may leave rows scattered in memory)."""
    return table[0].take(at, axis=1), table[1].take(at, axis=1)


def retyped(floats: FloatArray, plain: int, accounts: int, old: tuple[str, ...], new: tuple[str, ...]) -> FloatArray:
    """Columns that end with `accounts` blocks of one row per type, for other types: accounts follow their type."""
    found = np.zeros((plain + accounts * len(new), floats.shape[1]))
    found[:plain] = floats[:plain]
    for block in range(accounts):
        for at, kind in enumerate(new):
            if kind in old:
                found[plain + block * len(new) + at] = floats[plain + block * len(old) + old.index(kind)]
    return found


def moved(placement: Placement, old: Cluster, new: Cluster) -> Placement:
    """The same tasks on the servers of another cluster; without those that held a server that is gone."""
    where = {server.id: at for at, server in enumerate(new.ordered)}
    to = np.array([where.get(server.id, -1) for server in old.ordered], dtype=np.int64)
    kinds = np.array([new.types.index(t) if t in new.types else -1 for t in old.types], dtype=np.int64)
    servers = to[placement.slot_server]
    gone = np.zeros(len(placement), dtype=np.bool_)
    gone[_task_of_slot(placement)[servers < 0]] = True
    # Numbers of configurations are those of one cluster: the state makes a new table of them for the new one.
    there = replace(placement, type=kinds[placement.type], slot_server=servers, config=None)
    return _kept(there, ~gone)


def without(placement: Placement, jobs: IntArray) -> Placement:
    """The placement without the tasks of these jobs; a partner goes on alone."""
    first_gone, second_gone = np.isin(placement.first, jobs), np.isin(placement.second, jobs)
    alone = first_gone & ~second_gone & (placement.second >= 0)
    first = np.where(alone, placement.second, placement.first)
    second = np.where(alone | second_gone, -1, placement.second)
    keep = ~first_gone | alone
    return _kept(replace(placement, first=first, second=second), keep)


def _task_of_slot(placement: Placement) -> IntArray:
    return np.repeat(np.arange(len(placement)), np.diff(placement.slot_start))


def _kept(placement: Placement, keep: BoolArray) -> Placement:
    """Some of the tasks with their slots; what was promised about the whole (steady, closed) does not hold for it."""
    slots = keep[_task_of_slot(placement)]
    counts = np.diff(placement.slot_start)[keep]
    cpus, memory, config = placement.cpus, placement.memory_gb, placement.config
    return Placement(
        first=placement.first[keep],
        second=placement.second[keep],
        type=placement.type[keep],
        gpus=placement.gpus[keep],
        kept=placement.kept[keep],
        slot_start=np.concatenate(([0], np.cumsum(counts))).astype(np.int64),
        slot_server=placement.slot_server[slots],
        slot_gpus=placement.slot_gpus[slots],
        cpus=None if cpus is None else cpus[keep],
        memory_gb=None if memory is None else memory[keep],
        config=None if config is None else config[keep],
    )
