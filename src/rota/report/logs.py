"""All that a page shows of an event log, in one pass over it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from rota.analysis.figures.schedule import Occupancy
from rota.analysis.metrics import Metrics
from rota.analysis.timeline import Series, UtilizationTimeline
from rota.api import measured_jobs, speeds_of
from rota.core.cluster import cluster_from
from rota.core.errors import ConfigError
from rota.core.events import RunEnded, RunStarted
from rota.engine.log import read_events
from rota.report.schedule import ScheduleChart, schedule_of

BINS = 240
ENOUGH_BARS = 400_000
"""GPUs held without a break; beyond, memory is kept for other things and the chart ends there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeWindow:
    """The part of a run of which a Gantt chart is kept, in seconds."""

    start: float = 0.0
    end: float = math.inf


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LogContent:
    """A run as its log tells it."""

    config: dict[str, Any]
    summary: dict[str, Any]
    jobs: dict[str, NDArray[Any]]
    series: Series
    schedule: ScheduleChart | None
    ended: str | None
    """The reason that the log gives for the end of the run, None if it was cut off."""


def read_log(path: str | Path, window: TimeWindow | None = None) -> LogContent:
    """Read a log; raises ConfigError with the line that cannot be used."""
    window = window or TimeWindow()
    events = read_events(path)
    first = next(events)
    config = dict(first.config) if isinstance(first, RunStarted) else {}
    try:
        cluster = cluster_from(config["cluster"])
        measure = measured_jobs(config)
    except (KeyError, TypeError, ValueError, IndexError) as error:
        raise ConfigError(
            f"{path}:1: the log does not begin with RunStarted and a cluster; give a whole log"
        ) from error
    speeds, _ = speeds_of(config)
    metrics = Metrics(cluster, measure, speeds, endless=bool(config.get("endless")))
    timeline = UtilizationTimeline(cluster)
    held = Occupancy(cluster, window.start, window.end)
    now = 0.0
    ended = None
    for event in events:
        metrics.observe(event)
        timeline.observe(event)
        if len(held.bars) < ENOUGH_BARS:
            held.observe(event)
        if isinstance(event, RunEnded):
            ended = event.reason
        now = event.at
    return LogContent(
        config=config,
        summary=metrics.summary(now),
        jobs=metrics.jobs(),
        series=timeline.utilization(BINS),
        schedule=schedule_of(held),
        ended=ended,
    )
