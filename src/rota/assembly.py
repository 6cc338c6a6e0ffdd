"""From names and settings to the parts of a run, and the plain description that goes into results."""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from rota import clusters, profiles, workloads
from rota._version import __version__
from rota.analysis.guard import Guard
from rota.analysis.metrics import Metrics
from rota.analysis.overload import Overload
from rota.analysis.waiting import Waiting
from rota.analysis.warmup import AUTO
from rota.core.cluster import Cluster, cluster_fields
from rota.core.errors import ConfigError, ProfileMissing, UnknownName
from rota.core.jobs import Jobs, Source, TableSource
from rota.core.ports import EveryEvent, Observer, Policy, Throughputs
from rota.core.registry import convert
from rota.core.rules import Rules, preset
from rota.engine import checkpoint as checkpoints
from rota.engine.log import EventLog
from rota.engine.loop import Engine
from rota.engine.sense import Checks
from rota.engine.state import State
from rota.mechanisms.registry import ComposedMechanism, build, mechanisms
from rota.policies.registry import policies
from rota.policies.ties import FewestRoundsFirst
from rota.profiles.estimator import estimated
from rota.session import Progress, Session, Watch
from rota.sim.world import World

Settings = Mapping[str, object]

CATALOGUES = ("gavel", "synergy")
"""Built-in catalogues that are tried in turn when none is named."""


@dataclass(frozen=True, kw_only=True)
class Request:
    """What was asked of `rota.simulate`; the names are those of its parameters."""

    trace: str | Path | None
    trace_format: str | None
    trace_settings: Settings | None
    workload: str | None
    settings: Settings | None
    jobs: Jobs | None
    cluster: str | Path | Cluster
    policy: str | Policy
    policy_settings: Settings | None
    mechanism: str | None
    mechanism_settings: Settings | None
    profiles: str | Path | Throughputs | None
    profile_settings: Settings | None
    round_s: float | None
    rules: str | Rules
    rule_settings: Settings | None
    seed: int
    measure: tuple[int, int] | str | None
    until: float | None
    events: str | Path | None
    checkpoint: str | Path | None
    checkpoint_every: float | None
    resume: str | Path | None
    progress: Callable[[Progress], None] | None
    guard: Guard | None = None


def assemble(request: Request) -> tuple[Session, EventLog | None]:
    """The session of a request, in the middle of its run if it is resumed, and the log that it writes."""
    _check(request)
    table = read_table(request)
    speeds = _asked_throughputs(request, table)
    rules = make_rules(request.rules, request.round_s, request.rule_settings)
    cluster = _asked_cluster(request, rules)
    source = make_source(request, table, cluster, speeds)
    policy = make_policy(request.policy, request.policy_settings, request.seed, rules)
    name = request.mechanism or rules.mechanism
    mechanism = _make_mechanism(request, name, rules)
    state = State(cluster, speeds, rules, by_need=mechanism.by_need)
    metrics = Metrics(cluster, request.measure, speeds, endless=source.endless)
    waiting = Waiting(name, cluster.gpus) if mechanism.may_leave_gpus_idle else None
    watch = _make_watch(request, metrics, waiting, state, endless=source.endless)
    world = World(source, rules)
    log = None if request.events is None else EventLog(request.events)
    observers = _observers(metrics, watch, log)
    checks = needed_checks(request.policy, name)
    engine = Engine(
        state=state,
        policy=policy,
        mechanism=mechanism,
        clock=world,
        executor=world,
        observers=observers,
        checks=checks,
    )
    config = describe(request, name, speeds.name, cluster, rules)
    if metrics.auto:  # only there, so that logs of all other runs stay what they were
        config["endless"] = source.endless
    session = Session(
        engine=engine,
        mechanism=mechanism,
        world=world,
        source=source,
        metrics=metrics,
        watch=watch,
        config=config,
        checks=checks,
    )
    if request.resume is not None:
        session = session.resumed(checkpoints.load(request.resume, config).parts, policy, speeds)
    return session, log


def needed_checks(policy: str | Policy, mechanism: str) -> Checks:
    """Answers of components that do not come with Rota are checked."""
    return Checks(
        policy=not isinstance(policy, str) or not policies.entry(policy).built_in,
        mechanism=not mechanisms.entry(mechanism).built_in,
    )


