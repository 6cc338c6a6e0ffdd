"""Runs of a store made once more, for their placements, which a Gantt chart needs."""

from __future__ import annotations

import math
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from rota import api
from rota.core import own_code
from rota.core.errors import ConfigError, RotaError
from rota.experiments.execution import OK
from rota.report.logs import TimeWindow, read_log
from rota.report.points import SEED, Points
from rota.report.reading import Sources
from rota.report.recipes import recipe
from rota.report.records import Record

AUTO = "auto"
NONE = "none"
ENOUGH_S = 5.0
"""CPU seconds that may be spent without being asked to, as the store remembers them."""


def chosen(records: Sequence[Record], where: Points, wanted: str) -> list[int]:
    """Which runs to make again: none, one by its key, or one per line at one setting if cheap."""
    if wanted == NONE:
        return []
    if wanted != AUTO:
        matching = [i for i, r in enumerate(records) if r.run.key.startswith(wanted)]
        if len(matching) != 1:
            many = "several runs have" if matching else "no run of the report has"
            fix = "see `rota results show STORE`"
            raise ConfigError(f"--gantt {wanted}: {many} a key that begins with this; {fix}")
        return matching
    if any(r.schedule is not None for r in records):
        return []
    best: list[int] = []
    for setting in range(len(where.settings)):
        first: dict[int, int] = {}
        for i, r in enumerate(records):
            if where.setting[i] == setting and r.run.status == OK:
                known = first.get(where.line[i])
                if known is None or _seed(where, i) < _seed(where, known):
                    first[where.line[i]] = i
        cost = [records[i].run.cpu_s for i in first.values()]
        cpu_s = [seconds for seconds in cost if seconds is not None]
        is_cheap = len(cpu_s) == len(cost) and sum(cpu_s) <= ENOUGH_S
        if is_cheap and len(first) >= max(1, len(best)):
            best = list(first.values())
    return best


def _seed(where: Points, i: int) -> float:
    value = where.axes[i].get(SEED)
    return float(value) if isinstance(value, int | float) else math.inf


def run_again(sources: Sources, which: Sequence[int], window: TimeWindow | None) -> None:
    """Make these runs again and keep their placements; what differs from the store is noted."""
    with tempfile.TemporaryDirectory() as scratch:
        for i in which:
            record = sources.records[i]
            how = recipe(record.run.config)
            if not how.keywords:
                why = how.note or "it needs a file"
                sources.notes.append(f"run {record.run.key[:8]} has no Gantt chart: {why}")
                continue
            log = Path(scratch) / f"{i}.jsonl"
            try:
                made = api.simulate(**how.keywords, events=log)
            except Exception as error:
                said = own_code.blame(error) or (str(error) if isinstance(error, RotaError | OSError) else None)
                if said is None:
                    raise
                sources.notes.append(f"run {record.run.key[:8]} could not be made again for its Gantt chart: {said}")
                continue
            if made.interrupted:  # Ctrl-C ends the report, not only this run
                raise KeyboardInterrupt
            content = read_log(log, window)
            log.unlink()
            before = record.run.metrics.get("mean_jct_s")
            now = content.summary["mean_jct_s"]
            if before is not None and now is not None and abs(before - now) > 1e-6 * abs(before):
                sources.notes.append(
                    f"run {record.run.key[:8]} was made again for its Gantt chart and gave "
                    f"another mean ({now:,.1f} s instead of {before:,.1f} s): the code has "
                    "changed since"
                )
            sources.records[i] = replace(
                record, every_job=content.jobs, series=content.series, schedule=content.schedule, again=True
            )
