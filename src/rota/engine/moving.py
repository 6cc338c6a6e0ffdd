"""Placements on a cluster that changes, or without jobs that left: what of them goes on.

Simulation needs neither. What was promised about the whole placement (its horizon) does not hold for a part of it.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from rota.core.arrays import BoolArray, IntArray
from rota.core.cluster import Cluster
from rota.core.placement import Placement


def moved(placement: Placement, old: Cluster, new: Cluster) -> Placement:
    """The same tasks on the servers of another cluster; without those that held a server that is gone."""
    where = {server.id: at for at, server in enumerate(new.ordered)}
    new_server = np.array([where.get(server.id, -1) for server in old.ordered], dtype=np.int64)
    new_type = np.array([new.types.index(t) if t in new.types else -1 for t in old.types], dtype=np.int64)
    servers = new_server[placement.slot_server]
    gone = np.zeros(len(placement), dtype=np.bool_)
    gone[_task_of_slot(placement)[servers < 0]] = True
    there = replace(placement, type=new_type[placement.type], slot_server=servers)
    return _kept(there, ~gone)


def without(placement: Placement, jobs: IntArray) -> Placement:
    """The placement without the tasks of these jobs; a partner goes on alone."""
    first_gone = np.isin(placement.first, jobs)
    second_gone = np.isin(placement.second, jobs)
    alone = first_gone & ~second_gone & (placement.second >= 0)
    first = np.where(alone, placement.second, placement.first)
    second = np.where(alone | second_gone, -1, placement.second)
    keep = ~first_gone | alone
    return _kept(replace(placement, first=first, second=second), keep)


def _task_of_slot(placement: Placement) -> IntArray:
    return np.repeat(np.arange(len(placement)), np.diff(placement.slot_start))


def _kept(placement: Placement, keep: BoolArray) -> Placement:
    """Some of the tasks with their slots."""
    slots = keep[_task_of_slot(placement)]
    counts = np.diff(placement.slot_start)[keep]
    cpus = placement.cpus
    memory = placement.memory_gb
    speed = placement.speed
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
        speed=None if speed is None else speed[keep],
    )
