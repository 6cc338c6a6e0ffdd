"""Why a job does not run: its phase as people see it, a short code, and a sentence with numbers.

Pure: computed on request from the registry, the catalogue and the time, so it is there as soon as the job is, and never
older than the question. The codes:

    time-limit             it has failed, as it ran for as long as it may
    ending                 its end is decided, and what is left of it is being stopped
    secrets-missing        values of its environment are not there (`secrets`)
    back-off               it failed, and is tried again after a pause
    no-servers             no server is up
    no-server-fits         no type of GPU has as many that are up as it asks for
    types-not-there        no server that is up has a type of GPU on which it may run
    request-too-large      no server that is up has the CPUs and memory beside GPUs that it asks for
    label-not-there        no server that is up has the labels that it asks for
    profile-unknown-there  the types with enough GPUs that are up have no speed for its profile
    tenant-limit           its tenant runs as many jobs as it may at the same time
    checkpoint-limit       checkpoints of its tenant take more disk than they may
    held                   somebody holds it, until it is released
    dependency             a job that it comes after is not over
    array-limit            as many jobs of its array run as may at the same time
    quota                  its tenant holds as many GPUs as its quota and what it may borrow
    no-room-beside         GPUs are free, but not with the CPUs, memory or labels that it asks for
    queued                 some GPUs are free that it could use
    outranked              all GPUs that it could use are busy
    stopping               it was asked to save and end
    held-by-lease          its server is silent, and nothing may start elsewhere before its lease ends

The phase is `waiting` as long as no placement could start the job: the codes from `secrets-missing` to
`array-limit`.
"""

from __future__ import annotations

import bisect
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum

from rota.core.gpu_types import permits, types_in_words
from rota.core.lifecycle import JobPhase
from rota.core.needs import in_words, labelled, types_that_hold, why_not
from rota.deploy.scheduler.catalogue import OpenCatalogue
from rota.deploy.scheduler.cluster_facts import ClusterNow, gpus_by_tenant
from rota.deploy.scheduler.job_kinds import JobKind, kind_of
from rota.deploy.scheduler.queue_holds import HoldSentences, queue_holds
from rota.deploy.scheduler.records import Attempt, Job
from rota.deploy.scheduler.registry import Registry
from rota.deploy.scheduler.tenant_limits import TenantLimits
from rota.deploy.scheduler.time_limits import ended_by_limit
from rota.deploy.tenants import Tenants

OLD_BACK_OFF = "; tried again after a pause"
"""End of the reason in journals of older versions."""
_MOST_TYPES = 4
"""Types that are named in a sentence."""


class ReasonCode(str, Enum):
    """Why a job that is not over does not run, or will not for long."""

    NONE = ""
    ENDING = "ending"
    SECRETS_MISSING = "secrets-missing"
    BACK_OFF = "back-off"
    NO_SERVERS = "no-servers"
    NO_SERVER_FITS = "no-server-fits"
    TYPES_NOT_THERE = "types-not-there"
    REQUEST_TOO_LARGE = "request-too-large"
    LABEL_NOT_THERE = "label-not-there"
    PROFILE_UNKNOWN_THERE = "profile-unknown-there"
    TENANT_LIMIT = "tenant-limit"
    CHECKPOINT_LIMIT = "checkpoint-limit"
    HELD = "held"
    DEPENDENCY = "dependency"
    ARRAY_LIMIT = "array-limit"
    QUOTA = "quota"
    NO_ROOM_BESIDE = "no-room-beside"
    QUEUED = "queued"
    OUTRANKED = "outranked"
    STOPPING = "stopping"
    HELD_BY_LEASE = "held-by-lease"
    TIME_LIMIT = "time-limit"


@dataclass(frozen=True, slots=True)
class Explanation:
    """How a job is, for people."""

    phase: JobPhase
    code: ReasonCode = ReasonCode.NONE
    sentence: str = ""

    @property
    def reason(self) -> str:
        """Code and sentence in one text; of a job that is over, or that just runs, the sentence alone."""
        return f"{self.code.value}: {self.sentence}" if self.code.value else self.sentence

    @classmethod
    def of_archived(cls, job: Job) -> Explanation:
        """How a job that left memory ended."""
        return cls(job.phase, code_of_end(job), job.reason)


def code_of_end(job: Job) -> ReasonCode:
    """The code of a job that is over: none, but where its time limit ended it."""
    return ReasonCode.TIME_LIMIT if ended_by_limit(job) else ReasonCode.NONE


