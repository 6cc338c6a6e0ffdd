"""Gavel's figure 11: entities with weights fill the cluster job by job, in two ways.

Once the policy knows throughputs, and once it does not.

The instance is that of the published notebook: three GPUs of each of three types, eighteen jobs
with models drawn by a seeded generator, six to an entity, one more at every step; entities weigh 1,
2 and 3, jobs 1 and 2 in turn. What is measured is the sum of levels: throughput over that of an
equal part of all types (share of time where throughputs are not known).
"""

from __future__ import annotations

import random
import time
from collections.abc import Mapping
from typing import Any

import numpy as np

from rota import clusters, profiles
from rota.core.arrays import FloatArray
from rota.core.events import JobsSubmitted
from rota.core.jobs import Jobs, table
from rota.core.rules import Rules
from rota.engine.state import State
from rota.experiments.repro.model import Measured
from rota.policies.registry import policies

POLICIES = {
    "aware": "max-min-fairness-water-filling-perf",
    "agnostic": "max-min-fairness-water-filling",
}
ENTITIES = 3


def filled_levels(settings: Mapping[str, Any]) -> list[Measured]:
    """Total and by-entity level after each step, for both policies.

    `settings` has jobs, steps, seed, cluster.
    """
    jobs = _instance(settings["jobs"], settings["seed"])
    measured = []
    for policy, name in POLICIES.items():
        for step in settings["steps"]:
            started = time.process_time()
            level = _levels(jobs.rows(0, step), name, settings["cluster"], aware=policy == "aware")
            by_entity = np.bincount(jobs.tenant[:step], weights=level, minlength=ENTITIES)
            metrics = {"total": float(level.sum())}
            metrics |= {f"entity{e}": float(by_entity[e]) for e in range(ENTITIES)}
            spent = time.process_time() - started
            measured.append(
                Measured(
                    point={"policy": policy, "step": step},
                    status="ok",
                    metrics=metrics,
                    cpu_s=spent,
                )
            )
    return measured


def _instance(count: int, seed: int) -> Jobs:
    draw = random.Random(seed)
    known = [template.profile for template in profiles.templates()]
    each = count // ENTITIES
    return table(
        profile_names=[draw.choice(known) for _ in range(count)],
        gpus=[1] * count,
        total_steps=[1e9] * count,
        submitted=[0.0] * count,
        weight=[float(i % 2 + 1) for i in range(count)],
        tenant_names=[f"entity{i // each}" for i in range(count)],
    )


def _levels(jobs: Jobs, policy: str, cluster: str, *, aware: bool) -> FloatArray:
    state = State(clusters.load(cluster), profiles.load("gavel"), Rules())
    state.apply(JobsSubmitted(at=0.0, first_id=0, jobs=jobs))
    view = state.view(0.0)
    weights = ",".join(f"entity{e}={e + 1}:fairness" for e in range(ENTITIES))
    share = policies.create(policy, entities=weights).allocate(view).share
    if not aware:
        return np.asarray(share.sum(axis=1), dtype=np.float64)
    rate = view.classes.throughput[view.job_class]
    fair = (rate * (view.capacity / view.capacity.sum())).sum(axis=1)
    return np.asarray((rate * share).sum(axis=1) / fair, dtype=np.float64)
