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
from rota.core import own_code
from rota.core.errors import RotaError
from rota.experiments.blobs import pack
from rota.experiments.tasks import OWN_CODE, version

OK = "ok"
FAILED = "failed"
TIMEOUT = "timeout"
UNSTABLE = "unstable"
_OF_THE_PROCESS = ("cpu_s", "wall_s", "peak_rss_mb")
"""The first two are kept beside the metrics; the last one is that of all runs of a worker so
far."""
STATUSES = (OK, FAILED, TIMEOUT, UNSTABLE)
UNTIL_STOPPED = "until_stopped"
_OF_AN_UNSTABLE_RUN = frozenset(
    {
        "utilization", "cpu_utilization", "memory_utilization", "jobs_submitted", "jobs_finished", "jobs_measured",
        "jobs_dropped", "jobs_rejected", "rounds", "solves", "solve_failures", "notes", "overload",
    }
)  # fmt: skip
"""What can be said of a run however long it went on."""


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
    own_code: dict[str, str | None] = field(default_factory=dict)
    """Digests of code that does not come with Rota, as it was when the run was made."""


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
        code = {key: result.config[key] for key in OWN_CODE if key in result.config}
        metrics = _metrics(result, code)
        if result.stopped is not None:
            metrics["overload"] = guard.numbers()
            return outcome(UNSTABLE, metrics=without_means(metrics), error=result.stopped, own_code=code)
        jobs = pack(result.jobs, _counted(parameters.get("measure"), metrics))
        return outcome(OK, metrics=metrics, jobs=jobs, own_code=code)
    except RotaError as error:
        return outcome(FAILED, error=f"{type(error).__name__}: {error}")
    except (Exception, SystemExit) as error:  # noqa: BLE001 - whatever it is, the other runs go on
        where = "".join(traceback.format_exception(error)[-6:])
        return outcome(FAILED, error=own_code.blame(error) or f"{type(error).__name__}: {error}\n{where}")


def _metrics(result: api.Result, code: Mapping[str, str | None]) -> dict[str, Any]:
    metrics = {key: value for key, value in result.summary.items() if key not in _OF_THE_PROCESS}
    notes = [*result.notes, *(_not_kept(key) for key, digest in code.items() if digest is None)]
    return {**metrics, "notes": notes} if notes else metrics


def without_means(metrics: Mapping[str, Any]) -> dict[str, Any]:
    """The metrics of an unstable run: what depends on when it was stopped is moved to `until_stopped`.

    Its queue grows as long as it goes on, so a mean of what had finished by then is the mean of nothing.
    """
    if UNTIL_STOPPED in metrics:
        return dict(metrics)
    kept = {key: value for key, value in metrics.items() if key in _OF_AN_UNSTABLE_RUN}
    return {**kept, UNTIL_STOPPED: {key: value for key, value in metrics.items() if key not in kept}}


def _not_kept(key: str) -> str:
    part = key.removesuffix("_sha256")
    return f"the text of the {part} cannot be read, so nobody can tell when it changes: a sweep makes this run anew"


def _counted(measure: Any, metrics: Mapping[str, Any]) -> tuple[int, int] | None:
    """The range of jobs that were measured, chosen by the run itself or beforehand."""
    if metrics.get("measured_from") is not None:
        return metrics["measured_from"], metrics["measured_to"]
    return None if measure is None else (measure[0], measure[1])
