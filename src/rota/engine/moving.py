"""Placements on a cluster that changes, or without jobs that left: what of them goes on.

Simulation needs neither. What was promised about the whole placement (its horizon) does not hold for a part of it.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from rota.core.arrays import IntArray
from rota.core.cluster import Cluster
from rota.core.placement import Placement


def moved(placement: Placement, old: Cluster, new: Cluster) -> Placement:
    """The same tasks on the servers of another cluster; without those that held a server that is gone."""
    where = {server.id: at for at, server in enumerate(new.ordered)}
    new_server = np.array([where.get(server.id, -1) for server in old.ordered], dtype=np.int64)
    new_type = np.array([new.types.index(t) if t in new.types else -1 for t in old.types], dtype=np.int64)
    servers = new_server[placement.slot_server]
    gone = np.zeros(len(placement), dtype=np.bool_)
    gone[placement.task_of_slot[servers < 0]] = True
    there = replace(placement, type=new_type[placement.type], slot_server=servers)
    return there.rows(~gone)


def without(placement: Placement, jobs: IntArray) -> Placement:
    """The placement without the tasks of these jobs; a partner goes on alone."""
    first_gone = np.isin(placement.first, jobs)
    second_gone = np.isin(placement.second, jobs)
    alone = first_gone & ~second_gone & (placement.second >= 0)
    first = np.where(alone, placement.second, placement.first)
    second = np.where(alone | second_gone, -1, placement.second)
    keep = ~first_gone | alone
    return replace(placement, first=first, second=second).rows(keep)
