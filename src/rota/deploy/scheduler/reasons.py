"""Why a job does not run: its phase as people see it, a short code, and a sentence with numbers.

Pure: computed on request from the registry, the catalogue and the time, so it is there as soon as the job is, and never
older than the question. The codes:

    time-limit             it has failed, as it ran for as long as it may
    ending                 its end is decided, and what is left of it is being stopped
    secrets-missing        values of its environment are not there (`secrets`)
    back-off               it failed, and is tried again after a pause
    no-servers             no server is up
    no-server-fits         no type of GPU has as many that are up as it asks for
    profile-unknown-there  the types with enough GPUs that are up have no speed for its profile
    tenant-limit           its tenant runs as many jobs as it may at the same time
    checkpoint-limit       checkpoints of its tenant take more disk than they may
    held                   somebody holds it, until it is released
    dependency             a job that it comes after is not over
    array-limit            as many jobs of its array run as may at the same time
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
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum

from rota.core.lifecycle import AttemptOutcome, JobPhase
from rota.deploy.scheduler.catalogue import OpenCatalogue
from rota.deploy.scheduler.queue_holds import HoldSentences, queue_holds
from rota.deploy.scheduler.records import Attempt, Job
from rota.deploy.scheduler.registry import Registry
from rota.deploy.scheduler.tenant_limits import TenantLimits
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
    PROFILE_UNKNOWN_THERE = "profile-unknown-there"
    TENANT_LIMIT = "tenant-limit"
    CHECKPOINT_LIMIT = "checkpoint-limit"
    HELD = "held"
    DEPENDENCY = "dependency"
    ARRAY_LIMIT = "array-limit"
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
    last = job.attempts[-1].outcome if job.attempts else ""
    by_limit = (job.final_phase or job.phase) is JobPhase.FAILED and last == AttemptOutcome.TIME_LIMIT.value
    return ReasonCode.TIME_LIMIT if by_limit else ReasonCode.NONE


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterNow:
    """What all explanations of one request have in common."""

    up: Mapping[str, int]
    """GPUs by type on servers that are up."""
    free: Mapping[str, int]
    """Those of them that no attempt holds."""
    away: Mapping[str, int]
    """GPUs by type on servers that are lost or drained."""
    servers_away: str
    """The latter in words; empty: there are none."""
    pending: Sequence[int]
    """Numbers of the jobs that do not run and are not over, ascending."""
    running: int
    """Number of jobs that run."""
    silent_s: Mapping[str, float] = field(default_factory=dict)
    """Servers that were not heard of for so long, in seconds, that nobody knows what they do."""
    now: float
    """Engine seconds."""
    time_scale: float = 1.0


def cluster_as_it_is(
    registry: Registry, now: float, *, time_scale: float = 1.0, silent_s: Mapping[str, float] | None = None
) -> ClusterNow:
    """What explanations need of the registry, counted once."""
    up: Counter[str] = Counter()
    away: Counter[str] = Counter()
    lost = 0
    drained = 0
    troubled = 0
    for name, node in registry.nodes.items():
        count = len(node.joined.devices)
        held = registry.gpus_held(name) if node.usable and node.trouble else count
        (up if node.usable else away)[node.joined.type] += held
        away[node.joined.type] += count - held
        lost += node.lost
        drained += node.drained and not node.lost
        troubled += node.usable and bool(node.trouble)
    counted = ((lost, "lost"), (drained, "drained"), (troubled, "in trouble (`rota nodes` says why)"))
    words = [f"{count} {word}" for count, word in counted if count]
    pending = sorted(job.id for job in registry.live.values() if job.attempt is None and job.final_phase is None)
    return ClusterNow(
        up={gpu_type: count for gpu_type, count in up.items() if count},
        free=_free(registry),
        away=away,
        servers_away=" and ".join(words),
        pending=pending,
        running=len(registry.running),
        silent_s=silent_s or {},
        now=now,
        time_scale=time_scale,
    )


def _free(registry: Registry) -> dict[str, int]:
    """GPUs by type that are up and that no attempt holds."""
    held: dict[str, set[str]] = {}
    for job in registry.running.values():
        for part in job.attempt.parts if job.attempt is not None else ():
            held.setdefault(part.node, set()).update(part.devices)
    free: Counter[str] = Counter()
    for name, node in registry.nodes.items():
        if node.usable and not node.trouble:
            free[node.joined.type] += len(set(node.joined.devices) - held.get(name, set()))
    return dict(free)


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
        self._fitting: dict[tuple[str, int], _Fit] = {}
        self._limits = limits or TenantLimits(Tenants())
        self._sentences = None if registry is None else HoldSentences(registry)
        self._queue = {} if registry is None else queue_holds(registry, self._ready)
        self._held = {} if registry is None else self._limits.held_back(registry, self._free)

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
        if job.id in self._held:
            hold = self._held[job.id]
            return Explanation(JobPhase.WAITING, ReasonCode(hold.value), self._limits.sentence(hold, job.tenant))
        gpu_type, free = max(((name, self._cluster.free.get(name, 0)) for name in fit.types), key=lambda pair: pair[1])
        asks = job.spec.gpus
        if free >= asks:
            sentence = f"{_gpus(free)} free of {gpu_type}, asks for {asks}; placed with the next decision"
            return Explanation(JobPhase.QUEUED, ReasonCode.QUEUED, sentence)
        if free:
            sentence = f"{_gpus(free)} free of {gpu_type}, asks for {asks}; {self._before(job)}"
            return Explanation(JobPhase.QUEUED, ReasonCode.QUEUED, sentence)
        total = sum(self._cluster.up[name] for name in fit.types)
        all_busy = f"all {_gpus(total)} that it could use ({_some(fit.types)}) are busy"
        return Explanation(JobPhase.QUEUED, ReasonCode.OUTRANKED, f"{all_busy}; {self._before(job)}")

    def _before(self, job: Job) -> str:
        """Who else there is. The order in which jobs start is the policy's."""
        older = bisect.bisect_left(self._cluster.pending, job.id)
        return f"{_count(self._cluster.running, 'job')} running, {_count(older, 'job')} before it"

    def _ready(self, job: Job) -> bool:
        """Whether a placement could start it."""
        return job.wait_until <= self._cluster.now and self._fit(job).code is ReasonCode.NONE

    def _free(self, job: Job) -> bool:
        """Whether a placement could start it and nobody but its tenant's limits holds it back."""
        return job.id not in self._queue and self._ready(job)

    def _fit(self, job: Job) -> _Fit:
        key = (job.spec.scheduled_profile, job.spec.gpus)
        if key not in self._fitting:
            self._fitting[key] = _fit(self._cluster, self._catalogue, *key)
        return self._fitting[key]


@dataclass(frozen=True, slots=True)
class _Fit:
    """Where jobs with a profile and a number of GPUs could run, or why nowhere."""

    types: tuple[str, ...] = ()
    code: ReasonCode = ReasonCode.NONE
    sentence: str = ""


def _fit(cluster: ClusterNow, catalogue: OpenCatalogue, profile: str, gpus: int) -> _Fit:
    if not cluster.up:
        known = f"; of those that were here, {cluster.servers_away}" if cluster.servers_away else ""
        return _Fit((), ReasonCode.NO_SERVERS, f"no server is up{known}")
    large = tuple(sorted(name for name, count in cluster.up.items() if count >= gpus))
    able = tuple(name for name in large if catalogue.rate(profile, gpus, name) > 0)
    if able:
        return _Fit(able)
    if large:
        return _Fit((), ReasonCode.PROFILE_UNKNOWN_THERE, _no_speed(cluster, catalogue, profile, gpus, large))
    largest, count = max(sorted(cluster.up.items()), key=lambda pair: pair[1])
    sentence = f"asks for {_gpus(gpus)}; the largest number of one type that is up is {count} ({largest})"
    return _Fit((), ReasonCode.NO_SERVER_FITS, sentence + _if_back(cluster, gpus))


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
