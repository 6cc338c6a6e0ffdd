"""Changes that somebody could make, made in a fork by the events that they would lead to in the deployment."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from rota.core.errors import ConfigError, UnknownName
from rota.core.job_arrays import array_size
from rota.core.job_spec import JobSpec
from rota.core.lifecycle import AttemptOutcome, StopReason
from rota.deploy.events import (
    AttemptEnded,
    AttemptStopping,
    CancelAsked,
    JobAccepted,
    JobReleased,
    NodeDrained,
    NodeJoined,
)
from rota.deploy.questions.facts import fact_of
from rota.deploy.questions.fork import Fork
from rota.deploy.scheduler.predecessors import hopeless_dependents
from rota.deploy.scheduler.registry import Registry
from rota.deploy.scheduler.speed_names import full_profile
from rota.deploy.scheduler.submission import numbered_jobs
from rota.deploy.tenants import Tenants
from rota.engine.trigger import Trigger
from rota.mechanisms.registry import mechanisms
from rota.policies.registry import policies

ASKER = "what-if"
TENANT_SETTINGS = ("borrow", "quota", "max_running")
"""Settings of a tenant that a change may be about; `quota.TYPE` is that of one type of GPU."""
_CPUS_PER_GPU = 3.0
_MEMORY_GB_PER_GPU = 62.5
"""Of a server that does not exist, where no server of its type says more; as emulated ones have it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """What is done; fields that say nothing are left as they are."""

    job: int = -1
    """The job that is submitted again, asking for something else, and cancelled as it was."""
    gpus: int = 0
    weight: float = 0.0
    cpus: float | None = None
    """CPUs that it asks for then, 0: none; None: as before."""
    memory_gb: float | None = None
    """Memory in GB that it asks for then, 0: none; None: as before."""
    priority: int | None = None
    """Its priority then; None: as before."""
    cancel: tuple[int, ...] = ()
    release: tuple[int, ...] = ()
    """Jobs that are held."""
    submit: tuple[JobSpec, ...] = ()
    add_servers: tuple[tuple[str, int], ...] = ()
    """(type, GPUs) of each."""
    drain: str = ""
    undrain: str = ""
    policy: str = ""
    policy_settings: Mapping[str, Any] | None = None
    mechanism: str = ""
    tenant_settings: tuple[tuple[str, str, int], ...] = ()
    """(tenant, setting, number) of each; the settings are those of `TENANT_SETTINGS`."""
    settings: Mapping[str, Any] | None = None
    """All settings of the scheduler, as `Options.described` has them."""

    def words(self) -> str:
        """What is done, for people."""
        said = []
        if self.job >= 0:
            said.append(f"submit job {self.job} again with {' and '.join(self._asked())}, and cancel it as it is")
        said += [f"cancel job {number}" for number in self.cancel]
        said += [f"release job {number}" for number in self.release]
        said += [f"submit {_entry_words(spec)}" for spec in self.submit]
        said += [f"add a server with {gpus} GPUs of {gpu_type}" for gpu_type, gpus in self.add_servers]
        said += [f"drain {self.drain}"] if self.drain else []
        said += [f"let jobs back on {self.undrain} (rota drain {self.undrain} --undo)"] if self.undrain else []
        said += [f"policy {self.policy}"] if self.policy else []
        said += [f"mechanism {self.mechanism}"] if self.mechanism else []
        said += [f"give tenant {tenant!r} {name} = {number}" for tenant, name, number in self.tenant_settings]
        said += [_settings_words(self.settings)] if self.settings is not None else []
        return "; ".join(said)

    def _asked(self) -> list[str]:
        """What the job that is submitted again asks for, where that is something else."""
        asked = [f"{self.gpus} GPUs"] if self.gpus else []
        asked += [f"weight {self.weight:g}"] if self.weight else []
        asked += [f"{self.cpus:g} CPUs"] if self.cpus is not None else []
        asked += [f"{self.memory_gb:g} GB of memory"] if self.memory_gb is not None else []
        asked += [f"priority {self.priority}"] if self.priority is not None else []
        return asked

    def again(self, spec: JobSpec) -> JobSpec:
        """The job as it is submitted again."""
        return replace(
            spec,
            gpus=self.gpus or spec.gpus,
            weight=self.weight or spec.weight,
            cpus=spec.cpus if self.cpus is None else self.cpus,
            memory_gb=spec.memory_gb if self.memory_gb is None else self.memory_gb,
            priority=spec.priority if self.priority is None else self.priority,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Changed:
    """A fork in which a change was made."""

    fork: Fork
    replaced: Mapping[int, int]
    """Jobs that were submitted again: their numbers now."""
    submitted: tuple[int, ...]
    """Numbers of jobs that are new."""


def made(fork: Fork, change: Change) -> Changed:
    """The change in a copy of the fork. Raises ConfigError if it cannot be made."""
    fork = fork.copy()
    registry = fork.registry
    if registry is None:
        raise ConfigError("nothing can be changed where there is no deployment")
    replaced = _submit_again(fork, registry, change)
    for number in change.cancel:
        _cancel(fork, registry, number)
    for number in change.release:
        registry.apply(JobReleased(at=fork.now, job=number, by=ASKER))
    entries = numbered_jobs(change.submit, registry.next_job)
    new = tuple(_submit(fork, registry, entry.spec, entry.array) for entry in entries)
    while hopeless := hopeless_dependents(registry, fork.now):
        for event in hopeless:
            registry.apply(event)
    for gpu_type, gpus in change.add_servers:
        _add_server(fork, registry, gpu_type, gpus)
    for name, drained in ((change.drain, True), (change.undrain, False)):
        if name:
            _drain(fork, registry, name, drained=drained)
    if change.policy or change.mechanism or change.tenant_settings or change.settings is not None:
        fork = _decided_otherwise(fork, change)
    facts = {number: fact for number, fact in fork.facts.items() if number in registry.live}
    fork = replace(fork, facts=facts, next_job=registry.next_job)
    return Changed(fork=fork, replaced=replaced, submitted=new)


def _submit_again(fork: Fork, registry: Registry, change: Change) -> dict[int, int]:
    if change.job < 0:
        return {}
    job = registry.live.get(change.job)
    if job is None or job.final_phase is not None:
        raise ConfigError(f"job {change.job} is over; nothing about it can be changed any more")
    spec = change.again(job.spec)
    fork.setup.catalogue.check(spec.scheduled_profile, spec.gpus)
    _cancel(fork, registry, change.job)
    return {change.job: _submit(fork, registry, spec)}


def _entry_words(spec: JobSpec) -> str:
    return f"{spec.label}, {array_size(spec.array)} times" if spec.array else spec.label


def _submit(fork: Fork, registry: Registry, spec: JobSpec, array: int = -1) -> int:
    profile = full_profile(fork.setup.catalogue, spec)
    fork.setup.catalogue.check(profile, spec.gpus)
    number = registry.next_job
    accepted = JobAccepted(at=fork.now, job=number, spec=replace(spec, profile=profile), by=ASKER, array=array)
    registry.apply(accepted)
    fact = fact_of(registry, registry.jobs[number], fork.now, 0, fork.setup.time_scale, fork.around_s)
    fork.facts = {**fork.facts, number: fact}
    return number


def _cancel(fork: Fork, registry: Registry, number: int) -> None:
    job = registry.live.get(number)
    if job is None or job.final_phase is not None:
        raise ConfigError(f"job {number} is over already")
    registry.apply(CancelAsked(at=fork.now, job=number, by=ASKER))
    if job.attempt is not None:
        epoch = job.attempt.epoch
        registry.apply(AttemptStopping(at=fork.now, job=number, epoch=epoch, reason=StopReason.CANCELLED))
        registry.apply(AttemptEnded(at=fork.now, job=number, epoch=epoch, outcome=AttemptOutcome.STOPPED))


def beside_new_gpus(registry: Registry, gpu_type: str, gpus: int) -> tuple[float, float]:
    """CPUs and memory in GB of a server that does not exist yet: the same part per GPU as servers of its type have."""
    like = _server_of_type(registry, gpu_type)
    if like is None:
        return gpus * _CPUS_PER_GPU, gpus * _MEMORY_GB_PER_GPU
    part = gpus / len(like.devices)
    return part * like.cpus, part * like.memory_gb


def _server_of_type(registry: Registry, gpu_type: str) -> NodeJoined | None:
    alike = (node.joined for node in registry.nodes.values() if node.joined.type == gpu_type and node.joined.devices)
    return next(alike, None)


def _add_server(fork: Fork, registry: Registry, gpu_type: str, gpus: int) -> None:
    like = _server_of_type(registry, gpu_type)
    cpus, memory_gb = beside_new_gpus(registry, gpu_type, gpus)
    number = sum(1 for name in registry.nodes if name.startswith("what-if-"))
    registry.apply(
        NodeJoined(
            at=fork.now,
            node=f"what-if-{number}",
            type=gpu_type,
            devices=tuple(f"gpu{at}" for at in range(gpus)),
            cpus=cpus,
            memory_gb=memory_gb,
            storage_mbps=0.0 if like is None else like.storage_mbps,
            network_gbps=0.0 if like is None else like.network_gbps,
            rack="" if like is None else like.rack,
            host="",
            session=ASKER,
            emulated=True,
            limits="",
            labels=() if like is None else like.labels,
        )
    )


def _drain(fork: Fork, registry: Registry, name: str, *, drained: bool) -> None:
    if name not in registry.nodes:
        raise UnknownName("node", name, registry.nodes)
    registry.apply(NodeDrained(at=fork.now, node=name, drained=drained, by=ASKER))


def _decided_otherwise(fork: Fork, change: Change) -> Fork:
    """Another policy or mechanism takes over: nobody is moved by that alone, and all accounts stay."""
    settings: dict[str, Any] = {}
    if change.policy:
        _built_in("policy", change.policy, policies.entry(change.policy).built_in if _named(change.policy) else False)
        settings = {"policy": change.policy, "policy_settings": dict(change.policy_settings or {})}
    if change.mechanism:
        known = _named(change.mechanism)
        _built_in("mechanism", change.mechanism, mechanisms.entry(change.mechanism).built_in if known else False)
        if change.mechanism == "ideal":
            raise ConfigError("the mechanism 'ideal' gives jobs fractions of a round; it can only be simulated")
        settings |= {"mechanism": change.mechanism, "mechanism_settings": {}}
    if change.tenant_settings:
        settings |= {"tenants": _tenants_with(fork.setup.tenants, change.tenant_settings)}
    setup = fork.setup.changed(**(change.settings or {}), **settings)
    setup.policy()
    state = setup.state(fork.state.cluster)
    state.restore({**fork.state.saved(), "allocation": None})
    trigger = Trigger(setup.rules)
    trigger.restore(fork.trigger.saved())
    trigger.changed = True
    trigger.asked = False
    return replace(fork, setup=setup, state=state, trigger=trigger, _frozen=b"")


def _tenants_with(tenants: Tenants, changed: Iterable[tuple[str, str, int]]) -> dict[str, Any]:
    """Weights and limits of all tenants with other numbers, as plain values."""
    described = tenants.described()
    for tenant, name, number in changed:
        setting, _, gpu_type = name.partition(".")
        if setting not in TENANT_SETTINGS or (gpu_type and setting != "quota"):
            raise UnknownName("setting of a tenant", name, TENANT_SETTINGS)
        if number < (1 if setting == "max_running" else 0):
            raise ConfigError(f"{tenant}.{name} is {number}; give a number from {int(setting == 'max_running')} on")
        values = dict(described["tenants"].get(tenant, described["default"]))
        if setting == "borrow" and values["quota"] is None:
            raise ConfigError(f"tenant {tenant!r} has no quota, so it may use all that is free; give it a quota, too")
        by_type = values["quota"] if isinstance(values["quota"], Mapping) else {}
        values[setting] = {**by_type, gpu_type: number} if gpu_type else number
        described["tenants"] = {**described["tenants"], tenant: values}
    return described


def _settings_words(config: Mapping[str, Any]) -> str:
    return f"policy {config['policy']} with mechanism {config['mechanism']}, rounds of {config['rules']['round_s']:g} s"


def _named(name: str) -> bool:
    """Whether it is a name, and not code in a file: nobody runs that inside the scheduler's machine by a question."""
    return ":" not in name and "/" not in name and not name.endswith(".py")


def _built_in(what: str, name: str, built_in: object) -> None:
    if not built_in:
        raise ConfigError(f"{what} {name!r} does not come with Rota; questions are answered with built-in ones only")


def as_fields(change: Change) -> dict[str, Any]:
    """A change as plain values; what says nothing is left out."""
    values = dataclasses.asdict(change)
    default = dataclasses.asdict(Change())
    return {name: value for name, value in values.items() if value != default[name]}
