"""A trace against a live cluster: each job submitted at its arrival, and the completion times in the end."""

from __future__ import annotations

import math
import shlex
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rota.core.errors import ConfigError
from rota.core.gpu_types import NOT, TypeSet
from rota.core.job_spec import JobSpec
from rota.core.jobs import Jobs
from rota.core.lifecycle import JobPhase
from rota.core.needs import LabelSet
from rota.deploy.control import Client
from rota.deploy.trace_arrays import order_of, time_limit_of
from rota.rpc import rota_pb2 as pb

_TOGETHER_S = 0.05
"""Jobs that arrive within this time, wall seconds, are submitted together."""
_MOST = 500
NOBODY = "default"
"""The tenant of jobs whose trace does not say one."""
PLACES = ("name", "profile", "steps", "gpus", "job")


@dataclass(kw_only=True)
class TraceRun:
    """What was submitted so far."""

    jobs: Jobs
    numbers: list[int] = field(default_factory=list)
    """Of the scheduler, in the order of the trace."""
    key: str = field(default_factory=lambda: uuid.uuid4().hex)


def specs_of(jobs: Jobs, command: str | None, name: str, tenant: str | None = None) -> list[JobSpec]:
    """The jobs of a trace as `Client.submit` takes them: emulated, or by a command with places like {profile}.

    Each is for its tenant of the trace, or all for `tenant`. A trace without tenants leaves that to the token.
    """
    _check_steps(jobs)
    named = bool(tenants_of(jobs))
    labels = [()] * len(jobs) if jobs.labels is None else jobs.labels.all_sets()
    asked = list(zip(jobs.allowed_types(), labels, strict=True))
    return [_spec_of(jobs, row, command, name, tenant, asked[row], named=named) for row in range(len(jobs))]


def _check_steps(jobs: Jobs) -> None:
    """Only the scheduler knows how fast its jobs are, so durations cannot be made steps here. Raises ConfigError."""
    unknown = np.flatnonzero(np.isnan(jobs.total_steps)).tolist()
    if unknown:
        raise ConfigError(
            f"job {unknown[0]} of the trace (and {len(unknown) - 1} more) has a duration and no number of steps; "
            "`rota trace convert TRACE NEW.csv --profiles NAME` writes the steps, with the catalogue of the scheduler"
        )


def _spec_of(
    jobs: Jobs,
    row: int,
    command: str | None,
    name: str,
    tenant: str | None,
    asked_of_servers: tuple[TypeSet, LabelSet],
    *,
    named: bool,
) -> JobSpec:
    label = f"{name}-{row}"
    profile = jobs.profiles[int(jobs.profile[row])]
    gpus = int(jobs.gpus[row])
    steps = max(1, math.ceil(float(jobs.total_steps[row])))
    places = {"name": label, "profile": profile, "steps": steps, "gpus": gpus, "job": row}
    deadline_s = float(jobs.deadline[row] - jobs.submitted[row])
    requests = jobs.requests
    allowed, labels = asked_of_servers
    return JobSpec(
        name=label,
        profile=profile,
        gpus=gpus,
        steps=steps,
        weight=float(jobs.weight[row]),
        deadline_s=deadline_s if 0 < deadline_s < math.inf else 0.0,
        tenant=tenant or (jobs.tenants[int(jobs.tenant[row])] if named else ""),
        cpus=0.0 if requests is None else _asked(requests.cpus[row]),
        memory_gb=0.0 if requests is None else _asked(requests.memory_gb[row]),
        time_limit_s=time_limit_of(jobs, row),
        types=tuple(name for name in allowed if not name.startswith(NOT)),
        exclude_types=tuple(name.removeprefix(NOT) for name in allowed if name.startswith(NOT)),
        labels=labels,
        priority=0 if jobs.priority is None else int(jobs.priority[row]),
        emulated=command is None,
        argv=() if command is None else tuple(_filled(command, places)),
    )


def _asked(amount: float) -> float:
    """An amount of a trace; 0 if it says none, which may be written as nan."""
    return float(amount) if 0 < amount < math.inf else 0.0


def tenants_of(jobs: Jobs) -> list[str]:
    """The tenants that the jobs name; none if they name no other than the one that stands for nobody."""
    named = sorted({jobs.tenants[i] for i in np.unique(jobs.tenant).tolist()})
    return [] if named == [NOBODY] else named


