"""Rota from Python: `simulate` runs a workload, `replay` reads a log back.

    import rota

    result = rota.simulate(workload="gavel-static", settings={"jobs": 20}, cluster="v100=4,k80=4", policy="fifo-perf")
    result.summary["mean_jct_s"]

Everything is named as on the command line; wherever a name is accepted, so is the object itself.
"""

from __future__ import annotations

import dataclasses
import math
import resource
import signal
import sys
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rota import clusters, profiles, workloads
from rota._version import __version__
from rota.analysis.metrics import Metrics
from rota.core.cluster import Cluster, Resources, Server
from rota.core.cluster import AcceleratorType
from rota.core.errors import ConfigError, UnknownName
from rota.core.events import Event, JobsDropped, JobsFinished, JobsRejected, RunStarted
from rota.core.jobs import Jobs, Source, TableSource
from rota.core.ports import Policy, Throughputs
from rota.core.registry import convert
from rota.core.rules import Rules, preset
from rota.core.view import View
from rota.engine import checkpoint as checkpoints
from rota.engine.log import EventLog, read_events
from rota.engine.loop import Engine
from rota.engine.state import State
from rota.mechanisms.registry import build
from rota.policies.registry import policies
from rota.profiles.estimator import estimated
from rota.sim.world import World

_REPORT_EVERY_S = 0.1
_POLL_EVERY = 32


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a run is."""

    now: float
    finished: int
    target: int | None
    active: int
    rounds: int


@dataclass(frozen=True, kw_only=True)
class Result:
    """What a run gave."""

    summary: dict[str, Any]
    jobs: dict[str, NDArray[Any]]
    config: dict[str, Any]
    interrupted: bool = False
    notes: list[str] = field(default_factory=list)


@dataclass(frozen=True, kw_only=True)
class _Run:
    """One simulation, ready to go."""

    engine: Engine
    world: World
    source: Source
    metrics: Metrics
    watch: _Watch


def simulate(
    *,
    trace: str | Path | None = None,
    trace_format: str | None = None,
    workload: str | None = None,
    settings: Mapping[str, object] | None = None,
    jobs: Jobs | None = None,
    cluster: str | Path | Cluster,
    policy: str | Policy,
    policy_settings: Mapping[str, object] | None = None,
    mechanism: str | None = None,
    mechanism_settings: Mapping[str, object] | None = None,
    profiles: str | Path | Throughputs = "gavel",
    profile_settings: Mapping[str, object] | None = None,
    round_s: float | None = None,
    rules: str | Rules = "default",
    rule_settings: Mapping[str, object] | None = None,
    seed: int = 0,
    measure: tuple[int, int] | None = None,
    until: float | None = None,
    events: str | Path | None = None,
    checkpoint: str | Path | None = None,
    checkpoint_every: float | None = None,
    resume: str | Path | None = None,
    progress: Callable[[Progress], None] | None = None,
) -> Result:
    """Run jobs (a trace, a generated workload or a table) on a cluster under a policy.

    `measure` is a half-open range of job ids: only they count, and the run ends when they are done. `checkpoint` is a
    file that is written every `checkpoint_every` simulated seconds and on Ctrl-C; `resume` goes on from one.
    With `profile_settings` (profiled_fraction, reference_models, seed) policies see estimates of how two jobs share
    GPUs until these have run together (rota.profiles.estimator).
    Raises ConfigError (or one of its kinds) for input that cannot be used.
    """
    if resume is not None and events is not None:
        raise ConfigError("an event log cannot begin in the middle: give either events or resume, not both")
    speeds = estimated(_throughputs(profiles), profile_settings or {}, seed)
    machines = cluster if isinstance(cluster, Cluster) else clusters.load(cluster)
    how = _rules(rules, round_s, rule_settings)
    source = _source(trace, trace_format, workload, settings, jobs, machines, speeds, seed)
    if getattr(source, "endless", False) and measure is None and until is None:
        raise ConfigError(f"workload {workload!r} never ends: give measure (A:B), until, or its setting jobs=N")
    _check_measure(measure)
    chosen = _policy(policy, policy_settings, seed)
    placing = mechanism or how.mechanism
    config = _config(
        {
            "trace": str(trace) if trace is not None else None,
            "workload": workload,
            "settings": settings,
            "policy": policy if isinstance(policy, str) else type(policy).__name__,
            "policy_settings": policy_settings,
            "mechanism": placing,
            "mechanism_settings": mechanism_settings,
            "profiles": speeds.name,
            "profile_settings": profile_settings,
            "seed": seed,
            "measure": list(measure) if measure is not None else None,
            "until": until,
        },
        machines,
        how,
    )
    state = State(machines, speeds, how)
    metrics = Metrics(machines, measure)
    watch = _Watch(measure, until, progress)
    observers: list[Callable[[Event], None]] = [metrics.observe, watch.observe]
    log = EventLog(events, compressed=str(events).endswith(".gz")) if events is not None else None
    if log is not None:
        observers.append(log.observe)
    world = World(source, state.classes, how)
    placer = build(placing, how, seed, dict(mechanism_settings or {}))
    engine = Engine(state=state, policy=chosen, mechanism=placer, world=world, observers=observers)
    run = _Run(engine=engine, world=world, source=source, metrics=metrics, watch=watch)
    if resume is not None:
        run = _resumed(run, checkpoints.load(resume, config), speeds, observers)
    try:
        timing = _go(run, config, until, checkpoint, checkpoint_every, fresh=resume is None)
    finally:
        if log is not None:
            log.close()
    return _result(run, config, timing)


def replay(path: str | Path) -> Result:
    """The metrics of a run, computed again from its event log."""
    metrics: Metrics | None = None
    watch = _Watch(None, None, None)
    config: dict[str, Any] = {}
    now = 0.0
    for event in read_events(path):
        if isinstance(event, RunStarted):
            config = dict(event.config)
            measure = config.get("measure")
            metrics = Metrics(_cluster_from(config["cluster"]), tuple(measure) if measure else None)
            watch = _Watch(tuple(measure) if measure else None, None, None)
        if metrics is None:
            raise ConfigError(f"{path}: the log does not begin with RunStarted")
        metrics.observe(event)
        watch.observe(event)
        now = event.at
    if metrics is None:
        raise ConfigError(f"{path}: the log is empty; give a file written with --events")
    return Result(summary=metrics.summary(now), jobs=metrics.jobs(), config=config, notes=watch.remarks())


def solve_view(policy: str, jobs: int, *, multi_gpu: bool = False, seed: int = 0) -> tuple[Policy, View]:
    """A policy and a view of that many active jobs on a third as many GPUs, for measuring one solve."""
    speeds = _throughputs("gavel")
    per_type = max(1, jobs // 4)
    machines = clusters.load(f"v100={per_type},p100={per_type},k80={per_type}")
    settings = {"jobs": jobs, "multi_gpu": multi_gpu, "seed": seed}
    source = workloads.workload("gavel-static", **settings)
    world = World(source, State(machines, speeds, Rules()).classes, Rules())
    state = State(machines, speeds, Rules())
    for event in world.advance(math.inf):
        state.apply(event)
    return policies.create(policy), state.view(0.0)


class _Watch:
    """Counts measured jobs, reports progress, remembers remarks and notices Ctrl-C."""

    def __init__(
        self, measure: tuple[int, int] | None, until: float | None, progress: Callable[[Progress], None] | None
    ) -> None:
        self.measure = measure
        self.until = until
        self.stop_asked = False
        self.finished = 0
        self.left = measure[1] - measure[0] if measure is not None else None
        self.notes: dict[str, list[int]] = {}
        self._progress = progress
        self._polls = 0
        self._next_report = 0.0

    def observe(self, event: Event) -> None:
        """Count jobs that are done, in whatever way."""
        if isinstance(event, JobsFinished | JobsDropped | JobsRejected):
            if isinstance(event, JobsFinished):
                self.finished += len(event.jobs)
            else:
                self.notes.setdefault(event.reason, []).extend(event.jobs.tolist())
            if self.measure is not None and self.left is not None:
                first, last = self.measure
                self.left -= int(np.count_nonzero((event.jobs >= first) & (event.jobs < last)))

    def done(self, run: _Run) -> bool:
        """Whether the run can stop."""
        self._polls += 1
        if self._progress is not None and self._polls % _POLL_EVERY == 0 and time.monotonic() >= self._next_report:
            self._next_report = time.monotonic() + _REPORT_EVERY_S
            target = None if self.measure is None else self.measure[1]
            active, rounds = len(run.engine.state), run.metrics.rounds
            self._progress(Progress(run.world.now(), self.finished, target, active, rounds))
        return self.stop_asked or self.left == 0

    def remarks(self) -> list[str]:
        """What a user should know about jobs that did not run to the end."""
        said = []
        for reason, jobs in self.notes.items():
            names = ", ".join(str(j) for j in jobs[:5]) + (", ..." if len(jobs) > 5 else "")
            said.append(f"{len(jobs)} job{'s' if len(jobs) > 1 else ''} did not run to the end ({names}): {reason}")
        return said


def _go(
    run: _Run,
    config: dict[str, Any],
    until: float | None,
    checkpoint: str | Path | None,
    every: float | None,
    *,
    fresh: bool,
) -> tuple[float, float]:
    """Run to the end; CPU and wall seconds."""
    saver = _Saver(run, config, checkpoint, every)

    def finished() -> bool:
        saver.maybe()
        return run.watch.done(run)

    cpu, wall = time.process_time(), time.monotonic()
    with _interruptible(run.watch):
        if fresh:
            run.engine.emit(RunStarted(at=0.0, config=config))
        run.engine.run(finished, math.inf if until is None else until)
        if run.watch.stop_asked:
            saver.save()
    return time.process_time() - cpu, time.monotonic() - wall


class _Saver:
    """Writes checkpoints when it is time."""

    def __init__(
        self, run: _Run, config: dict[str, Any], path: str | Path | None, every: float | None
    ) -> None:
        self._run, self._config, self._path = run, config, path
        self._every = every
        self._next = run.world.now() + every if every is not None else math.inf

    def maybe(self) -> None:
        """Save if the time has come."""
        if self._path is not None and self._run.world.now() >= self._next:
            self.save()
            self._next = self._run.world.now() + (self._every or math.inf)

    def save(self) -> None:
        """Save now."""
        if self._path is None:
            return
        run = self._run
        parts = {
            "state": run.engine.state,
            "trigger": run.engine.trigger,
            "metrics": run.metrics,
            "world": run.world.snapshot(),
            "source": run.source.snapshot(),
            "watch": (run.watch.left, run.watch.finished, run.watch.notes),
        }
        checkpoints.save(self._path, checkpoints.Checkpoint(config=self._config, parts=parts))


def _resumed(
    run: _Run, saved: checkpoints.Checkpoint, speeds: Throughputs, observers: list[Callable[[Event], None]]
) -> _Run:
    """Put the saved parts in the place of fresh ones."""
    parts = saved.parts
    state: State = parts["state"]
    state.classes.attach(speeds)
    metrics: Metrics = parts["metrics"]
    run.watch.left, run.watch.finished, run.watch.notes = parts["watch"]
    run.source.restore(parts["source"])
    world = World(run.source, state.classes, state.rules)
    world.restore(parts["world"])
    engine = run.engine.continued(state, parts["trigger"], world, [metrics.observe, *observers[1:]])
    return _Run(engine=engine, world=world, source=run.source, metrics=metrics, watch=run.watch)


class _interruptible:  # noqa: N801 - reads like a statement
    """Ctrl-C ends the run after the current round; a second one ends it at once."""

    def __init__(self, watch: _Watch) -> None:
        self._watch = watch
        self._old: Any = None

    def __enter__(self) -> None:
        if threading.current_thread() is threading.main_thread():
            self._old = signal.signal(signal.SIGINT, self._asked)

    def _asked(self, *_: object) -> None:
        if self._watch.stop_asked:
            raise KeyboardInterrupt
        self._watch.stop_asked = True

    def __exit__(self, *_: object) -> None:
        if self._old is not None:
            signal.signal(signal.SIGINT, self._old)


def _result(run: _Run, config: dict[str, Any], timing: tuple[float, float]) -> Result:
    summary = run.metrics.summary(run.world.now())
    unit = 1024 if sys.platform != "darwin" else 1024 * 1024
    summary["cpu_s"], summary["wall_s"] = timing
    summary["peak_rss_mb"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / unit
    notes = run.watch.remarks()
    if run.watch.left and run.world.exhausted and not run.watch.stop_asked and len(run.engine.state) == 0:
        notes.append(f"{run.watch.left} of the measured jobs never arrived: the workload is shorter than --measure asks")
    return Result(
        summary=summary, jobs=run.metrics.jobs(), config=config, interrupted=run.watch.stop_asked, notes=notes
    )


# Building the parts


def _throughputs(given: str | Path | Throughputs) -> Throughputs:
    return profiles.load(given) if isinstance(given, str | Path) else given


def _rules(given: str | Rules, round_s: float | None, settings: Mapping[str, object] | None) -> Rules:
    rules = preset(given) if isinstance(given, str) else given
    fields = {f.name: f for f in dataclasses.fields(Rules)}
    hints = {"str": str, "float": float, "int": int, "bool": bool}
    changes: dict[str, Any] = {}
    for key, value in (settings or {}).items():
        name = key.replace("-", "_")
        if name not in fields or name == "name":
            raise UnknownName("field of the rules:", key, [n for n in fields if n != "name"])
        if name == "type_order":
            changes[name] = tuple(value.split(",")) if isinstance(value, str) else value
        else:
            changes[name] = convert(value, hints[str(fields[name].type)], f"rules: {key}")
    if round_s is not None:
        changes["round_s"] = float(round_s)
    if changes.get("round_s", 1.0) <= 0:
        raise ConfigError(f"a round of {changes['round_s']} s is not possible; give a positive number of seconds")
    return dataclasses.replace(rules, **changes)


def _policy(given: str | Policy, settings: Mapping[str, object] | None, seed: int) -> Policy:
    if not isinstance(given, str):
        return given
    wanted = dict(settings or {})
    if "seed" in policies.entry(given).parameters():
        wanted.setdefault("seed", seed)
    return policies.create(given, **wanted)


def _source(
    trace: str | Path | None,
    trace_format: str | None,
    workload: str | None,
    settings: Mapping[str, object] | None,
    jobs: Jobs | None,
    cluster: Cluster,
    speeds: Throughputs,
    seed: int,
) -> Source:
    if sum(given is not None for given in (trace, workload, jobs)) != 1:
        raise ConfigError("give exactly one of trace, workload and jobs")
    if workload is not None:
        return _generated(workload, dict(settings or {}), cluster, seed)
    table = jobs if jobs is not None else workloads.read_trace(str(trace), trace_format)
    table = workloads.with_durations(table, speeds) if _needs_durations(table) else table
    for profile, gpus in sorted({(p, g) for p, g in zip(table.profile.tolist(), table.gpus.tolist(), strict=True)}):
        for kind in cluster.types:
            speeds.rate(table.profiles[profile], gpus, kind)
    return TableSource(table)


def _needs_durations(table: Jobs) -> bool:
    return bool((np.isnan(table.duration) & ~np.isnan(table.slo)).any() or np.isnan(table.total_steps).any())


def _generated(name: str, settings: dict[str, object], cluster: Cluster, seed: int) -> Source:
    allowed = workloads.workloads.entry(name).parameters()
    settings.setdefault("seed", seed)
    if "capacity" in allowed and "capacity" not in settings:
        settings["capacity"] = dict(zip(cluster.types, cluster.capacity.tolist(), strict=True))
    return workloads.workload(name, **settings)


def _check_measure(measure: tuple[int, int] | None) -> None:
    if measure is not None and not 0 <= measure[0] < measure[1]:
        raise ConfigError(f"measure {measure[0]}:{measure[1]} is empty; give A:B with 0 <= A < B")


def _config(given: dict[str, Any], cluster: Cluster, rules: Rules) -> dict[str, Any]:
    """Everything that decides the run, as plain values."""
    plain = {key: dict(value) if isinstance(value, Mapping) else value for key, value in given.items()}
    how = dataclasses.asdict(rules)
    how["type_order"] = list(how["type_order"])
    return {**plain, "cluster": _cluster_fields(cluster), "rules": how, "version": __version__}


def _cluster_fields(cluster: Cluster) -> dict[str, Any]:
    return {
        "name": cluster.name,
        "servers": [[s.id, s.type, *dataclasses.astuple(s.capacity), s.rack] for s in cluster.servers],
        "accelerators": [list(dataclasses.astuple(a)) for a in cluster.accelerators],
    }


def _cluster_from(fields: Mapping[str, Any]) -> Cluster:
    servers = tuple(
        Server(id=s[0], type=s[1], capacity=Resources(*s[2:-1]), rack=s[-1]) for s in fields["servers"]
    )
    known = tuple(AcceleratorType(name=n, memory_gb=m, hourly_price=p) for n, m, p in fields["accelerators"])
    return Cluster(name=fields["name"], servers=servers, accelerators=known)
