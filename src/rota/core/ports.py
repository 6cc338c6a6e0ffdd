"""The seams: four protocols between which everything else can be exchanged."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Protocol, runtime_checkable

from rota.core.allocation import Allocation
from rota.core.arrays import FloatArray
from rota.core.cluster import Cluster
from rota.core.errors import ProfileMissing
from rota.core.events import Event
from rota.core.horizon import Horizon
from rota.core.placement import Placement, Plan
from rota.core.sensitivity import Sensitivity
from rota.core.view import View


class Policy(Protocol):
    """Who deserves what. Pure: the same view gives the same allocation."""

    def allocate(self, view: View) -> Allocation:
        """Shares or an order for the active jobs of the view."""


class RankingPolicy(Policy, Protocol):
    """A policy that is one sort key."""

    def key(self, view: View) -> FloatArray:
        """[J] the smallest is served first."""


class Mechanism(Protocol):
    """From shares to slots, for one round."""

    def place(self, view: View, allocation: Allocation) -> Placement:
        """Which options run in the coming round, and where; `view.placement` itself if nothing changes."""


class Clock(Protocol):
    """Where time comes from."""

    def now(self) -> float:
        """Seconds since the run began."""

    @property
    def exhausted(self) -> bool:
        """Whether no job will ever arrive again."""

    @property
    def interrupted(self) -> bool:
        """Whether time was up before the next moment at which something may be decided."""

    @property
    def between_rounds(self) -> bool:
        """Whether a round is under way: free GPUs may be given out, but nobody who runs is moved or stopped."""

    def advance(self, horizon: Horizon, limit: float) -> list[Event]:
        """Go on until the decision in force has to be looked at again, at least to the end of the round.

        At `limit` time is up: a clock that can stops there, in the middle of a round too, otherwise at the end of that
        round. Returns what happened till then, in order; at `limit` itself, who has ended or arrived by then.
        """


class Executor(Protocol):
    """Who carries out a plan."""

    def apply(self, plan: Plan, view: View) -> None:
        """Start, stop and keep running what the plan says."""

    def close(self) -> None:
        """Stop everything."""


Handler = Callable[[Any], None]


class Observer(Protocol):
    """Who hears of events, after the state has taken them over."""

    def handler(self, kind: type[Event]) -> Handler | None:
        """What to call for events of a kind; None if they do not matter. Asked once for each kind."""


class EveryEvent:
    """An observer that wants to hear of everything."""

    def __init__(self, observe: Handler) -> None:
        self._observe = observe

    def handler(self, kind: type[Event]) -> Handler | None:
        """The same for all kinds."""
        del kind
        return self._observe


class Throughputs(Protocol):
    """How fast a job would go. Implemented by the catalogues of rota.profiles."""

    name: str

    def rate(self, profile: str, gpus: int, type_: str, *, spread: bool = False) -> float:
        """Steps/s of the whole job; 0 if it does not fit. Raises ProfileMissing for an unknown profile."""

    def pair_rate(self, profile: str, partner: str, gpus: int, type_: str) -> float:
        """Steps/s of `profile` while it shares its GPUs with `partner`; 0 if they do not fit together."""

    def known(self, profile: str) -> bool:
        """Whether the catalogue has this profile."""


@runtime_checkable
class Listed(Protocol):
    """What throughputs offer beside their rates if they can say what they know."""

    @property
    def names(self) -> Iterable[str]:
        """All profiles."""

    @property
    def types(self) -> Iterable[str]:
        """Accelerator types on which something was measured."""


@runtime_checkable
class Referring(Protocol):
    """What throughputs offer beside their rates if they say what durations are about."""

    @property
    def reference_type(self) -> str | None:
        """The type that durations are about where nobody else says it; None if they do not say it either."""


@runtime_checkable
class Counted(Protocol):
    """What throughputs offer beside their rates if they can say with how many GPUs a profile was measured."""

    def gpu_counts(self, profile: str) -> tuple[int, ...]:
        """Numbers of GPUs, ascending."""


@runtime_checkable
class Provenance(Protocol):
    """What throughputs offer beside their rates if not all of them were measured."""

    @property
    def remarks(self) -> Sequence[str]:
        """What a user of these throughputs should know."""

    def origin(self, profile: str, gpus: int, type_: str) -> str:
        """Where a rate on one server comes from: `measured`, or in which other way it was found."""


@runtime_checkable
class Sensitivities(Protocol):
    """What throughputs offer beside their rates if they know about CPUs and memory."""

    def step_s(self, profile: str, gpus: int, type_: str) -> float:
        """Seconds of one step, to the last bit as it was measured (1 / rate but for rounding)."""

    def sensitivity(self, profile: str, gpus: int, type_: str) -> Sensitivity | None:
        """How the rate depends on CPUs and memory; None for a job that does not care."""


@runtime_checkable
class Beliefs(Protocol):
    """What throughputs offer beside their true rates if a scheduler does not know all of them from the start.

    A belief is a word for what is taken to be so about some of the jobs of a profile; "" is the truth.
    """

    learns: bool
    """Whether speeds that were seen take the place of what was believed."""

    def belief(self, draw: int) -> str:
        """What is believed of the arriving job number `draw`."""

    def believed_rate(self, profile: str, belief: str, gpus: int, type_: str, *, spread: bool = False) -> float:
        """What `rate` is taken to be before such a job was seen to run. Raises as `rate` does."""

    def after_measuring(
        self, profile: str, belief: str, gpus: int, measured: Mapping[str, float], types: Sequence[str]
    ) -> Mapping[str, float]:
        """Steps/s by type once some were measured: what was measured, and what follows from it for the others."""


@runtime_checkable
class StorageDependent(Protocol):
    """What throughputs offer if some of them follow from the storage bandwidth of servers."""

    def with_storage(self, mbps: Mapping[str, float]) -> Throughputs:
        """The same on servers with so many MB/s per GPU, by type; 0 where nobody says, which is as published."""


def measured_rate(throughputs: Throughputs, profile: str, gpus: int, type_: str, *, spread: bool = False) -> float:
    """Steps/s of a job; 0 where a profile that is known was not measured with so many GPUs on this type.

    Raises ProfileMissing for a profile that is not known at all.
    """
    try:
        return throughputs.rate(profile, gpus, type_, spread=spread)
    except ProfileMissing:
        if not throughputs.known(profile):
            raise
        return 0.0


def on_servers(throughputs: Throughputs, cluster: Cluster) -> Throughputs:
    """The throughputs with the storage per GPU that the servers of each type have, if that matters to them."""
    if not isinstance(throughputs, StorageDependent):
        return throughputs
    return throughputs.with_storage(dict(zip(cluster.types, cluster.fair_storage_mbps.tolist(), strict=True)))