def check_tenants(wanted: Sequence[str], status: pb.StatusReply) -> None:
    """Raise ConfigError if the caller may not submit for all these tenants: before the first job, not in the middle."""
    others = [name for name in wanted if name != status.tenant]
    if status.admin or not status.tenant or not others:
        return
    shown = ", ".join(repr(name) for name in others[:5]) + (f" and {len(others) - 5} more" if len(others) > 5 else "")
    raise ConfigError(
        f"the jobs are for tenants that this token does not speak for: {shown}. It submits for {status.tenant!r} only; "
        f"use an administrator's token, or --tenant {status.tenant} to submit all jobs as your own"
    )


def elastic(jobs: Jobs) -> int:
    """How many jobs could run with other numbers of GPUs than they ask for, which a deployment does not do."""
    if jobs.requests is None:
        return 0
    fewer, more = jobs.requests.min_gpus < jobs.gpus, jobs.requests.max_gpus > jobs.gpus
    return int(np.count_nonzero(fewer | more))


def _filled(command: str, values: Mapping[str, Any]) -> list[str]:
    try:
        return [word.format(**{name: values[name] for name in PLACES}) for word in shlex.split(command)]
    except (KeyError, IndexError, ValueError) as error:
        known = ", ".join(f"{{{name}}}" for name in PLACES)
        raise ConfigError(f"--command {command!r} cannot be filled in ({error}); places are {known}") from error


def submit_all(
    client: Client, run: TraceRun, specs: Sequence[JobSpec], scale: float, tell: Callable[[int], None]
) -> None:
    """Submit each job when its time has come. `run.numbers` grows, so an interrupted run knows what it did."""
    arrivals = (run.jobs.submitted - run.jobs.submitted.min()) / scale
    order = order_of(run.jobs)
    began = time.monotonic()
    while len(run.numbers) < len(specs):
        first = len(run.numbers)
        wait = float(arrivals[first]) - (time.monotonic() - began)
        if wait > 0:
            time.sleep(min(wait, 0.5))
            tell(first)
            continue
        due = time.monotonic() - began + _TOGETHER_S
        last = order.end(first)
        while last < len(specs) and last - first < _MOST and arrivals[last] <= due:
            last = order.end(last)
        run.numbers += client.submit(order.entries(specs, first, last, run.numbers), f"{run.key}-{first}")
        tell(last)


def outcome(run: TraceRun, infos: Sequence[pb.JobInfo]) -> dict[str, NDArray[Any]]:
    """The columns of `--jobs-csv`. Arrivals are those of the trace, so that runs of it can be compared."""
    jobs = run.jobs.rows(0, len(infos))
    done = np.array([info.phase == JobPhase.FINISHED.value for info in infos], dtype=np.bool_)
    jct = np.array(
        [info.ended_s - info.submitted_s if info.phase == JobPhase.FINISHED.value else np.nan for info in infos]
    )
    return {
        "job_id": np.arange(len(infos), dtype=np.int64),
        "arrival_s": jobs.submitted.astype(np.float64),
        "finish_s": jobs.submitted + jct,
        "jct_s": jct,
        "profile": np.array([jobs.profiles[i] for i in jobs.profile.tolist()], dtype=object),
        "gpus": jobs.gpus,
        "weight": jobs.weight,
        "tenant": np.array([info.spec.tenant for info in infos], dtype=object),
        "steps": np.ceil(jobs.total_steps),
        "deadline_s": jobs.deadline,
        "status": np.array([info.phase for info in infos], dtype=object),
        "measured": done.astype(np.int64),
    }


def summary(columns: Mapping[str, NDArray[Any]]) -> dict[str, Any]:
    """Completion times of the jobs that finished, engine seconds."""
    jct = columns["jct_s"][np.isfinite(columns["jct_s"])]
    status = columns["status"].tolist()
    return {
        "jobs_submitted": len(status),
        "jobs_finished": len(jct),
        "jobs_failed": status.count(JobPhase.FAILED.value),
        "jobs_cancelled": status.count(JobPhase.CANCELLED.value),
        "mean_jct_s": float(jct.mean()) if len(jct) else None,
        "p50_jct_s": float(np.percentile(jct, 50)) if len(jct) else None,
        "p99_jct_s": float(np.percentile(jct, 99)) if len(jct) else None,
    }
