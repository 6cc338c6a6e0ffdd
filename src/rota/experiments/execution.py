"""One run in whatever process: it never raises, the outcome says what happened."""

from __future__ import annotations

import platform
import time
import traceback
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from rota import api
from rota.analysis.overload import Overload
from rota.core.errors import RotaError
from rota.experiments.blobs import pack
from rota.experiments.tasks import version

OK = "ok"
FAILED = "failed"
TIMEOUT = "timeout"
UNSTABLE = "unstable"
_OF_THE_PROCESS = ("cpu_s", "wall_s", "peak_rss_mb")
"""The first two are kept beside the metrics; the last one is that of all runs of a worker so
far."""
STATUSES = (OK, FAILED, TIMEOUT, UNSTABLE)


@dataclass(frozen=True, kw_only=True)
class RunOutcome:
    """How a run ended."""

    status: str
    metrics: dict[str, Any] = field(default_factory=dict)
    error: str | None = None
    jobs: bytes | None = None
    started: float = 0.0
    cpu_s: float = 0.0
    wall_s: float = 0.0
    host: str = field(default_factory=platform.node)
    version: str = field(default_factory=version)


def execute(parameters: Mapping[str, Any], overload: str) -> RunOutcome:
    """Simulate; errors become part of the outcome."""
    started = time.time()
    wall = time.monotonic()
    cpu = time.process_time()

    def outcome(status: str, **more: Any) -> RunOutcome:
        spent = time.process_time() - cpu
        return RunOutcome(
            status=status,
            started=started,
            cpu_s=spent,
            wall_s=time.monotonic() - wall,
            **more,
        )

    guard = Overload(overload)
    try:
        result = api.simulate(**parameters, guard=guard)
        summary = result.summary.items()
        metrics = {key: value for key, value in summary if key not in _OF_THE_PROCESS}
        if result.notes:
            metrics["notes"] = result.notes
        if result.stopped is not None:
            metrics["overload"] = guard.numbers()
            return outcome(UNSTABLE, metrics=metrics, error=result.stopped)
        jobs = pack(result.jobs, _counted(parameters.get("measure"), metrics))
        return outcome(OK, metrics=metrics, jobs=jobs)
    except RotaError as error:
        return outcome(FAILED, error=f"{type(error).__name__}: {error}")
    except Exception as error:  # noqa: BLE001 - whatever it is, the other runs go on
        where = "".join(traceback.format_exception(error)[-6:])
        return outcome(FAILED, error=f"{type(error).__name__}: {error}\n{where}")


def _counted(measure: Any, metrics: Mapping[str, Any]) -> tuple[int, int] | None:
    """The range of jobs that were measured, chosen by the run itself or beforehand."""
    if metrics.get("measured_from") is not None:
        return metrics["measured_from"], metrics["measured_to"]
    return None if measure is None else (measure[0], measure[1])
