"""What tenants held over time, and what they were entitled to.

In every bin of time a tenant has a part of all GPU time that was held, and a part that it was
entitled to: its weight over the weights of all tenants that had a job in the system, averaged over
the bin as far as anybody was there. Weights are those of the entities of a hierarchical policy,
else 1 each. A tenant that asks for less than its part leaves the rest to the others.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from rota.analysis.job_table import JobTable
from rota.core.arrays import FloatArray
from rota.core.events import (
    Event,
    JobsDropped,
    JobsFinished,
    JobsRejected,
    JobsSubmitted,
    Planned,
    RoundsRan,
)
from rota.core.placement import Placement, nobody


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Shares:
    """`held[t, i]` and `entitled[t, i]` of tenant t hold from `edge[i]` to `edge[i + 1]`, seconds.

    NaN: nobody ran.
    """

    tenants: tuple[str, ...]
    weights: tuple[float, ...]
    edge: FloatArray
    held: FloatArray
    entitled: FloatArray

    def numbers(self) -> dict[str, Any]:
        """What is drawn, for JSON."""
        rows = zip(self.tenants, self.weights, self.held, self.entitled, strict=True)
        return {
            "edge_s": self.edge,
            "tenants": [{"name": n, "weight": w, "held": h, "entitled": e} for n, w, h, e in rows],
        }


class Tenancy:
    """Observes a run."""

    def __init__(self, weights: Mapping[str, float] | None = None) -> None:
        """`weights` by tenant; a tenant that is not named has 1."""
        self._weights = weights or {}
        self._table = JobTable()
        self._placement: Placement = nobody()
        self._spans: list[tuple[float, float, FloatArray]] = []

    def observe(self, event: Event) -> None:
        """Take an event into account."""
        if isinstance(event, JobsSubmitted):
            self._table.add(event.first_id, event.jobs)
        elif isinstance(event, JobsFinished):
            self._table.finish(event.jobs, event.finished_at)
        elif isinstance(event, JobsDropped | JobsRejected):
            self._table.give_up(event.jobs, 0, event.at)
        elif isinstance(event, Planned):
            self._placement = event.plan.placement
        elif isinstance(event, RoundsRan) and event.at > event.start:
            self._spans.append((event.start, event.at, self._by_tenant(event)))

    def _by_tenant(self, event: RoundsRan) -> FloatArray:
        """GPU-seconds of a round; two jobs that share GPUs have half each while both are there."""
        tenant = self._table.ints("tenant")
        placement = self._placement
        sums = np.zeros(len(self._table.tenants.known))
        shared = placement.second >= 0
        alone = 0.0 if event.alone is None else event.alone
        both = event.seconds - np.abs(alone)
        first_s = np.where(shared, both / 2 + np.maximum(alone, 0.0), event.seconds)
        second_s = both / 2 + np.maximum(-1.0 * alone, 0.0)
        np.add.at(sums, tenant[placement.first], first_s * placement.gpus)
        np.add.at(sums, tenant[placement.second[shared]], (second_s * placement.gpus)[shared])
        return sums

    def over_time(self, bins: int = 60) -> Shares:
        """Parts by tenant and bin of time."""
        names = tuple(self._table.tenants.known)
        end = max((stop for _, stop, _ in self._spans), default=1.0)
        edge = np.linspace(0.0, end, bins + 1)
        held = np.zeros((len(names), bins))
        for start, stop, sums in self._spans:
            inside = np.diff(np.clip(edge, start, stop)) / (stop - start)
            held[: len(sums)] += sums[:, None] * inside
        total = held.sum(axis=0)
        part = np.divide(held, total, out=np.full(held.shape, np.nan), where=total > 0)
        weights = tuple(float(self._weights.get(name, 1.0)) for name in names)
        entitled = np.where(total > 0, self._entitled(edge, np.array(weights)), np.nan)
        return Shares(tenants=names, weights=weights, edge=edge, held=part, entitled=entitled)

    def _entitled(self, edge: FloatArray, weights: FloatArray) -> FloatArray:
        """[tenant, bin] weight over all weights that were there, at twenty moments of each bin."""
        moments = (edge[:-1, None] + np.diff(edge)[:, None] * (np.arange(20) + 0.5) / 20).ravel()
        tenant = self._table.ints("tenant")
        arrival = self._table.floats("arrival_s")
        left = self._table.floats("left_s")
        there = np.zeros((len(weights), len(moments)))
        for t in range(len(weights)):
            mine = tenant == t
            gone = np.sort(left[mine & np.isfinite(left)])
            arrived = np.searchsorted(np.sort(arrival[mine]), moments, "right")
            count = arrived - np.searchsorted(gone, moments, "right")
            there[t] = weights[t] * (count > 0)
        total = there.sum(axis=0)
        part = np.divide(there, total, out=np.zeros(there.shape), where=total > 0)
        somebody = (total > 0).reshape(len(edge) - 1, 20).sum(axis=1)
        mean: FloatArray = part.reshape(len(weights), len(edge) - 1, 20).sum(axis=2) / np.maximum(1, somebody)
        return mean
