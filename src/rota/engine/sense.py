"""Whether an answer of a policy or a mechanism makes sense, before anybody acts on it.

A plug-in may answer with anything. What cannot be used is refused with the job and the number; a plausible result is
never made of it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rota import kernels
from rota.core.allocation import Allocation
from rota.core.arrays import largest, smallest
from rota.core.errors import SolveError
from rota.core.placement import Placement
from rota.core.view import View


@dataclass(frozen=True, slots=True)
class Checks:
    """Whose answers are checked. Those of our own components are tested; the checks would cost some 3 % of a run."""

    policy: bool = True
    mechanism: bool = True


EVERYTHING = Checks()

_SLACK = 1e-6
"""Relative size of what a solver's tolerance may add to a share or to the GPUs of a type."""


def check_allocation(allocation: Allocation, view: View) -> None:
    """Raise SolveError unless it is an answer for just these jobs and types."""
    if not isinstance(allocation, Allocation):
        raise SolveError(f"the policy answered with {type(allocation).__name__}; an Allocation was asked for")
    types = view.cluster.types
    if allocation.types is not types and allocation.types != types:
        raise SolveError(f"the policy answered for types {allocation.types}; the cluster has {types}")
    if allocation.jobs is not view.jobs and not np.array_equal(allocation.jobs, view.jobs):
        raise SolveError(
            f"the policy answered for {len(allocation.jobs)} jobs, not just for the {len(view)} that are there"
        )
    order = allocation.order
    if order is None:
        _check_shares(allocation, view)
    elif order.dtype != np.int64 or not kernels.is_permutation(order, len(view.jobs)):
        raise SolveError(f"the order of the policy is not each of the positions 0 to {len(view) - 1} once")


def _check_shares(allocation: Allocation, view: View) -> None:
    share = allocation.share
    jobs = len(view)
    wanted = (jobs + len(allocation.extras), len(view.types))
    if share.shape != wanted:
        raise SolveError(f"the shares of the policy have the shape {share.shape}; {wanted} was asked for")
    if share.size == 0:
        return
    flat = share.ravel()
    if not (smallest(flat) >= -_SLACK and largest(flat) <= 1 + _SLACK):
        row, gpu_type = (int(i) for i in np.argwhere(~((share >= -_SLACK) & (share <= 1 + _SLACK)))[0])
        who = f"job {view.jobs[row]}" if row < jobs else f"pair {row - jobs}"
        raise SolveError(
            f"the policy gives {who} a share of {share[row, gpu_type]} on {view.types[gpu_type]}; "
            "shares are fractions of time, from 0 to 1"
        )
    used = view.gpus @ share[:jobs]
    if len(allocation.extras):
        used = used + allocation.extras.gpus @ share[jobs:]
    over = used > view.capacity * (1 + _SLACK) + _SLACK
    if over.any():
        gpu_type = int(over.argmax())
        raise SolveError(
            f"the policy hands out {used[gpu_type]:g} GPUs of {view.types[gpu_type]}; "
            f"there are {view.capacity[gpu_type]}"
        )


def check_placement(placement: Placement, view: View) -> None:
    """Raise SolveError if its columns do not belong together, or if it hands out what is not there."""
    if not isinstance(placement, Placement):
        raise SolveError(f"the mechanism answered with {type(placement).__name__}; a Placement was asked for")
    count = len(placement.first)
    slots = len(placement.slot_server)
    if not (
        len(placement.second) == len(placement.type) == len(placement.gpus) == len(placement.kept) == count
        and len(placement.slot_start) == count + 1
    ):
        raise SolveError("the columns of the placement have different lengths")
    for column in (placement.cpus, placement.memory_gb, placement.speed, placement.fraction):
        if column is not None and len(column) != count:
            raise SolveError(f"a column of the placement has {len(column)} numbers for {count} tasks")
    if len(placement.slot_gpus) != slots or int(placement.slot_start[-1]) > slots:
        raise SolveError("the slots of the placement have different lengths")
    if slots:
        _check_slots(placement, view)
    if count:
        _check_tasks(placement, view)


def _check_tasks(placement: Placement, view: View) -> None:
    jobs = np.concatenate([placement.first, placement.second[placement.second >= 0]])
    unknown = view.position(jobs) < 0
    if unknown.any():
        raise SolveError(f"the placement has job {jobs[unknown.argmax()]}, which is not there")
    if placement.fraction is None and len(np.unique(jobs)) < len(jobs):
        raise SolveError("the placement has a job twice")
    types = len(view.capacity)
    if not ((placement.type >= 0) & (placement.type < types)).all():
        raise SolveError(f"the placement has a type that is not there; there are {types}")
    speed = placement.speed
    if speed is not None and not ((speed > 0) & (speed < np.inf)).all():
        raise SolveError("the placement has a speed that is not a number above 0")
    if len(placement.slot_server):
        task = np.repeat(np.arange(len(placement)), np.diff(placement.slot_start))
        held = np.bincount(task, weights=placement.slot_gpus, minlength=len(placement))
        if not np.array_equal(held, placement.gpus):
            raise SolveError("the slots of the placement do not add up to the GPUs of its tasks")


def _check_slots(placement: Placement, view: View) -> None:
    servers = view.cluster.server_gpus
    at = placement.slot_server
    if int(at[at.argmin()]) < 0 or int(at[at.argmax()]) >= len(servers):
        raise SolveError(f"the placement names a server that is not there; there are {len(servers)}")
    used = np.bincount(at, weights=placement.slot_gpus, minlength=len(servers))
    over = used > servers
    if over.any():
        server = view.cluster.ordered[int(over.argmax())]
        raise SolveError(
            f"the placement takes {used[over.argmax()]:g} GPUs of server {server.id}; it has {server.capacity.gpus}"
        )
