"""Rota from Python: `simulate` runs a workload, `replay` reads an event log back.

Everything is named as on the command line; wherever a name is accepted, so is the object itself.
See docs/python-api.md.
"""

from __future__ import annotations

import contextlib
import math
import resource
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from rota import clusters, workloads
from rota.analysis import unmeasured
from rota.analysis.guard import Guard
from rota.analysis.metrics import Metrics
from rota.analysis.output import whole_file
from rota.analysis.waiting import Waiting
from rota.analysis.warmup import AUTO
from rota.assembly import Request, assemble, default_seed, make_throughputs
from rota.core import own_code
from rota.core.allocation import Allocation
from rota.core.cluster import Cluster, cluster_from
from rota.core.errors import ConfigError
from rota.core.events import JobsSubmitted, RunStarted
from rota.core.horizon import UNTIL_JOBS_CHANGE
from rota.core.jobs import Jobs
from rota.core.ports import Policy, Throughputs
from rota.core.rules import Rules, preset
from rota.core.tenant_rules import TenantRules
from rota.core.view import View
from rota.deploy.tenants import Tenants, read_tenants
from rota.engine.log import read_events
from rota.engine.routes import Routes
from rota.engine.state import State
from rota.mechanisms.registry import mechanisms
from rota.policies.registry import policies
from rota.session import Progress, Session, Watch
from rota.sim.world import World

__all__ = ["Progress", "Result", "place_view", "replay", "simulate", "solve_view"]


@dataclass(frozen=True, kw_only=True)
class Result:
    """What a run gave."""

    summary: dict[str, Any]
    jobs: dict[str, NDArray[Any]]
    config: dict[str, Any]
    interrupted: bool = False
    stopped: str | None = None
    """Why the guard ended the run early, e.g. overload."""
    notes: list[str] = field(default_factory=list)


def simulate(
    *,
    trace: str | Path | None = None,
    trace_format: str | None = None,
    trace_settings: Mapping[str, object] | None = None,
    workload: str | None = None,
    settings: Mapping[str, object] | None = None,
    jobs: Jobs | None = None,
    cluster: str | Path | Cluster,
    policy: str | Policy | type[Policy],
    policy_settings: Mapping[str, object] | None = None,
    mechanism: str | None = None,
    mechanism_settings: Mapping[str, object] | None = None,
    profiles: str | Path | Sequence[str | Path] | Throughputs | None = None,
    profile_settings: Mapping[str, object] | None = None,
    round_s: float | None = None,
    rules: str | Rules = "default",
    rule_settings: Mapping[str, object] | None = None,
    seed: int | None = None,
    measure: tuple[int, int] | str | None = None,
    until: float | None = None,
    events: str | Path | BinaryIO | None = None,
    checkpoint: str | Path | None = None,
    checkpoint_every: float | None = None,
    resume: str | Path | None = None,
    progress: Callable[[Progress], None] | None = None,
    guard: Guard | None = None,
    tenants: str | Path | Tenants | None = None,
) -> Result:
    """Run jobs (a trace, a generated workload or a table) on a cluster under a policy.

    `policy` and `mechanism` are names, or `file.py:Class` for a class of your own; a policy may also be
    a class (`policy_settings` are its parameters) or an object.
    `measure` is a half-open range of job ids: only they count, and the run ends when they are done;
    with "auto" the range is found where the run is steady (rota.analysis.warmup). `events` is a
    file for the event log, or a stream of bytes. `checkpoint` is a file that is written every
    `checkpoint_every` simulated seconds and on Ctrl-C; `resume` goes on from one. Rows of `jobs` may
    be in any order: `Result.jobs` has them in the same, though they are served, measured and logged
    by arrival. With `profile_settings` (profiled_fraction, reference_models, seed) policies see
    estimates of how two jobs share GPUs until these have run together (rota.profiles.estimator). A
    `guard` (rota.analysis.overload.Overload) may end the run early; `Result.stopped` then says why.
    `tenants` is the operator's file of tenants (or `rota.deploy.tenants.Tenants`): weights, quotas with borrowing
    and max_running count, the other limits are about requests and mean nothing here.
    Every random choice follows from `seed`; without it, it is the workload's own default, else 0.
    Raises ConfigError (or one of its kinds) for input that cannot be used.
    """
    own_code.refuse_while_loading("rota.simulate")
    if seed is None:
        seed = default_seed(workload)
    request = Request(**{**locals(), "tenants": _tenant_rules(tenants)})
    with ExitStack() as stack:
        if isinstance(events, str | Path):
            request = replace(request, events=stack.enter_context(whole_file(events)))
        session, log = assemble(request)
        if log is not None:
            stack.callback(log.close)
        wall = time.monotonic()
        cpu = session.run(until, checkpoint, checkpoint_every, fresh=resume is None)
        wall = time.monotonic() - wall
    result = _result(session, cpu, wall)
    return result if jobs is None else replace(result, jobs=_by_row(result.jobs, jobs))