def _check(request: Request) -> None:
    if request.resume is not None and request.events is not None:
        raise ConfigError("an event log cannot begin in the middle: give either events or resume, not both")
    if sum(given is not None for given in (request.trace, request.workload, request.jobs)) != 1:
        raise ConfigError("give exactly one of trace, workload and jobs")
    measure = request.measure
    if isinstance(measure, str):
        if measure != AUTO:
            raise ConfigError(f"measure {measure!r}: give A:B with 0 <= A < B, or {AUTO!r}")
    elif measure is not None and not 0 <= measure[0] < measure[1]:
        raise ConfigError(f"measure {measure[0]}:{measure[1]} is empty; give A:B with 0 <= A < B")


def _asked_throughputs(request: Request, table: Jobs | None) -> Throughputs:
    """The catalogue that was named, or that of the workload; estimated where that was asked for."""
    known = make_throughputs(default_catalogue(request, table) if request.profiles is None else request.profiles)
    return estimated(known, request.profile_settings or {}, request.seed)


def _asked_cluster(request: Request, rules: Rules) -> Cluster:
    """The cluster with the prices the rules know; raises UnknownName for a type in the rules that it does not have."""
    asked = request.cluster
    cluster = priced(asked if isinstance(asked, Cluster) else clusters.load(asked), rules)
    if "type_order" in (request.rule_settings or {}):
        for gpu_type in rules.type_order:
            if gpu_type not in cluster.types:
                raise UnknownName("type in the rule type_order:", gpu_type, cluster.types)
    return cluster


def _make_watch(request: Request, metrics: Metrics, waiting: Waiting | None, state: State, *, endless: bool) -> Watch:
    """What looks on during a run; a run that chooses its own end must not wait for a steady state that cannot come."""
    guard = Overload() if metrics.auto and request.guard is None else request.guard
    watch = Watch(metrics.measure, request.progress, waiting, guard)
    if guard is not None:
        guard.begin(state.cluster.gpus, endless=endless)
        watch.follow(state)
    return watch


def _make_mechanism(request: Request, name: str, rules: Rules) -> ComposedMechanism:
    """The mechanism of that name; slots are worked out in full if there is a log to write them to."""
    settings = dict(request.mechanism_settings or {})
    return build(name, rules, request.seed, settings, watched=request.events is not None)


def _observers(metrics: Metrics, watch: Watch, log: EventLog | None) -> list[Observer]:
    observers: list[Observer] = [metrics, *watch.observers()]
    if log is not None:
        observers.append(EveryEvent(log.observe))
    return observers


def read_table(request: Request) -> Jobs | None:
    """The jobs of a trace or of the table handed in; None for a generator."""
    if request.workload is not None:
        return None
    if request.jobs is not None:
        return request.jobs
    return workloads.read_trace(str(request.trace), request.trace_format, request.trace_settings)


def default_catalogue(request: Request, table: Jobs | None) -> str:
    """The catalogue to use when none is named: that of the workload, or the first that knows every model."""
    if table is None:
        parameters = workloads.workloads.entry(str(request.workload)).parameters()
        catalogue = (request.settings or {}).get("profiles") or None
        if catalogue is None and "profiles" in parameters:
            catalogue = parameters["profiles"].default
        return CATALOGUES[0] if catalogue is None else str(catalogue)
    used = [table.profiles[p] for p in np.unique(table.profile).tolist()]
    return next((name for name in CATALOGUES if all(map(profiles.load(name).known, used))), CATALOGUES[0])


def make_source(request: Request, table: Jobs | None, cluster: Cluster, speeds: Throughputs) -> Source:
    """Jobs from a generator or a table; one that never ends needs an end from elsewhere."""
    if table is not None:
        return from_table(table, cluster, speeds)
    assert request.workload is not None  # there is always one of the two
    source = generated(request.workload, request.settings, cluster, request.seed)
    if source.endless and request.measure is None and request.until is None:
        raise ConfigError(
            f"workload {request.workload!r} never ends: give measure (A:B or auto), until, or its setting jobs=N"
        )
    return source


def make_throughputs(given: str | Path | Throughputs) -> Throughputs:
    """A catalogue by name or file."""
    return profiles.load(given) if isinstance(given, str | Path) else given


def make_rules(given: str | Rules, round_s: float | None, settings: Settings | None) -> Rules:
    """A preset with single fields changed."""
    rules = preset(given) if isinstance(given, str) else given
    fields = {f.name: f for f in dataclasses.fields(Rules) if f.name != "name"}
    hints = {"str": str, "float": float, "int": int, "bool": bool}
    changes: dict[str, Any] = {} if round_s is None else {"round_s": float(round_s)}
    for key, value in (settings or {}).items():
        name = key.replace("-", "_")
        if name not in fields:
            raise UnknownName("field of the rules:", key, fields)
        if name == "type_order":
            changes[name] = tuple(value.split(",")) if isinstance(value, str) else value
        else:
            changes[name] = convert(value, hints[str(fields[name].type)], f"rules: {key}")
    return dataclasses.replace(rules, **changes)