def shown_phase(job: Job) -> JobPhase:
    """The phase as far as the job alone says it: one whose end is decided is over as soon as nothing of it runs."""
    if job.final_phase is not None and not job.over:
        return job.final_phase if job.attempt is None else JobPhase.STOPPING
    return job.phase


class Reasons:
    """Explains jobs, all against the same cluster."""

    def __init__(
        self,
        cluster: ClusterNow,
        catalogue: OpenCatalogue,
        missing: Callable[[Job], Sequence[str]] = lambda _: (),
        limits: TenantLimits | None = None,
        registry: Registry | None = None,
    ) -> None:
        """`missing` gives the names of variables whose values are lost; limits are those of jobs in `registry`."""
        self._cluster = cluster
        self._catalogue = catalogue
        self._missing = missing
        self._fitting: dict[JobKind, _Fit] = {}
        self._limits = limits or TenantLimits(Tenants())
        self._sentences = None if registry is None else HoldSentences(registry)
        self._queue = {} if registry is None else queue_holds(registry, self._ready)
        self._held = {} if registry is None else self._limits.held_back(registry, self._free)
        self._gpus_of = {} if registry is None else gpus_by_tenant(registry)

    def explain(self, job: Job) -> Explanation:
        """How a job is, and why."""
        phase = shown_phase(job)
        if phase.final:
            return Explanation(phase, code_of_end(job), job.reason)
        if job.attempt is not None:
            return self._of_attempt(job, job.attempt, phase)
        return self._secrets(job) or self._own_hold(job) or self._back_off(job) or self._place(job)

    def phase(self, job: Job) -> JobPhase:
        """The phase alone."""
        phase = shown_phase(job)
        if phase.final or job.attempt is not None:
            return phase
        stuck = self._fit(job).code is not ReasonCode.NONE or job.id in self._held or job.id in self._queue
        waits = stuck or job.wait_until > self._cluster.now or bool(self._missing(job))
        return JobPhase.WAITING if waits else JobPhase.QUEUED

    # With an attempt

    def _of_attempt(self, job: Job, attempt: Attempt, phase: JobPhase) -> Explanation:
        silent = {node: self._cluster.silent_s[node] for node in attempt.nodes if node in self._cluster.silent_s}
        if silent:
            return Explanation(phase, ReasonCode.HELD_BY_LEASE, self._silence(silent, attempt))
        if job.final_phase is not None:
            return Explanation(phase, ReasonCode.ENDING, job.reason)
        if attempt.stop_reason is not None:
            detail = f" ({attempt.stop_detail})" if attempt.stop_detail else ""
            return Explanation(phase, ReasonCode.STOPPING, f"{attempt.stop_reason.value}{detail}")
        return Explanation(phase)

    def _silence(self, silent: Mapping[str, float], attempt: Attempt) -> str:
        cluster = self._cluster
        node, seconds = max(silent.items(), key=lambda pair: pair[1])
        left_s = max(0.0, (attempt.lease_until - cluster.now) / cluster.time_scale)
        return f"{node} is silent for {seconds:.0f} s; the lease there ends in {left_s:.0f} s, the job goes on after it"

    # Without one

    def _secrets(self, job: Job) -> Explanation | None:
        names = self._missing(job)
        if not names:
            return None
        sentence = (
            f"the values of {', '.join(names)} are not in the file of secrets of this scheduler; "
            "cancel the job and submit it again, or restore that file and start the scheduler again"
        )
        return Explanation(JobPhase.WAITING, ReasonCode.SECRETS_MISSING, sentence)

    def _back_off(self, job: Job) -> Explanation | None:
        cluster = self._cluster
        if job.wait_until <= cluster.now:
            return None
        what = job.reason.removesuffix(OLD_BACK_OFF) or "a failure"
        if math.isinf(job.wait_until):
            return Explanation(JobPhase.WAITING, ReasonCode.BACK_OFF, what)
        pause_s = max(1, math.ceil((job.wait_until - cluster.now) / cluster.time_scale))
        sentence = f"tried again in {pause_s} s after {what}; {job.restarts} of {job.spec.max_restarts} restarts used"
        return Explanation(JobPhase.WAITING, ReasonCode.BACK_OFF, sentence)

    def _own_hold(self, job: Job) -> Explanation | None:
        """What its owner said about when it starts."""
        if self._sentences is None or job.id not in self._queue:
            return None
        hold = self._queue[job.id]
        return Explanation(JobPhase.WAITING, ReasonCode(hold.value), self._sentences.of(job, hold))

    def _place(self, job: Job) -> Explanation:
        fit = self._fit(job)
        if fit.code is not ReasonCode.NONE:
            return Explanation(JobPhase.WAITING, fit.code, fit.sentence)
        return self._limit(job, fit) or self._queued(job, fit)

    def _limit(self, job: Job, fit: _Fit) -> Explanation | None:
        """What the operator allows its tenant, if that is why it waits."""
        if job.id in self._held:
            hold = self._held[job.id]
            return Explanation(JobPhase.WAITING, ReasonCode(hold.value), self._limits.sentence(hold, job.tenant))
        beyond = self._beyond_quota(job, fit)
        return Explanation(JobPhase.QUEUED, ReasonCode.QUOTA, beyond) if beyond else None

    def _queued(self, job: Job, fit: _Fit) -> Explanation:
        """What is free of the types that it could use."""
        gpu_type, free = max(((name, self._cluster.free.get(name, 0)) for name in fit.types), key=lambda pair: pair[1])
        asks = job.spec.gpus
        if free >= asks and not self._room_beside(job, fit):
            needs = in_words(asks, kind_of(job.spec).needs)
            sentence = f"{_gpus(free)} free of {gpu_type}, but not {needs}; {self._before(job, fit)}"
            return Explanation(JobPhase.QUEUED, ReasonCode.NO_ROOM_BESIDE, sentence)
        if free >= asks:
            sentence = f"{_gpus(free)} free of {gpu_type}, asks for {asks}; placed with the next decision"
            return Explanation(JobPhase.QUEUED, ReasonCode.QUEUED, sentence)
        if free:
            sentence = f"{_gpus(free)} free of {gpu_type}, asks for {asks}; {self._before(job, fit)}"
            return Explanation(JobPhase.QUEUED, ReasonCode.QUEUED, sentence)
        total = sum(self._cluster.up[name] for name in fit.types)
        all_busy = f"all {_gpus(total)} that it could use ({_some(fit.types)}) are busy"
        return Explanation(JobPhase.QUEUED, ReasonCode.OUTRANKED, f"{all_busy}; {self._before(job, fit)}")

    def _beyond_quota(self, job: Job, fit: _Fit) -> str:
        """Why its tenant may not hold as many GPUs more as the job asks for, on any type; empty if it may."""
        quota = self._limits.tenants.of(job.tenant).promised()
        held = self._gpus_of.get(job.tenant, {})
        if any(quota.permits(held, gpu_type, job.spec.gpus) for gpu_type in fit.types):
            return ""
        most = f"its quota of {quota.words()} + {quota.borrow:g} borrowed GPUs"
        return (
            f"tenant {job.tenant!r} holds {_gpus(sum(held.values()))} of {most}, and the job asks for {job.spec.gpus}"
        )

    def _room_beside(self, job: Job, fit: _Fit) -> bool:
        """Whether servers with free GPUs have what the job needs beside them."""
        kind = kind_of(job.spec)
        there = self._cluster.free_servers
        if not kind.needs or there is None:
            return True
        held = zip(there.types, types_that_hold(there, kind.gpus, kind.needs), strict=True)
        return any(holds for gpu_type, holds in held if gpu_type in fit.types)

    def _before(self, job: Job, fit: _Fit) -> str:
        """Who else there is. The order in which jobs start is the policy's."""
        older = bisect.bisect_left(self._cluster.pending, job.id)
        others = f"{_count(self._cluster.running, 'job')} running, {_count(older, 'job')} before it"
        return f"{others}{self._unmet_quota(job, fit)}"

    def _unmet_quota(self, job: Job, fit: _Fit) -> str:
        """Which quota of its tenant is not met, if the job is within it; else whether it has to borrow."""
        quota = self._limits.tenants.of(job.tenant).promised()
        if not quota.total:
            return ""
        held = self._gpus_of.get(job.tenant, {})
        holds = f"tenant {job.tenant!r} holds {_gpus(sum(held.values()))} of its quota of {quota.words()}"
        unused = quota.unused(held)
        if max(unused.get(gpu_type, 0) for gpu_type in ("", *fit.types)) >= job.spec.gpus:
            return f"; {holds}: borrowed GPUs are taken back at the start of a round"
        return f"; {holds}, so the job has to borrow"

    def _ready(self, job: Job) -> bool:
        """Whether a placement could start it."""
        return job.wait_until <= self._cluster.now and self._fit(job).code is ReasonCode.NONE

    def _free(self, job: Job) -> bool:
        """Whether a placement could start it and nobody but its tenant's limits holds it back."""
        return job.id not in self._queue and self._ready(job)

    def _fit(self, job: Job) -> _Fit:
        kind = kind_of(job.spec)
        if kind not in self._fitting:
            self._fitting[kind] = _fit(self._cluster, self._catalogue, kind)
        return self._fitting[kind]


