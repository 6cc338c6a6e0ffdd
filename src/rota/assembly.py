"""From names and settings to the parts of a run, and the plain description that goes into results."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from rota import clusters, profiles, workloads
from rota._version import __version__
from rota.analysis.guard import Guard
from rota.analysis.metrics import Metrics
from rota.analysis.overload import Overload
from rota.analysis.waiting import Waiting
from rota.analysis.warmup import AUTO
from rota.core import own_code
from rota.core.cluster import AcceleratorType, Cluster, cluster_fields
from rota.core.errors import ConfigError, UnknownName
from rota.core.jobs import RECORDED, Jobs, Source, TableSource
from rota.core.ports import Beliefs, EveryEvent, Observer, Policy, Throughputs, measured_rate
from rota.core.registry import convert
from rota.core.rules import Rules, preset
from rota.core.tenant_rules import TenantRules
from rota.engine import checkpoint as checkpoints
from rota.engine.checked import CheckedPolicy
from rota.engine.live_state import ParkingState
from rota.engine.log import EventLog
from rota.engine.loop import Engine
from rota.engine.sense import Checks
from rota.engine.state import State
from rota.mechanisms.registry import ComposedMechanism, build, mechanisms
from rota.policies.fair_by_tenant import fair_between
from rota.policies.levels import ByPriority
from rota.policies.registry import policies
from rota.policies.ties import FewestRoundsFirst
from rota.profiles.settings import estimated
from rota.session import Deciding, Progress, Session, Watch
from rota.sim.world import World
from rota.workloads.checking import checked
from rota.workloads.fingerprints import fingerprint
from rota.workloads.problems import Problems

Settings = Mapping[str, object]
GivenPolicy = str | Policy | type[Policy]
"""A name, `file.py:Class`, a class, or an object."""


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
    policy: GivenPolicy
    policy_settings: Settings | None
    mechanism: str | None
    mechanism_settings: Settings | None
    profiles: str | Path | Sequence[str | Path] | Throughputs | None
    profile_settings: Settings | None
    round_s: float | None
    rules: str | Rules
    rule_settings: Settings | None
    seed: int
    measure: tuple[int, int] | str | None
    until: float | None
    events: str | Path | BinaryIO | None
    checkpoint: str | Path | None
    checkpoint_every: float | None
    resume: str | Path | None
    progress: Callable[[Progress], None] | None
    guard: Guard | None = None
    tenants: TenantRules | None = None


def _state_class(request: Request, table: Jobs | None) -> type[State]:
    """Only where so many jobs may run at the same time, jobs have to step aside."""
    of_arrays = table is not None and table.queue is not None and bool((table.queue.array_limit > 0).any())
    of_tenants = request.tenants is not None and request.tenants.running is not None
    return ParkingState if of_arrays or of_tenants else State


def assemble(request: Request) -> tuple[Session, EventLog | None]:
    """The session of a request, in the middle of its run if it is resumed, and the log that it writes."""
    _check(request)
    table, remarks = read_table(request)
    speeds = _asked_throughputs(request, table)
    rules = make_rules(request.rules, request.round_s, request.rule_settings)
    cluster = _asked_cluster(request, rules, speeds, () if table is None else table.profiles)
    source = make_source(request, table, cluster, speeds)
    policy = by_priority(_asked_policy(request, rules), table)
    name = request.mechanism or rules.mechanism
    mechanism = _make_mechanism(request, name, rules, table)
    state = _state_class(request, table)(cluster, speeds, rules, by_need=mechanism.by_need)
    metrics = Metrics(cluster, request.measure, speeds, endless=source.endless)
    watch = _make_watch(request, metrics, _waiting(name, mechanism, cluster), state, endless=source.endless)
    running = None if request.tenants is None else request.tenants.running
    world = World(source, rules, speeds if isinstance(speeds, Beliefs) else None, running)
    log = None if request.events is None else EventLog(request.events)
    checks = needed_checks(name)
    deciding = Deciding(policy, mechanism)
    engine = Engine(
        state=state,
        policy=deciding,
        mechanism=deciding,
        clock=world,
        executor=world,
        observers=[*_observers(metrics, watch, log), world],
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
        about_the_trace=remarks + about_tenants(request.tenants, cluster, () if table is None else table.tenants),
        deciding=deciding,
    )
    if request.resume is not None:
        session = session.resumed(checkpoints.load(request.resume, config).parts, policy, speeds)
    return session, log


def needed_checks(mechanism: str) -> Checks:
    """Answers of mechanisms that do not come with Rota are checked; policies are where they are made."""
    return Checks(policy=False, mechanism=not mechanisms.entry(mechanism).built_in)


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


def _asked_cluster(request: Request, rules: Rules, speeds: Throughputs, used: tuple[str, ...]) -> Cluster:
    """The cluster with the prices the rules know, its types from slow to fast.

    `used` are the profiles of the jobs, as far as they are known.
    Raises UnknownName for a type in the rules that the cluster does not have.
    """
    asked = request.cluster
    cluster = priced(asked if isinstance(asked, Cluster) else clusters.load(asked), rules)
    cluster = clusters.in_order(cluster, speeds, used)
    if "type_order" in (request.rule_settings or {}):
        for gpu_type in rules.type_order:
            if gpu_type not in cluster.types:
                raise UnknownName("type in the rule type_order:", gpu_type, cluster.types)
    return cluster


def _waiting(name: str, mechanism: ComposedMechanism, cluster: Cluster) -> Waiting | None:
    """Who looks at jobs that wait beside idle GPUs, for mechanisms under which that happens."""
    return Waiting(name, cluster.gpus) if mechanism.may_leave_gpus_idle else None


def _make_watch(request: Request, metrics: Metrics, waiting: Waiting | None, state: State, *, endless: bool) -> Watch:
    """What looks on during a run; a run that chooses its own end must not wait for a steady state that cannot come."""
    guard = Overload() if metrics.auto and request.guard is None else request.guard
    watch = Watch(metrics.measure, request.progress, waiting, guard)
    if guard is not None:
        guard.begin(state.cluster.gpus, endless=endless)
        watch.follow(state)
    return watch


def _make_mechanism(request: Request, name: str, rules: Rules, table: Jobs | None) -> ComposedMechanism:
    """The mechanism of that name; slots are worked out in full for a log, and where jobs need certain servers."""
    settings = dict(request.mechanism_settings or {})
    needs = rules.enforce_requests and table is not None and table.has_needs and any(table.needs())
    quotas = None if request.tenants is None else request.tenants.quotas
    return build(name, rules, request.seed, settings, watched=request.events is not None or needs, quotas=quotas)


def about_tenants(tenants: TenantRules | None, cluster: Cluster, names: Sequence[str]) -> list[str]:
    """What there is to say about the quotas of tenants on a cluster; `names` are those of tenants of the trace.

    Raises ConfigError for types that the cluster does not have.
    """
    if tenants is None:
        return []
    capacity = dict(zip(cluster.types, cluster.capacity.tolist(), strict=True))
    tenants.check(capacity)
    return tenants.remarks(capacity, names)


def _observers(metrics: Metrics, watch: Watch, log: EventLog | None) -> list[Observer]:
    observers: list[Observer] = [metrics, *watch.observers()]
    if log is not None:
        observers.append(EveryEvent(log.observe))
    return observers


def read_table(request: Request) -> tuple[Jobs | None, list[str]]:
    """The jobs of a trace or of the table handed in, by arrival, and what its reader has to say.

    There is no table for a generator.
    """
    if request.workload is not None:
        return None, []
    if request.jobs is not None:
        return checked(request.jobs), []
    given = request.profiles
    catalogue = given if isinstance(given, str | Path | profiles.Catalogue) else None
    problems = Problems(str(request.trace))
    jobs = workloads.read_trace(
        str(request.trace), request.trace_format, request.trace_settings, problems, catalogue=catalogue
    )
    return jobs, [str(remark) for remark in problems.remarks]


def default_catalogue(request: Request, table: Jobs | None) -> str:
    """The catalogue to use when none is named: that of the workload, or the first that knows every model."""
    if table is None:
        parameters = workloads.workloads.entry(str(request.workload)).parameters()
        catalogue = (request.settings or {}).get("profiles") or None
        if catalogue is None and "profiles" in parameters:
            catalogue = parameters["profiles"].default
        return profiles.TRIED[0] if catalogue is None else str(catalogue)
    used = [table.profiles[p] for p in np.unique(table.profile).tolist()]
    if used == [RECORDED]:
        return RECORDED
    return next((name for name in profiles.TRIED if all(map(profiles.load(name).known, used))), profiles.TRIED[0])


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


def make_throughputs(given: str | Path | Sequence[str | Path] | Throughputs) -> Throughputs:
    """A catalogue by name or file, or several as one."""
    return profiles.load(given) if isinstance(given, str | Path | Sequence) else given


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


def make_policy(given: GivenPolicy, settings: Settings | None, seed: int, rules: Rules) -> Policy:
    """A policy by name; one with a random choice gets the seed of the run, a ranking what the rules sort by.

    Where the rules say so, equals among its shares are told apart by rounds left.
    """
    run = {
        "seed": seed,
        "order": rules.rankings,
        "overfills": rules.fifo_overfills,
        "deadlines": rules.deadlines,
        "blocked_shares": rules.blocked_shares,
        "round_s": rules.round_s,
        "restart_s": rules.restart_s,
    }
    if not isinstance(given, str) and not callable(getattr(given, "allocate", None)):
        name = given.__name__ if isinstance(given, type) else type(given).__name__
        raise ConfigError(f"{name} is no policy: it has no method allocate")
    if isinstance(given, str | type):
        policy = policies.create_for_run(given, run, **dict(settings or {}))
    elif settings:
        key = next(iter(settings))
        raise ConfigError(f"parameter {key!r} of the policy: it is built already; give the class, or set it there")
    else:
        policy = given
    if not isinstance(given, str) or not policies.entry(given).built_in:
        policy = CheckedPolicy(policy)
    return FewestRoundsFirst(policy, rules.round_s) if rules.fewest_rounds_first else policy


def _asked_policy(request: Request, rules: Rules) -> Policy:
    """The policy that was asked for; with tenants fair between them first, if it goes by weights."""
    policy = make_policy(request.policy, request.policy_settings, request.seed, rules)
    return policy if request.tenants is None else fair_between(policy, request.policy, request.tenants.weights)


def by_priority(policy: Policy, table: Jobs | None) -> Policy:
    """The policy with priorities before it, if some job has one; a generator makes none."""
    return policy if table is None or table.priority is None else ByPriority(policy)


def priced(cluster: Cluster, rules: Rules) -> Cluster:
    """The cluster with the prices the rules know: its own, or 1 for every GPU hour."""
    if rules.catalogue_prices:
        return cluster
    known = {a.name: a for a in (*(AcceleratorType(name=t) for t in cluster.types), *cluster.accelerators)}
    alike = tuple(dataclasses.replace(a, hourly_price=1.0) for a in known.values())
    return dataclasses.replace(cluster, accelerators=alike)


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
    """Jobs of a table; raises ProfileMissing now for a profile that nobody knows, UnknownName for such a type.

    A known profile that was not measured with the GPUs of a job on a type is no reason to stop: the job does not use
    that type, and is refused by name when it arrives if there is no other.
    """
    if (np.isnan(table.duration) & ~np.isnan(table.slo)).any() or np.isnan(table.total_steps).any():
        table = workloads.with_durations(table, speeds, cluster_types=cluster.types)
    for profile, gpus in sorted(set(zip(table.profile.tolist(), table.gpus.tolist(), strict=True))):
        for gpu_type in cluster.types:
            measured_rate(speeds, table.profiles[profile], gpus, gpu_type)
    return TableSource(table)


def describe(request: Request, mechanism: str, profiles: str, cluster: Cluster, rules: Rules) -> dict[str, Any]:
    """Everything that decides a run, as plain values."""
    how = dataclasses.asdict(rules)
    how["type_order"] = list(how["type_order"])
    return {
        "trace": None if request.trace is None else str(request.trace),
        # Only where there are any, so that logs of all other runs stay what they were.
        **({"trace_settings": dict(request.trace_settings)} if request.trace_settings else {}),
        "jobs_sha256": fingerprint(request.trace, request.jobs),
        "workload": request.workload,
        "settings": _plain(request.settings),
        **_described_policy(request.policy),
        "policy_settings": _plain(request.policy_settings),
        **_described_mechanism(mechanism),
        "mechanism_settings": _plain(request.mechanism_settings),
        "profiles": profiles,
        "profile_settings": _plain(request.profile_settings),
        "seed": request.seed,
        "measure": list(request.measure) if isinstance(request.measure, tuple | list) else request.measure,
        "until": request.until,
        "cluster": cluster_fields(cluster),
        "rules": how,
        "version": __version__,
        **({} if request.tenants is None else {"tenants": dict(request.tenants.described)}),
    }


def _described_policy(policy: GivenPolicy) -> dict[str, Any]:
    """The name, and a digest of the code of one that does not come with Rota (None: its text is not known)."""
    if isinstance(policy, str):
        entry = policies.entry(policy)
        return {"policy": policy} | ({} if entry.built_in else {"policy_sha256": entry.code_digest()})
    own = policy if isinstance(policy, type) else type(policy)
    return {"policy": own.__name__, "policy_sha256": own_code.digest_of(own)}


def _described_mechanism(name: str) -> dict[str, Any]:
    entry = mechanisms.entry(name)
    return {"mechanism": name} | ({} if entry.built_in else {"mechanism_sha256": entry.code_digest()})


def _plain(settings: Settings | None) -> dict[str, object] | None:
    return None if settings is None else dict(settings)