def _tenant_rules(given: str | Path | Tenants | None) -> TenantRules | None:
    """What a simulation knows of tenants. Raises ConfigError with the file and the value."""
    if given is None or isinstance(given, Tenants):
        return None if given is None else given.rules("tenants")
    return read_tenants(given).rules(str(given))


def _by_row(columns: dict[str, NDArray[Any]], jobs: Jobs) -> dict[str, NDArray[Any]]:
    """Results in the order of the table that was handed in; its job k is number k, whenever it arrived.

    Of a run that ended early, jobs that had not arrived are left out, or were kept back.
    """
    order = np.argsort(jobs.submitted, kind="stable")[columns["job_id"]]
    if np.array_equal(order, np.arange(len(order))):
        return columns
    back = np.argsort(order)
    sorted_back = {name: column[back] for name, column in columns.items() if name != "name" or jobs.names is not None}
    return {**sorted_back, "job_id": order[back]}


def replay(path: str | Path) -> Result:
    """The metrics of a run, computed again from its event log."""
    events = read_events(path)
    first = next(events)
    if not isinstance(first, RunStarted):
        raise ConfigError(f"{path}: the log does not begin with RunStarted")
    config = dict(first.config)
    try:
        cluster = cluster_from(config["cluster"])
        measure = measured_jobs(config)
    except (KeyError, TypeError) as error:
        raise ConfigError(f"{path}:1: the log does not say on which cluster the run was made") from error
    except ValueError as error:
        raise ConfigError(f"{path}:1: {error}") from error
    waiting = _waiting_under(config.get("mechanism"), cluster)
    speeds, notes = speeds_of(config)
    metrics = Metrics(cluster, measure, speeds, endless=bool(config.get("endless")))
    watch = Watch(metrics.measure, waiting=waiting)
    routes = Routes([metrics, *watch.observers()])
    now = 0.0
    for event in events:
        routes.emit(event)
        now = event.at
    notes = watch.remarks() + _about_the_window(metrics) + _about_speeds(metrics) + notes
    return Result(summary=metrics.summary(now), jobs=metrics.jobs(), config=config, notes=notes)


def _waiting_under(mechanism: object, cluster: Cluster) -> Waiting | None:
    """Who counts jobs that wait beside idle GPUs, if the mechanism of a log lets that happen."""
    if not isinstance(mechanism, str) or mechanism not in mechanisms.names():  # own code may have changed, or be gone
        return None
    return Waiting(mechanism, cluster.gpus) if mechanisms.create(mechanism).abilities.walks else None


def measured_jobs(config: Mapping[str, Any]) -> tuple[int, int] | str | None:
    """Which jobs of a logged run count: a range of ids, "auto", or None for all. Raises ValueError."""
    asked = config.get("measure")
    if asked is None or asked == AUTO:
        return asked
    if isinstance(asked, list | tuple) and len(asked) == 2 and all(type(end) is int for end in asked):
        return (asked[0], asked[1])
    raise ValueError(f"measure is neither a range of ids nor {AUTO!r}")


