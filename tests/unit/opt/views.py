"""Views for tests of the optimisation layer: classes from a throughput matrix, jobs from plain sequences."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rota.core.cluster import AcceleratorType, uniform
from rota.core.view import View

TYPES = ("k80", "p100", "v100", "x1", "x2", "x3", "x4")


@dataclass
class PlainClasses:
    profile: tuple[str, ...]
    gpus: np.ndarray
    weight: np.ndarray
    throughput: np.ndarray
    pair: np.ndarray

    def __len__(self):
        return len(self.profile)


def classes_of(throughput, gpus=None, weight=None, pair=None):
    throughput = np.asarray(throughput, dtype=float)
    count = len(throughput)
    return PlainClasses(
        profile=tuple(f"m{i}" for i in range(count)),
        gpus=np.ones(count, dtype=np.int64) if gpus is None else np.asarray(gpus, dtype=np.int64),
        weight=np.ones(count) if weight is None else np.asarray(weight, dtype=float),
        throughput=throughput,
        pair=np.zeros((count, count, throughput.shape[1])) if pair is None else np.asarray(pair, dtype=float),
    )


def view_of(
    classes,
    job_class,
    capacity,
    *,
    types=None,
    steps_left=None,
    now=0.0,
    submitted=None,
    deadline=None,
    tenants=("default",),
    tenant=None,
    prices=None,
    previous=None,
    jobs=None,
):
    job_class = np.asarray(job_class, dtype=np.int64)
    count = len(job_class)
    types = TYPES[: len(capacity)] if types is None else types
    prices = np.ones(len(types)) if prices is None else prices
    accelerators = tuple(AcceleratorType(name=t, hourly_price=p) for t, p in zip(types, prices, strict=True))
    cluster = uniform("test", [(t, max(1, int(n)), 1) for t, n in zip(types, capacity, strict=True)], accelerators)
    steps = np.full(count, 1000.0) if steps_left is None else np.asarray(steps_left, dtype=float)
    return View(
        now=now,
        round=0,
        cluster=cluster,
        capacity=np.asarray(capacity, dtype=np.int64),
        classes=classes,
        jobs=np.arange(count) if jobs is None else np.asarray(jobs, dtype=np.int64),
        job_class=job_class,
        gpus=classes.gpus[job_class],
        weight=classes.weight[job_class],
        submitted=np.zeros(count) if submitted is None else np.asarray(submitted, dtype=float),
        total_steps=steps,
        steps_done=np.zeros(count),
        deadline=np.full(count, np.inf) if deadline is None else np.asarray(deadline, dtype=float),
        tenant=np.zeros(count, dtype=np.int64) if tenant is None else np.asarray(tenant, dtype=np.int64),
        tenants=tenants,
        attained=np.zeros(count),
        speed=np.ones(count),
        last_ran=np.zeros(count),
        urgent=None,
        patient=True,
        previous=previous,
        placement=None,
    )
