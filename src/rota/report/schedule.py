"""Who held which GPU when, in few bytes: columns of whole numbers that a browser can draw.

GPUs of a server that begin and end together are one bar with several rows. A run with more bars
than a page can hold is cut: what is shown is its beginning (or the window that was asked for), and
`Schedule.cut` says so.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from rota.analysis.figures.schedule import Bar, Occupancy
from rota.core.arrays import NO_JOB, FloatArray

MOST_BARS = 20_000
"""Of one run; about 300 kB."""
FINE_BELOW_S = 2000.0
"""A window shorter than that is kept to the hundredth of a second, a longer one to the second."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ScheduleChart:
    """Bars of one run in the order of their start, and the rows they are in."""

    servers: list[dict[str, Any]]
    bars: FloatArray
    """[bar, 6]: start and end in seconds, first row, number of rows, job, partner (-1: none)."""
    window: tuple[float, float]
    cut: str | None

    def columns(self) -> dict[str, Any]:
        """The same for JSON: starts as differences, times in units."""
        unit = 0.01 if self.window[1] - self.window[0] < FINE_BELOW_S else 1.0
        start, end = (np.round(self.bars[:, i] / unit).astype(np.int64) for i in (0, 1))
        whole = self.bars[:, 2:].astype(np.int64)
        return {
            "servers": self.servers,
            "window": [round(t, 2) for t in self.window],
            "cut": self.cut,
            "unit": unit,
            "start": np.diff(start, prepend=0).tolist(),
            "length": np.maximum(end - start, 0).tolist(),
            "row": whole[:, 0].tolist(),
            "rows": whole[:, 1].tolist(),
            "job": whole[:, 2].tolist(),
            "partner": whole[:, 3].tolist() if (whole[:, 3] != NO_JOB).any() else None,
        }


def schedule_of(held: Occupancy, most: int = MOST_BARS) -> ScheduleChart | None:
    """The bars that were observed, cut to the first `most`.

    None where nobody held a GPU (the ideal mechanism).
    """
    if not held.bars:
        return None
    offset = np.concatenate([[0], np.cumsum(held.cluster.server_gpus)])
    merged = _merged(held.bars, offset)
    first = held.window[0]
    last = min(held.window[1], held.last)
    cut = None
    if len(merged) > most:
        last = float(merged[most, 0])
        why = "the whole run has more bars than a page can hold"
        cut = f"only the first {last / 3600:,.1f} hours: {why}"
        merged = merged[:most]
        merged[:, 1] = np.minimum(merged[:, 1], last)
        merged = merged[merged[:, 1] > merged[:, 0]]
    elif first > 0 or math.isfinite(held.window[1]):
        cut = f"hours {first / 3600:,.1f} to {last / 3600:,.1f} only, as asked"
    servers = [{"id": s.id, "type": s.type, "gpus": s.capacity.gpus} for s in held.cluster.ordered]
    return ScheduleChart(servers=servers, bars=merged, window=(first, last), cut=cut)


def _merged(bars: list[Bar], offset: FloatArray) -> FloatArray:
    """GPUs side by side with the same jobs and times as one bar, by start."""
    rows = [(b.start, b.end, int(offset[b.server]) + b.gpu, 1, b.job, b.partner, b.server) for b in bars]
    rows.sort(key=lambda r: (r[0], r[4], r[5], r[6], r[2]))
    merged: list[list[float]] = []
    last_server = -1
    for start, end, row, count, job, partner, server in rows:
        last = merged[-1] if merged else None
        beside = last is not None and server == last_server and row == last[2] + last[3]
        if last is not None and beside and (last[0], last[1], last[4], last[5]) == (start, end, job, partner):
            last[3] += 1
        else:
            merged.append([start, end, row, count, job, partner])
        last_server = server
    return np.array(merged, dtype=np.float64)
