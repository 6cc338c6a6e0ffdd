"""Job classes: jobs with the same (profile, GPUs, weight, reference, allowed types, needs) share one row of rates.

They are interchangeable in a linear program, so a view holds their rates once and points into this table. It is a
value: a class that arrives later is in another one (`engine/classes.py` makes them). Class numbers stay the same as
long as the cluster is the same; new ones are appended.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from rota.core.arrays import BoolArray, FloatArray, IntArray
from rota.core.configurations import Configurations
from rota.core.gpu_types import TypeSet
from rota.core.needs import Needs


class PairTable(Protocol):
    """Rates of jobs that share GPUs, looked up when somebody asks. The answers never change."""

    @property
    def known(self) -> FloatArray:
        """[C, C, T] steps/s of a job of the first class while it shares GPUs with one of the second; 0 = cannot.

        As far as the scheduler knows: an estimate for pairs that never ran, if rates are estimated.
        """

    @property
    def true(self) -> FloatArray:
        """The same as it is in truth."""


@dataclass(frozen=True, slots=True, eq=False)
class Speeds:
    """Rates of all classes."""

    throughput: FloatArray
    """[C, T] steps/s of the whole job, alone, on GPUs of one server, with the proportional share."""
    spread: FloatArray
    """[C, T] the same with GPUs on several servers."""
    step_s: FloatArray
    """[C, T] seconds per step."""


@dataclass(frozen=True, slots=True, eq=False)
class Classes:
    """All classes as columns."""

    profile: tuple[str, ...]
    gpus: IntArray
    weight: FloatArray
    throughput: FloatArray
    """[C, T] steps/s of the whole job, alone, on GPUs of one server, with the proportional share."""
    spread: FloatArray
    """[C, T] the same with GPUs on several servers."""
    spreading_costs: bool
    """Whether some class is slower with its GPUs on several servers."""
    step_s: FloatArray
    """[C, T] seconds per step: the measured number itself where the catalogue has it, infinite without speed."""
    best_step_s: FloatArray
    """[C] seconds per step on the best type with the proportional share."""
    runs_on: BoolArray
    """[C, T] whether the throughput is positive."""
    configurations: Configurations
    """CPUs and memory that jobs may hold."""
    pairs: PairTable
    allowed: tuple[TypeSet, ...] = ()
    """Types on which jobs of a class may run, empty: any. The rates on all others are 0."""
    truth: Speeds | None = None
    """How fast jobs really are, where a scheduler has to find that out; None: as it is said above."""
    needs: tuple[Needs, ...] = ()
    """[C] CPUs, memory and labels that jobs of a class need; the rates are 0 on types that never have them."""
    bound: BoolArray | None = None
    """[C, T] whether a job of the class needs more of its servers than their proportional share, or certain servers;
    None if that is so nowhere."""
    priority: IntArray | None = None
    """[C] priority of jobs of a class, higher ones first; None if it is 0 for all."""
    beliefs: tuple[str, ...] = ()
    """[C] what was believed of jobs of a class when they came (`core.ports.Beliefs`); empty where nothing is."""

    def __len__(self) -> int:
        return len(self.profile)

    @property
    def true_speeds(self) -> Speeds:
        """How fast jobs really are."""
        return self.truth or Speeds(self.throughput, self.spread, self.step_s)

    @property
    def pair(self) -> FloatArray:
        """[C, C, T] steps/s of a job of the first class while it shares GPUs with one of the second; 0 = cannot."""
        return self.pairs.known

    @property
    def true_pair(self) -> FloatArray:
        """The same as it is in truth, where `pair` is an estimate."""
        return self.pairs.true
