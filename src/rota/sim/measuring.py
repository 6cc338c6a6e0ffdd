"""What a simulated scheduler finds out about the speeds of jobs: those that ran for half a round are known there."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

import numpy as np

from rota.core.arrays import FloatArray, IntArray
from rota.core.events import SpeedsLearned
from rota.core.ports import Beliefs
from rota.core.view import View
from rota.sim.tasks import Tasks

Kind: TypeAlias = "tuple[str, str, int]"
"""(profile, belief, GPUs)."""
_LEAST_PART = 0.5
"""Of a round; for so long a kind of job has to run on a type before its speed there is known."""


class Measuring:
    """Watches tasks whose speed is not what was believed."""

    def __init__(self, beliefs: Beliefs, round_s: float) -> None:
        self._beliefs = beliefs
        self._least_s = _LEAST_PART * round_s
        self._seconds: dict[tuple[Kind, str], float] = {}
        self._rates: dict[Kind, dict[str, float]] = {}
        self._watched: list[tuple[int, Kind, str, float]] = []
        """Task, kind, type, true rate."""
        self._types: tuple[str, ...] = ()

    def watch(self, tasks: Tasks, view: View) -> None:
        """These tasks run from now on."""
        placement = tasks.placement
        classes = view.classes
        group: IntArray = view.job_class[view.jobs.searchsorted(placement.first)]
        true = classes.true_speeds.throughput[group, placement.type]
        off = (true != classes.throughput[group, placement.type]) & (placement.second < 0)
        self._types = view.cluster.types
        self._watched = [
            (task, _kind(view, int(group[task])), self._types[placement.type[task]], float(true[task]))
            for task in np.flatnonzero(off).tolist()
        ]

    @property
    def eager(self) -> bool:
        """Whether something is to be found out."""
        return bool(self._watched)

    def learned(self, seconds: FloatArray, now: float) -> list[SpeedsLearned]:
        """What is known now that the tasks ran for so long."""
        news: set[Kind] = set()
        for task, kind, gpu_type, rate in self._watched:
            cell = (kind, gpu_type)
            self._seconds[cell] = self._seconds.get(cell, 0.0) + float(seconds[task])
            known = self._rates.setdefault(kind, {})
            if self._seconds[cell] >= self._least_s and gpu_type not in known:
                known[gpu_type] = rate
                news.add(kind)
        if not news:
            return []
        rows = [(kind, t, rate) for kind in sorted(news) for t, rate in sorted(self._rates_of(kind).items())]
        return [
            SpeedsLearned(
                at=now,
                profiles=tuple(kind[0] for kind, _, _ in rows),
                beliefs=tuple(kind[1] for kind, _, _ in rows),
                gpus=np.array([kind[2] for kind, _, _ in rows], dtype=np.int64),
                types=tuple(gpu_type for _, gpu_type, _ in rows),
                rates=np.array([rate for _, _, rate in rows]),
            )
        ]

    def _rates_of(self, kind: Kind) -> Mapping[str, float]:
        return self._beliefs.after_measuring(*kind, self._rates[kind], self._types)

    def snapshot(self) -> dict[str, Any]:
        """What was measured so far."""
        return {"seconds": dict(self._seconds), "rates": {kind: dict(rates) for kind, rates in self._rates.items()}}

    def restore(self, saved: Mapping[str, Any]) -> None:
        """Go on from a snapshot."""
        self._seconds = dict(saved["seconds"])
        self._rates = {kind: dict(rates) for kind, rates in saved["rates"].items()}


def _kind(view: View, group: int) -> Kind:
    classes = view.classes
    return classes.profile[group], classes.beliefs[group], int(classes.gpus[group])