def speeds_of(config: Mapping[str, Any]) -> tuple[Throughputs | None, list[str]]:
    """The catalogue of a log, for finish-time fairness; a remark where it is not here."""
    name = config.get("profiles")
    try:
        return make_throughputs(str(name)), []
    except (ConfigError, ValueError):  # a path that cannot be one is a ValueError
        return None, [
            f"there is no finish-time fairness: it needs the catalogue of the run, {name!r}, which is not here"
        ]


def _about_the_window(metrics: Metrics) -> list[str]:
    window = metrics.window()
    return [] if window is None else [window.why]


def _about_speeds(metrics: Metrics) -> list[str]:
    """Speeds that were not measured, and prices that nobody knows."""
    said = unmeasured.remarks(metrics.table, metrics.cluster, metrics.speeds)
    return said + metrics.ledger.remarks()


def solve_view(
    policy: str,
    jobs: int,
    *,
    multi_gpu: bool = False,
    seed: int = 0,
) -> tuple[Policy, View]:
    """A policy and a view of active jobs on three quarters as many GPUs, for measuring one solve."""
    per_type = max(8, jobs // 4)
    cluster = clusters.load(f"v100={per_type},p100={per_type},k80={per_type}")
    state = State(cluster, make_throughputs("gavel"), Rules())
    source = workloads.workload("gavel-static", jobs=jobs, multi_gpu=multi_gpu, seed=seed)
    for event in World(source, state.rules).advance(UNTIL_JOBS_CHANGE, math.inf):
        state.apply(event)
    return policies.create(policy), state.view(0.0)


def place_view(
    jobs: int,
    *,
    cluster: str = "philly-512",
    multi_gpu: bool = False,
    seed: int = 42,
    rules: str = "default",
) -> tuple[View, Allocation]:
    """Jobs of Synergy's mix in their order of arrival, for measuring one round of a mechanism."""
    how = preset(rules)
    state = State(clusters.load(cluster), make_throughputs("synergy"), how, by_need=True)
    source = workloads.workload(
        "philly-derived",
        static=True,
        jobs=jobs,
        multi_gpu=multi_gpu,
        seed=seed,
    )
    state.apply(JobsSubmitted(at=1.0, first_id=0, jobs=workloads.materialise(source)))
    view = state.view(1.0)
    return view, policies.create("fifo").allocate(view)


def _result(session: Session, cpu: float, wall: float) -> Result:
    watch = session.watch
    world = session.world
    summary = session.metrics.summary(world.now())
    summary["cpu_s"] = cpu
    summary["wall_s"] = wall
    summary["peak_rss_mb"] = _peak_rss_mb()
    notes = watch.remarks() + session.remarks() + _about_the_window(session.metrics) + _about_speeds(session.metrics)
    if session.metrics.auto and watch.stopped() is not None:
        notes.append(f"the run was ended: {watch.stopped()}")
    is_over = world.exhausted and len(session.engine.state) == 0
    if watch.target is not None and not watch.satisfied() and is_over:
        missing = watch.target - watch.done
        why = "the workload is shorter than --measure asks"
        notes.append(f"{missing} of the measured jobs never arrived: {why}")
    return Result(
        summary=summary,
        jobs=session.metrics.jobs(),
        config=session.config,
        interrupted=watch.stop_asked,
        stopped=watch.stopped(),
        notes=notes,
    )


def _peak_rss_mb() -> float:
    """The most memory this process held.

    What `getrusage` says also counts the process that started it, if larger.
    """
    with contextlib.suppress(OSError, ValueError, IndexError):
        status = Path("/proc/self/status").read_text(encoding="ascii", errors="replace")
        return int(status.split("VmHWM:")[1].split()[0]) / 1024
    unit = 1024 if sys.platform != "darwin" else 1024 * 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / unit
