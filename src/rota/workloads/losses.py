"""What of a table a trace format has no place for, so that nobody loses it without being told."""

from __future__ import annotations

import numpy as np

from rota.core.jobs import REQUESTS, Jobs, Launch, Requests
from rota.workloads.registry import formats


def lost(jobs: Jobs, name: str) -> list[str]:
    """In words, what jobs have and the format of that name has no place for."""
    holds = formats.create(name).holds
    losses = {
        "durations": not holds.durations and bool((~np.isnan(jobs.duration)).any()),
        "tenants": not holds.tenants and jobs.tenants != ("default",),
        "commands": not holds.commands and any(launch != Launch() for launch in jobs.launches),
        "CPU and memory requests": not holds.requests and _asks_for_more(jobs.requests),
        "types of GPU": not holds.types and jobs.gpu_types is not None,
        "jobs before others, arrays and time limits": not holds.queue and jobs.queue is not None,
        "names of jobs": not holds.types and jobs.names is not None,
    }
    return [what for what, is_lost in losses.items() if is_lost]


def _asks_for_more(requests: Requests | None) -> bool:
    if requests is None:
        return False
    columns = (getattr(requests, column) for column in REQUESTS)
    return any((~np.isnan(column)).any() for column in columns)
