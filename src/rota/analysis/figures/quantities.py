"""Metrics of a run as quantities on an axis: what they are called there, and in which unit."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

HOUR = 3600.0
PERCENT = 0.01
MISSED = "missed_fraction"
"""Of the jobs with a deadline those that missed it; not stored, but computed from two counts."""


class Quantity(NamedTuple):
    """A label for an axis, and by what a value is divided."""

    label: str
    unit: float


KNOWN = {
    "mean_jct_s": Quantity("mean completion time (hours)", HOUR),
    "p50_jct_s": Quantity("median completion time (hours)", HOUR),
    "p90_jct_s": Quantity("90th percentile of completion time (hours)", HOUR),
    "p99_jct_s": Quantity("99th percentile of completion time (hours)", HOUR),
    "p999_jct_s": Quantity("99.9th percentile of completion time (hours)", HOUR),
    "makespan_s": Quantity("makespan (hours)", HOUR),
    "utilization": Quantity("GPU time held by jobs (%)", PERCENT),
    "cpu_utilization": Quantity("CPU time held by jobs (%)", PERCENT),
    "memory_utilization": Quantity("memory held by jobs (%)", PERCENT),
    "cost": Quantity("cost", 1.0),
    "mean_ftf": Quantity("mean finish-time fairness (rho)", 1.0),
    "p99_ftf": Quantity("99th percentile of finish-time fairness (rho)", 1.0),
    "worst_ftf": Quantity("worst finish-time fairness (rho)", 1.0),
    "unfair_fraction": Quantity("unfair jobs (%)", PERCENT),
    MISSED: Quantity("deadlines missed (%)", PERCENT),
    "lease_extension_fraction": Quantity("leases extended (%)", PERCENT),
}


def quantity(metric: str) -> Quantity:
    """How a metric stands on an axis; one that is not known stands there under its own name."""
    if metric in KNOWN:
        return KNOWN[metric]
    if metric.endswith("_s"):
        return Quantity(f"{metric.removesuffix('_s').replace('_', ' ')} (hours)", HOUR)
    return Quantity(metric.replace("_", " "), 1.0)


def value(metrics: Mapping[str, Any], metric: str) -> float | None:
    """A metric of a run as a number; None where it is not known."""
    if metric == MISSED:
        return _missed(metrics)
    found = metrics.get(metric)
    return float(found) if isinstance(found, int | float) and not isinstance(found, bool) else None


def names(metrics: Mapping[str, Any]) -> list[str]:
    """The metrics of a run that can stand on an axis."""
    stored = [name for name in metrics if value(metrics, name) is not None]
    return [*stored, MISSED] if _missed(metrics) is not None else stored


def _missed(metrics: Mapping[str, Any]) -> float | None:
    bound = metrics.get("slo_jobs")
    return metrics.get("slo_violations", 0) / bound if bound else None
