"""From event logs, job tables and measurements to what figures show.

See plotting.py for the others.
"""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from rota import api
from rota.analysis.figures.curves import PlotLine, Point
from rota.analysis.jobs_csv import read_jobs_csv
from rota.analysis.stranded import Stranded, Stranding
from rota.analysis.tenancy import Shares, Tenancy
from rota.core.arrays import FloatArray
from rota.core.errors import ConfigError
from rota.experiments.plotting import add_named, log_of, named, whole_log
from rota.opt.entities import parse

REPEATS = 3


def stranded(sources: Sequence[str], bins: int = 100) -> dict[str, Stranded]:
    """CPUs and memory idle beside busy GPUs, by log; logs as FILE or NAME=FILE."""
    stranded_by_name: dict[str, Stranded] = {}
    for name, path in map(named, sources):
        cluster, events = log_of(path)
        watch = Stranding(cluster)
        for event in events:
            watch.observe(event)
        add_named(stranded_by_name, name, watch.over_time(bins))
    return stranded_by_name


def fairness_over_time(log: str, bins: int = 60) -> Shares:
    """What tenants held and were entitled to.

    Weights are those of the policy's entities, if it has any.
    """
    _, events, config = whole_log(log)
    entities = parse((config.get("policy_settings") or {}).get("entities"))
    watch = Tenancy({name: entity.weight for name, entity in (entities or {}).items()})
    for event in events:
        watch.observe(event)
    return watch.over_time(bins)


def ratios(reference: str, sources: Sequence[str]) -> dict[str, FloatArray]:
    """Completion times of job tables over those of a reference, job by job.

    Jobs that both measured and finished.
    """
    base_name, base_path = named(reference)
    base = read_jobs_csv(base_path)
    ratio_by_name: dict[str, FloatArray] = {}
    for name, path in map(named, sources):
        other = read_jobs_csv(path)
        _, mine, its = np.intersect1d(base["job_id"], other["job_id"], return_indices=True)
        if "gpus" in base and "gpus" in other and (base["gpus"][mine] != other["gpus"][its]).any():
            job = base["job_id"][mine][np.argmax(base["gpus"][mine] != other["gpus"][its])]
            raise ConfigError(f"{path}: job {job} asks for another number of GPUs than in {base_path}; other jobs?")
        own = base["jct_s"][mine]
        counts = _measured(base)[mine] & _measured(other)[its]
        kept = counts & (own > 0)
        if not kept.any():
            problem = f"{path}: no job was measured and finished both here and in {base_path}"
            raise ConfigError(problem)
        add_named(
            ratio_by_name, name if name != base_name else path, (other["jct_s"][its] / np.where(kept, own, 1.0))[kept]
        )
    return ratio_by_name


def _measured(jobs: dict[str, Any]) -> Any:
    done = np.isfinite(jobs["jct_s"])
    return done & (jobs["measured"] == 1) if "measured" in jobs else done


@dataclass(frozen=True, slots=True, kw_only=True)
class SolveTimes:
    """CPU seconds of some solves of a policy with a number of active jobs."""

    policy: str
    jobs: int
    cpu_s: tuple[float, ...]


def solve_times(files: Sequence[str]) -> list[PlotLine]:
    """Lines of what `rota bench solve --json` printed, a JSON object or several, one per line."""
    rows: list[SolveTimes] = []
    for path in files:
        try:
            text = Path(path).read_text(encoding="utf-8")
            lines = [line for line in text.splitlines() if line.strip()]
        except (OSError, UnicodeDecodeError) as error:
            fix = "give what `rota bench solve --json` printed"
            raise ConfigError(f"cannot read {path}: {error}; {fix}") from error
        rows += [_row(line, f"{path}:{number}") for number, line in enumerate(lines, start=1)]
    return _lines(rows)


def _row(line: str, where: str) -> SolveTimes:
    try:
        row = json.loads(line)
        times = tuple(float(t) for t in row["all_cpu_s"])
        return SolveTimes(policy=str(row["policy"]), jobs=int(row["jobs"]), cpu_s=times)
    except (ValueError, KeyError, TypeError) as error:
        fix = "give its output"
        what = f"{where}: not a line of `rota bench solve --json` ({type(error).__name__}: {error})"
        raise ConfigError(f"{what}; {fix}") from error


def measured_solve_times(
    policies: Sequence[str],
    jobs: Sequence[int],
    *,
    multi_gpu: bool = False,
) -> list[PlotLine]:
    """The same, measured now: the best of three solves for each policy and number of jobs."""
    rows = []
    for policy in policies:
        for count in jobs:
            chosen, view = api.solve_view(policy, count, multi_gpu=multi_gpu)
            times = []
            for _ in range(REPEATS):
                start = time.process_time()
                chosen.allocate(view)
                times.append(time.process_time() - start)
            rows.append(SolveTimes(policy=policy, jobs=count, cpu_s=tuple(times)))
    return _lines(rows)


def _lines(rows: Sequence[SolveTimes]) -> list[PlotLine]:
    times_by_policy: dict[str, dict[float, list[float]]] = {}
    for row in rows:
        times_by_jobs = times_by_policy.setdefault(row.policy, {})
        times_by_jobs.setdefault(float(row.jobs), []).extend(row.cpu_s)
    return [
        PlotLine(name=name, points=tuple(_point(x, times) for x, times in sorted(by_jobs.items())))
        for name, by_jobs in times_by_policy.items()
    ]


def _point(x: float, times: Sequence[float]) -> Point:
    """The best of all: others on the machine can only make a solve slower."""
    return Point(x=x, mean=min(times), low=None, high=None, runs=len(times), unstable=0)