@dataclass(frozen=True, slots=True)
class _Fit:
    """Where jobs with a profile and a number of GPUs could run, or why nowhere."""

    types: tuple[str, ...] = ()
    code: ReasonCode = ReasonCode.NONE
    sentence: str = ""


def _fit(cluster: ClusterNow, catalogue: OpenCatalogue, kind: JobKind) -> _Fit:
    gpus = kind.gpus
    if not cluster.up:
        known = f"; of those that were here, {cluster.servers_away}" if cluster.servers_away else ""
        return _Fit((), ReasonCode.NO_SERVERS, f"no server is up{known}")
    permitted = {name: count for name, count in cluster.up.items() if permits(kind.types, name)}
    if not permitted:
        sentence = f"may run {types_in_words(kind.types)}; types that are up: {_some(sorted(cluster.up))}"
        return _Fit((), ReasonCode.TYPES_NOT_THERE, sentence)
    large = tuple(sorted(name for name, count in permitted.items() if count >= gpus))
    able = tuple(name for name in large if catalogue.rate(kind.profile, gpus, name) > 0)
    if able:
        return _with_needs(cluster, kind, able)
    if large:
        return _Fit((), ReasonCode.PROFILE_UNKNOWN_THERE, _no_speed(cluster, catalogue, kind.profile, gpus, large))
    largest, count = max(sorted(permitted.items()), key=lambda pair: pair[1])
    sentence = f"asks for {_gpus(gpus)}; the largest number of one type that is up is {count} ({largest})"
    return _Fit((), ReasonCode.NO_SERVER_FITS, sentence + _if_back(cluster, gpus))


