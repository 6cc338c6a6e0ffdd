"""Gavel's figure 12: how long one solve takes, as `rota bench solve` measures it."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from rota import api
from rota.core.ports import Policy
from rota.core.view import View
from rota.experiments.repro.model import Measured
from rota.policies.registry import policies

WEIGHTS = (1, 2, 3)


def solve_times(settings: Mapping[str, Any]) -> list[Measured]:
    """CPU seconds, the best of `repeats`.

    `settings` has policies, jobs, multi_gpu and, for some, entities.
    """
    measured = []
    for policy in settings["policies"]:
        for jobs in settings["jobs"]:
            chosen, view = api.solve_view(policy, jobs, multi_gpu=settings["multi_gpu"])
            if policy in settings["with_entities"]:
                chosen, view = _entities(policy, view, settings["entities"])
            times = []
            for _ in range(settings["repeats"]):
                started = time.process_time()
                chosen.allocate(view)
                times.append(time.process_time() - started)
            point = {"policy": policy, "jobs": jobs}
            measured.append(
                Measured(
                    point=point,
                    status="ok",
                    metrics={"solve_s": min(times)},
                    cpu_s=sum(times),
                )
            )
    return measured


def _entities(policy: str, view: View, count: int) -> tuple[Policy, View]:
    """Jobs go to this number of entities in turn, whose weights are 1, 2, 3 in turn.

    Within one, jobs share fairly.
    """
    names = tuple(f"entity{e}" for e in range(count))
    entities = ",".join(f"{n}={WEIGHTS[e % 3]}:fairness" for e, n in enumerate(names))
    divided = replace(view, tenants=names, tenant=np.arange(len(view)) % count)
    return policies.create(policy, entities=entities), divided
