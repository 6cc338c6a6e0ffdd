"""Small hand-made runs."""

import numpy as np

from rota.core.allocation import Allocation
from rota.core.cluster import AcceleratorType, uniform
from rota.core.events import Allocated, JobsFinished, JobsSubmitted, Planned, RoundsRan
from rota.core.jobs import table
from rota.core.placement import Placement, Plan

CLUSTER = uniform(
    "two types",
    [("v100", 2, 2), ("k80", 2, 2)],
    (AcceleratorType(name="v100", hourly_price=3.6), AcceleratorType(name="k80", hourly_price=0.36)),
)
K80, V100 = 0, 1


def submitted(first_id, arrivals, **columns):
    count = len(arrivals)
    jobs = table(
        profile_names=columns.pop("profiles", ["A3C"] * count),
        gpus=columns.pop("gpus", [1] * count),
        total_steps=columns.pop("steps", [100.0] * count),
        submitted=arrivals,
        **columns,
    )
    return JobsSubmitted(at=arrivals[-1], first_id=first_id, jobs=jobs)


def planned(tasks, at=0.0):
    """Tasks are (first, second, type, gpus, kept)."""
    first, second, kind, gpus, kept = (np.array(c, dtype=np.int64) for c in zip(*tasks, strict=True))
    slots = np.arange(len(tasks))
    placement = Placement(
        first=first,
        second=second,
        type=kind,
        gpus=gpus,
        kept=kept.astype(bool),
        slot_start=np.arange(len(tasks) + 1),
        slot_server=slots,
        slot_gpus=gpus,
    )
    return Planned(at=at, plan=Plan(round=0, start=at, placement=placement))


def ran(start, at, seconds, rounds=1):
    held = np.array(seconds, dtype=float)
    nothing = np.zeros(len(held))
    return RoundsRan(
        at=at,
        start=start,
        rounds=rounds,
        steps=nothing,
        partner_steps=nothing,
        seconds=held,
        lost=np.zeros(0, dtype=np.int64),
    )


def finished(ids, times):
    return JobsFinished(at=max(times), jobs=np.array(ids, dtype=np.int64), finished_at=np.array(times, dtype=float))


def allocated(at=0.0):
    return Allocated(
        at=at, allocation=Allocation(jobs=np.zeros(0, dtype=np.int64), types=("k80", "v100"), share=np.zeros((0, 2)))
    )


def observe_all(observer, *events):
    for event in events:
        observer.observe(event)
    return observer
