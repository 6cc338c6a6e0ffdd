"""Columns of classes, longer by some rows: what is there already is copied once for all of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from rota.core.arrays import IntArray, frozen
from rota.core.classes import Classes, Speeds

_COLUMNS = (
    "profile", "gpus", "weight", "throughput", "spread", "spreading_costs", "step_s", "best_step_s", "runs_on",
    "allowed", "needs", "bound", "priority", "truth", "beliefs",
)  # fmt: skip


def with_priorities(old: Classes, priorities: list[int]) -> IntArray | None:
    """Priorities of before and those of more classes; None as long as all are 0."""
    if old.priority is None and not any(priorities):
        return None
    before = np.zeros(len(old), dtype=np.int64) if old.priority is None else old.priority
    return frozen(np.append(before, priorities))


def with_rows(speeds: Speeds, rows: Sequence[Speeds]) -> Speeds:
    """Speeds of before and those of more classes."""
    return Speeds(
        frozen(np.vstack([speeds.throughput, *(row.throughput for row in rows)])),
        frozen(np.vstack([speeds.spread, *(row.spread for row in rows)])),
        frozen(np.vstack([speeds.step_s, *(row.step_s for row in rows)])),
    )


def speed_columns(speeds: Speeds) -> dict[str, Any]:
    """Columns of classes that follow from their speeds."""
    return {
        "throughput": speeds.throughput,
        "spread": speeds.spread,
        "step_s": speeds.step_s,
        "best_step_s": frozen(speeds.step_s.min(axis=1)),
        "runs_on": frozen(speeds.throughput > 0),
    }


def columns_of(classes: Classes) -> dict[str, Any]:
    """All columns by name, without what is looked up when it is needed."""
    return {name: getattr(classes, name) for name in _COLUMNS}
