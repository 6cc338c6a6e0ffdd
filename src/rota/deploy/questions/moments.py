"""What happened and who asked for GPUs, in one order in time: what the ledger and the figures over time walk over."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from rota.deploy.questions.asking_spans import HOLDS, asking_spans
from rota.deploy.scheduler.records import Job
from rota.deploy.tenants import tenants_from

SETTINGS = ("ServiceStarted", "SettingsChanged")
"""Kinds of events with the settings in force from then on."""
ASKS = "asks"
"""A job begins to ask for GPUs, or asks for them no more: `tenant`, and `gpus` and `jobs` more or fewer."""


def weights_from(fields: Mapping[str, Any]) -> Mapping[str, float]:
    """Weights of tenants from one of `SETTINGS` on."""
    return tenants_from(fields["config"].get("tenants", {})).weights()


def moments_of(
    events: Iterable[Mapping[str, Any]], jobs: Iterable[Job], until: float
) -> Iterator[tuple[float, Mapping[str, Any]]]:
    """Engine seconds and what happens then, up to `until`; at the same second jobs come first and go last."""
    rows = list(events)
    found: list[tuple[float, int, Mapping[str, Any]]] = []
    for job, (begin, end) in asking_spans(list(jobs), rows):
        asks = {"event": ASKS, "tenant": job.tenant}
        found.append((begin, 0, {**asks, "gpus": job.spec.gpus, "jobs": 1}))
        if end < math.inf:
            found.append((end, 2, {**asks, "gpus": -job.spec.gpus, "jobs": -1}))
    found += [(float(fields["at"]), 1, fields) for fields in rows if fields["event"] not in HOLDS]
    found.sort(key=lambda moment: moment[:2])
    for at, _, fields in found:
        if at > until:
            return
        yield at, fields