def make_policy(given: str | Policy, settings: Settings | None, seed: int, rules: Rules) -> Policy:
    """A policy by name; one with a random choice gets the seed of the run, a ranking what the rules sort by.

    Where the rules say so, equals among its shares are told apart by rounds left.
    """
    run = {"seed": seed, "order": rules.rankings}
    policy = policies.create_for_run(given, run, **dict(settings or {})) if isinstance(given, str) else given
    return FewestRoundsFirst(policy, rules.round_s) if rules.fewest_rounds_first else policy


def priced(cluster: Cluster, rules: Rules) -> Cluster:
    """The cluster with the prices the rules know."""
    if rules.catalogue_prices:
        return cluster
    free = tuple(dataclasses.replace(a, hourly_price=1.0) for a in cluster.accelerators)
    return dataclasses.replace(cluster, accelerators=free)


def default_seed(workload: str | None) -> int:
    """The seed of a run that was given none: the workload's own, so that a published stream comes without asking."""
    if workload is None:
        return 0
    own = workloads.workloads.entry(workload).parameters().get("seed")
    return own.default if own is not None and isinstance(own.default, int) else 0


def generated(name: str, settings: Settings | None, cluster: Cluster, seed: int) -> Source:
    """Jobs from a generator; it gets the seed of the run and the GPUs by type if it asks for them."""
    capacity = dict(zip(cluster.types, cluster.capacity.tolist(), strict=True))
    run = {"seed": seed, "capacity": capacity}
    return workloads.workloads.create_for_run(name, run, **dict(settings or {}))


def from_table(table: Jobs, cluster: Cluster, speeds: Throughputs) -> Source:
    """Jobs of a table; raises ProfileMissing now for a profile that nobody knows.

    A known profile that was not measured with the GPUs a job asks for is no reason to stop: that job is refused by
    name when it arrives, and the rest runs.
    """
    if (np.isnan(table.duration) & ~np.isnan(table.slo)).any() or np.isnan(table.total_steps).any():
        table = workloads.with_durations(table, speeds)
    for profile, gpus in sorted(set(zip(table.profile.tolist(), table.gpus.tolist(), strict=True))):
        name = table.profiles[profile]
        measured = contextlib.suppress(ProfileMissing) if speeds.known(name) else contextlib.nullcontext()
        with measured:
            for gpu_type in cluster.types:
                speeds.rate(name, gpus, gpu_type)
    return TableSource(table)


def describe(request: Request, mechanism: str, profiles: str, cluster: Cluster, rules: Rules) -> dict[str, Any]:
    """Everything that decides a run, as plain values."""
    how = dataclasses.asdict(rules)
    how["type_order"] = list(how["type_order"])
    policy = request.policy
    return {
        "trace": None if request.trace is None else str(request.trace),
        # Only where there are any, so that logs of all other runs stay what they were.
        **({"trace_settings": dict(request.trace_settings)} if request.trace_settings else {}),
        "jobs_sha256": fingerprint(request.trace, request.jobs),
        "workload": request.workload,
        "settings": _plain(request.settings),
        "policy": policy if isinstance(policy, str) else type(policy).__name__,
        "policy_settings": _plain(request.policy_settings),
        "mechanism": mechanism,
        "mechanism_settings": _plain(request.mechanism_settings),
        "profiles": profiles,
        "profile_settings": _plain(request.profile_settings),
        "seed": request.seed,
        "measure": list(request.measure) if isinstance(request.measure, tuple | list) else request.measure,
        "until": request.until,
        "cluster": cluster_fields(cluster),
        "rules": how,
        "version": __version__,
    }


def _plain(settings: Settings | None) -> dict[str, object] | None:
    return None if settings is None else dict(settings)


def fingerprint(trace: str | Path | None, jobs: Jobs | None) -> str | None:
    """A digest of the jobs that were handed in."""
    digest = hashlib.sha256()
    if trace is not None:
        digest.update(Path(trace).read_bytes())
    elif jobs is not None:
        digest.update(repr((jobs.profiles, jobs.tenants)).encode())
        for column in jobs.columns().values():
            digest.update(np.ascontiguousarray(column).tobytes())
    else:
        return None
    return digest.hexdigest()
