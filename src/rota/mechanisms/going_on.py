"""Which tasks of the last round can go on where they are, on what is left of the servers."""

from __future__ import annotations

import numpy as np

from rota.core.arrays import BoolArray, IntArray, every, some
from rota.core.cluster import Cluster
from rota.core.placement import Placement
from rota.core.view import View
from rota.mechanisms.merging import slots_of


def keep_tasks(view: View, part: View, chosen: IntArray) -> None:
    """Give the part of a view the tasks of the last round that still find all their GPUs; staying ones first."""
    last = view.placement
    part.placement = None
    part.last_task = None
    part.staying = None
    if last is None or view.last_task is None or len(last) == 0:
        return
    keep = part.position(last.first) >= 0
    if not _fit_together(last, keep, part.cluster):
        keep = _first_that_fit(last, keep, part.cluster, _by_rank(view, last, chosen))
    rest = last.rows(keep)
    part.placement = rest
    part.last_task = np.full(len(part), -1, dtype=np.int64)
    part.last_task[part.position(rest.first)] = np.arange(len(rest))
    if view.staying is not None and some(view.staying[keep]):
        part.staying = view.staying[keep]


def _fit_together(last: Placement, keep: BoolArray, cluster: Cluster) -> bool:
    """Whether all these tasks find their GPUs on the servers at once; who comes first does not matter then."""
    slots = keep[last.task_of_slot]
    taken = np.bincount(last.slot_server[slots], weights=last.slot_gpus[slots], minlength=len(cluster.server_gpus))
    return every(taken <= cluster.server_gpus)


def _first_that_fit(last: Placement, candidates: BoolArray, cluster: Cluster, ranked: IntArray) -> BoolArray:
    """[K] tasks that find all their GPUs on the servers, one after the other."""
    left = cluster.server_gpus.tolist()
    keep = np.zeros(len(last), dtype=np.bool_)
    for row in ranked[candidates[ranked]].tolist():
        slots = slots_of(last, row)
        if all(left[server] >= gpus for server, gpus in slots):
            keep[row] = True
            for server, gpus in slots:
                left[server] -= gpus
    return keep


def _by_rank(view: View, last: Placement, chosen: IntArray) -> IntArray:
    """Rows of the last placement: those that have to stay, then as they were chosen, then the others."""
    rank = np.full(len(view) + 1, len(view), dtype=np.int64)
    rank[chosen] = np.arange(len(chosen))
    of_row = rank[view.position(last.first)]
    if view.staying is not None:
        of_row = np.where(view.staying, -1, of_row)
    return np.argsort(of_row, kind="stable")
