"""How busy was the cluster over time? Utilisation in equal bins of simulated time, from events."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rota.core.arrays import FloatArray
from rota.core.cluster import Cluster
from rota.core.events import Event, Planned, RoundsRan


@dataclass(frozen=True, slots=True, eq=False)
class Series:
    """A step function: `value[i]` holds from `edge[i]` to `edge[i + 1]`, seconds."""

    edge: FloatArray
    value: FloatArray


class UtilizationTimeline:
    """Observes a run and tells how many GPUs were held when."""

    def __init__(self, cluster: Cluster) -> None:
        self._total = cluster.gpus
        self._gpus: FloatArray = np.zeros(0)
        self._spans: list[tuple[float, float, float]] = []

    def observe(self, event: Event) -> None:
        """Take an event into account."""
        if isinstance(event, Planned):
            self._gpus = event.plan.placement.gpus.astype(np.float64)
        elif isinstance(event, RoundsRan) and event.at > event.start:
            self._spans.append((event.start, event.at, float(event.seconds @ self._gpus)))

    def utilization(self, bins: int = 120) -> Series:
        """The part of all GPU time that was held, by bin.

        Busy time is spread evenly over its rounds.
        """
        if not self._spans:
            return Series(np.array([0.0, 1.0]), np.zeros(1))
        start, end, busy = np.array(self._spans).T
        edge = np.linspace(0.0, float(end.max()), bins + 1)
        # Busy GPU-seconds up to a time t: piecewise linear, with a kink at every start and end of
        # rounds.
        kinks = np.unique(np.concatenate([start, end]))
        rate = np.zeros(len(kinks))
        np.add.at(rate, np.searchsorted(kinks, start), busy / (end - start))
        np.add.at(rate, np.searchsorted(kinks, end), -busy / (end - start))
        until = np.concatenate([[0.0], np.cumsum(np.cumsum(rate)[:-1] * np.diff(kinks))])
        held = np.diff(np.interp(edge, kinks, until))
        return Series(edge, held / (np.diff(edge) * self._total))
