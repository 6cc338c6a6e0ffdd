"""What a policy answers: shares of time, or an order of jobs.

Row i < len(jobs) of `share` is job i alone with the GPUs it asked for; further rows are `extras`: two jobs on the
same GPUs (space sharing), or one job with another number of GPUs (elastic). So pairs and elastic jobs need no second
interface.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any

import numpy as np

from rota.core.arrays import NO_JOB, BoolArray, FloatArray, IntArray, frozen, same
from rota.core.configurations import Holding
from rota.core.horizon import EVERY_ROUND, Horizon

if TYPE_CHECKING:
    from rota.core.view import View


@dataclass(frozen=True, slots=True, kw_only=True)
class SolveReport:
    """How sure a policy is of its answer."""

    status: str = "optimal"
    objective: float = float("nan")
    gap: float = 0.0
    size: int = 0


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Options:
    """Ways to run beyond "each job alone with its own GPUs". One entry per option in every array."""

    first: IntArray
    """Job id; for a pair the smaller one."""
    second: IntArray
    """Job id of the partner, or NO_JOB."""
    gpus: IntArray

    def __len__(self) -> int:
        return len(self.first)

    def rows(self, keep: BoolArray | IntArray) -> Options:
        """A part of the options."""
        return Options(first=self.first[keep], second=self.second[keep], gpus=self.gpus[keep])

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Options) and all(
            same(getattr(self, n), getattr(other, n)) for n in ("first", "second", "gpus")
        )

    __hash__ = None  # type: ignore[assignment]


_NOBODY = frozen(np.zeros(0, dtype=np.int64))
NO_OPTIONS = Options(first=_NOBODY, second=_NOBODY, gpus=_NOBODY)


@dataclass(frozen=True, slots=True, kw_only=True)
class Traits:
    """What a mechanism must know about the policy behind an allocation."""

    aware: bool = True
    """Whether the policy distinguishes accelerator types; if not, no type is preferred when slots are handed out."""
    packs: bool = False
    """Whether two jobs may share GPUs."""
    fills: bool = True
    """Whether GPUs that are left over go to jobs beyond their share."""
    fills_by_speed: bool = False
    """Whether left-over GPUs go first to jobs for which the type is good, before those that are owed most."""
    scatters_ties: bool = False
    """Whether equals are told apart by scattered job numbers: of many equal shares the oldest need not always win.
    Under the rule `fewest_rounds_first` their shares are tilted by what is left to do (policies/ties.py)."""
    by_gpus_alone: bool = False
    """For a ranking: who runs is settled by GPU counts before servers are looked at, and the largest are placed first
    where nobody can fail to fit."""
    pairs_fill: bool = False
    """Whether pairs without a share may take left-over GPUs too, where the rules let all pairs fill."""
    by_tenant: bool = False
    """Whether tenants are to have their parts, however their work is cut into jobs: what a job was owed when it leaves,
    or had too much, passes to the other jobs of its tenant."""


@dataclass(frozen=True, slots=True, eq=False)
class Wishes:
    """CPUs and memory that jobs should hold, by type."""

    cpus: FloatArray
    """The menu: CPUs of a whole job ..."""
    memory_gb: FloatArray
    speed: FloatArray
    """... and its speed with both, relative to the proportional share."""
    which: IntArray
    """[J, T] a row of the menu."""

    def holding(self, row: int) -> Holding:
        """One row of the menu."""
        return Holding(float(self.cpus[row]), float(self.memory_gb[row]), float(self.speed[row]))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Wishes) and all(
            same(getattr(self, n), getattr(other, n)) for n in ("cpus", "memory_gb", "speed", "which")
        )

    __hash__ = None  # type: ignore[assignment]


@dataclass(slots=True, kw_only=True, eq=False)
class Allocation:
    """Shares of time by option and type, or (when `order` is given) the order in which jobs are served.

    Never changed after it is made (not frozen: one is made every round).
    """

    jobs: IntArray
    """Job ids, ascending: the active jobs the policy saw."""
    types: tuple[str, ...]
    share: FloatArray
    """[len(jobs) + len(extras), T], long-run fraction of time."""
    extras: Options = field(default_factory=lambda: NO_OPTIONS)
    order: IntArray | None = None
    """For a ranking: positions into `jobs`, first served first."""
    horizon: Horizon = EVERY_ROUND
    """How long this stays right. A policy that says nothing is asked in every round."""
    linear_key: Callable[[View], FloatArray] | None = field(default=None, repr=False)
    """For a ranking whose sort key changes by the same amount in every round as long as the same jobs run: that key,
    so that it can be told when the first two jobs change places. None: ask in every round."""
    wish: Wishes | None = None
    """What each job should hold beside its GPUs while it runs on a type; None leaves that to the mechanism, which then
    aims at the least that makes it as fast as it can get."""
    pressing: IntArray | None = None
    """Ids of jobs that have to run in every round, whatever others are owed (their share is 1 on one type)."""
    traits: Traits = Traits()
    report: SolveReport = SolveReport()
    state: Mapping[str, Any] = field(default_factory=dict)
    """What the policy wants to find again in `view.previous` next time: numbers, text, lists or arrays."""

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Allocation)
            and self.types == other.types
            and same(self.jobs, other.jobs)
            and same(self.share, other.share)
            and self.extras == other.extras
            and same(self.order, other.order)
            and self.wish == other.wish
            and same(self.pressing, other.pressing)
            and self.traits == other.traits
        )

    __hash__ = None  # type: ignore[assignment]

    def __getstate__(self) -> dict[str, Any]:
        """All but the key, which belongs to a policy: after a restart the policy is asked again."""
        return {f.name: getattr(self, f.name) for f in fields(self) if f.name != "linear_key"}

    def __setstate__(self, saved: dict[str, Any]) -> None:
        for name, value in saved.items():
            setattr(self, name, value)
        self.linear_key = None


def alone(jobs: IntArray, gpus: IntArray) -> Options:
    """The plain option of every job, as an options table."""
    return Options(first=jobs, second=np.full(len(jobs), NO_JOB), gpus=gpus)
