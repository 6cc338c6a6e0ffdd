"""What decides where a deployed job can run: its profile, GPUs, types, and what it needs of its servers."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from rota.core.cluster import Cluster
from rota.core.errors import ProfileMissing
from rota.core.gpu_types import ANY, NOT, TypeSet, permits
from rota.core.job_spec import JobSpec
from rota.core.jobs import Requests, requests
from rota.core.needs import NOTHING, Needs, types_that_hold
from rota.core.ports import Throughputs
from rota.deploy.scheduler.speed_names import engine_profile


class JobKind(NamedTuple):
    """Jobs of one kind can run on the same servers."""

    profile: str
    gpus: int
    types: TypeSet = ANY
    needs: Needs = NOTHING


def kind_of(spec: JobSpec) -> JobKind:
    """The kind of a job."""
    excluded = (NOT + gpu_type for gpu_type in spec.exclude_types)
    types = tuple(sorted({*spec.types, *excluded}))
    needs = Needs(spec.cpus, spec.memory_gb, tuple(sorted(set(spec.labels))))
    return JobKind(engine_profile(spec), spec.gpus, types, needs)


def can_run(catalogue: Throughputs, kind: JobKind, cluster: Cluster) -> bool:
    """Whether some type has enough GPUs, a speed for such a job, and servers with what it needs."""
    held = types_that_hold(cluster, kind.gpus, kind.needs) if kind.needs else [True] * len(cluster.types)
    for gpu_type, count, holds in zip(cluster.types, cluster.capacity.tolist(), held, strict=True):
        if count < kind.gpus or not holds or not permits(kind.types, gpu_type):
            continue
        with contextlib.suppress(ProfileMissing):
            if catalogue.rate(kind.profile, kind.gpus, gpu_type) > 0:
                return True
    return False


def requests_of(kinds: Sequence[JobKind]) -> Requests | None:
    """CPUs and memory that jobs ask for; None if none does."""
    if not any(kind.needs for kind in kinds):
        return None
    cpus = np.array([kind.needs.cpus or np.nan for kind in kinds])
    memory_gb = np.array([kind.needs.memory_gb or np.nan for kind in kinds])
    return requests(len(kinds), cpus=cpus, memory_gb=memory_gb)