def _with_needs(cluster: ClusterNow, kind: JobKind, types: tuple[str, ...]) -> _Fit:
    """The types among these whose servers have what the job needs, or why there is none."""
    there = cluster.servers
    if not kind.needs or there is None:
        return _Fit(types)
    held = dict(zip(there.types, types_that_hold(there, kind.gpus, kind.needs), strict=True))
    able = tuple(name for name in types if held.get(name, False))
    if able:
        return _Fit(able)
    sentence = why_not(there, kind.gpus, kind.needs, types)
    missing = bool(kind.needs.labels) and not labelled(there, kind.needs.labels).any()
    return _Fit((), ReasonCode.LABEL_NOT_THERE if missing else ReasonCode.REQUEST_TOO_LARGE, sentence)


def _no_speed(cluster: ClusterNow, catalogue: OpenCatalogue, profile: str, gpus: int, large: tuple[str, ...]) -> str:
    """Enough GPUs are up, of types on which nobody measured the profile with so many."""
    there = [name for name in catalogue.types if catalogue.rate(profile, gpus, name) > 0]
    measured = f"; it was measured on {_some(there)}" if there else ""
    short = [f"{cluster.up[name]} of {name}" for name in there if name in cluster.up]
    too_few = f", of which {' and '.join(short)} are up" if short else ", of which none is up" if there else ""
    return f"profile {profile!r} has no speed with {_gpus(gpus)} on {_some(large)}{measured}{too_few}"


def _if_back(cluster: ClusterNow, gpus: int) -> str:
    """Whether servers that are away would help."""
    for name, count in sorted(cluster.away.items()):
        if cluster.up.get(name, 0) + count >= gpus:
            return f"; {count} more of {name} are on servers that are {cluster.servers_away.lstrip('0123456789 ')}"
    return ""


def _some(names: Sequence[str]) -> str:
    more = f" and {len(names) - _MOST_TYPES} more types" if len(names) > _MOST_TYPES else ""
    return ", ".join(names[:_MOST_TYPES]) + more


def _gpus(count: int) -> str:
    return _count(count, "GPU")


def _count(count: int, noun: str) -> str:
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"
