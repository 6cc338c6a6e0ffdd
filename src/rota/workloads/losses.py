"""What of a table a trace format has no place for, so that nobody loses it without being told."""

from __future__ import annotations

import numpy as np

from rota.core.jobs import REQUESTS, Jobs, Launch
from rota.workloads.registry import formats

ALL = frozenset({"duration", "tenant", "launch", "requests", "weight", "slo"})


def lost(jobs: Jobs, name: str) -> list[str]:
    """In words, what jobs have and the format does not keep; a format says what it keeps by its `holds`."""
    holds = getattr(formats.entry(name).factory, "holds", ALL)
    asked = jobs.requests
    has = {
        "duration": bool((~np.isnan(jobs.duration)).any()),
        "tenant": jobs.tenants != ("default",),
        "launch": any(launch != Launch() for launch in jobs.launches),
        "requests": asked is not None and any((~np.isnan(getattr(asked, column))).any() for column in REQUESTS),
    }
    words = {"duration": "durations", "tenant": "tenants", "launch": "commands", "requests": "CPU and memory requests"}
    return [words[part] for part, there in has.items() if there and part not in holds]
