"""When to believe a speed: blocks of steps, blocks that other programs disturbed, and the interval of the mean.

The first steps are left out: what the data loader had ready (workers x prefetch + 1), and by MSER
what else is not steady. The rest is cut into blocks of at least max(1 s, 10 quota periods, 10
steps). While neighbours are alike (lag-1 correlation above 0.3) two blocks become one. A speed is
believed with 8 blocks and a 95 % interval of at most +-3 %.

A block is thrown away if the hypervisor took more than 2 % of the CPUs (steal), or if the job may
have been denied more than 5 %. Three things each bound what it was denied, so the least of them does;
the first two relative to the CPU time it may use (of one CPU at most), the third to the time that
passed:

    foreign   what other programs used of its CPUs (/proc/stat less the CPU time of its group)
    unused    what it was allowed and did not use
    waiting   how long threads of one of its processes were ready to run and did not (run delay), less
              the time in which its own quota held them up; of the process that waited most: stages of
              a pipeline work at the same time, so the slowest of them sets the pace

A job that waits for its device has threads that rarely wait for a CPU; one that lacks CPUs uses all
it is allowed. In both a busy neighbour does no harm, and is not held against the measurement.

A block is thrown away, too, if the CPUs were more than 10 % slower than at their best (`core_speed`):
than in other blocks of the run, or, if the job has one CPU, than in any run. With several CPUs the job
itself may be the neighbour that slows them. A block has a dozen probes, which differ by a fifth among
each other on a busy machine, so it counts as slow only if it is slow by itself and together with its
neighbours, and the best is that of neighbours together.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from rota.analysis.student import quantile
from rota.analysis.warmup import mser
from rota.profiles.stages import QUOTA_PERIOD_S

LEAST_S = max(1.0, 10 * QUOTA_PERIOD_S)
LEAST_STEPS = 10
ENOUGH_BLOCKS = 8
WIDE = 0.03
CONFIDENCE = 0.95
ALIKE = 0.3
MOST_STOLEN = 0.02
MOST_DENIED = 0.05
MOST_SLOWED = 0.1
_BEST = 0.9
"""The quantile of paces, each of a block with its neighbours, that counts as the best of a run."""
_LEAST_S_OF_USE = 0.1
"""Two readings are at least so far apart, or say nothing."""
TRIED_BLOCKS = 12
"""After so many, of which three quarters were disturbed, a run is given up."""
PREFETCH = 2
"""Batches that a worker of PyTorch's DataLoader makes ahead."""


@dataclass(frozen=True, slots=True)
class Usage:
    """Seconds counted since some moment."""

    at: float = 0.0
    """When they were read: on a busy machine later than the step that they stand beside was finished."""
    own_s: float = 0.0
    """CPU time of the job's processes."""
    busy_s: float = 0.0
    """CPU time of everybody on the CPUs of the job."""
    stolen_s: float = 0.0
    """Of these CPUs, taken by the hypervisor."""
    waiting_s: Mapping[int, float] = field(default_factory=dict)
    """By process, in which its threads were ready to run and did not."""
    throttled_s: float = 0.0
    """In which its quota held it up."""
    probes: int = 0
    """How often a fixed piece of work was done on these CPUs ..."""
    probe_s: float = 0.0
    """... and the CPU time of it."""


@dataclass(frozen=True, slots=True)
class Tick:
    """A moment of a run: how many steps were finished, and what was used until then."""

    at: float
    step: float
    usage: Usage = field(default_factory=Usage)
    epoch: int = 0
    """Between two epochs nobody knows how many steps were made."""


@dataclass(frozen=True, slots=True)
class Block:
    """Some steps that followed each other."""

    seconds: float
    steps: float
    stolen: float
    """Part of the CPUs that the hypervisor took."""
    denied: float
    """At most this part of the CPU time it wanted did the job not get, because of others."""
    own_s: float
    probes: int = 0
    """How often a fixed piece of work was done meanwhile."""
    probe_s: float = 0.0
    """CPU seconds of that."""
    slowed: float = 0.0
    """By this part the CPUs were slower than at their best."""

    @property
    def rate(self) -> float:
        """Steps/s."""
        return self.steps / self.seconds

    @property
    def pace(self) -> float:
        """Pieces of fixed work per second of CPU time: the speed of the CPUs; 0 if nobody knows."""
        return _pace([self])

    @property
    def clean(self) -> bool:
        """Whether it may be believed."""
        return self.stolen <= MOST_STOLEN and self.denied <= MOST_DENIED and self.slowed <= MOST_SLOWED


@dataclass(frozen=True, slots=True)
class Estimate:
    """A speed with how sure it is."""

    rate: float
    half_width: float
    """Of the 95 % interval, relative; infinite for fewer than two blocks."""
    blocks: int
    thrown_away: int
    cpu_s: float
    """CPU seconds of a step."""

    @property
    def settled(self) -> bool:
        """Whether nothing more has to be measured."""
        return self.blocks >= ENOUGH_BLOCKS and self.half_width <= WIDE


def blocks_of(ticks: Sequence[Tick], cpus: float, cpu_count: int, fastest: float = 0.0) -> list[Block]:
    """Blocks of a run with this allowance of CPUs, pinned to so many of them, which had this pace at their best."""
    found = []
    first = None
    for tick in ticks:
        if first is None or tick.epoch != first.epoch:
            first = tick
        elif tick.at - first.at >= LEAST_S and tick.step - first.step >= LEAST_STEPS:
            found.append(_block(first, tick, cpus, cpu_count))
            first = tick
    return _compared(found, fastest if cpu_count == 1 else 0.0)


def best_pace(blocks: Sequence[Block]) -> float:
    """The pace of the CPUs in the best blocks; 0 if nobody knows."""
    known = [pace for pace in _paces_together(blocks) if pace > 0]
    return float(np.quantile(known, _BEST)) if known else 0.0


def _compared(blocks: list[Block], fastest: float) -> list[Block]:
    """How much slower than at their best the CPUs were in each."""
    best = max(best_pace(blocks), fastest)
    paces = [max(block.pace, together) for block, together in zip(blocks, _paces_together(blocks), strict=True)]
    return [
        replace(block, slowed=1 - pace / best) if 0 < pace < best else block
        for block, pace in zip(blocks, paces, strict=True)
    ]


def _paces_together(blocks: Sequence[Block]) -> list[float]:
    """The pace of each block together with the one before it and the one after it."""
    return [_pace(blocks[max(0, at - 1) : at + 2]) for at in range(len(blocks))]


def _pace(blocks: Sequence[Block]) -> float:
    probe_s = sum(block.probe_s for block in blocks)
    return sum(block.probes for block in blocks) / probe_s if probe_s > 0 else 0.0


def _block(first: Tick, last: Tick, cpus: float, cpu_count: int) -> Block:
    wall_s = last.at - first.at
    used_s = max(last.usage.at - first.usage.at, _LEAST_S_OF_USE)
    own_s = last.usage.own_s - first.usage.own_s
    foreign_s = last.usage.busy_s - first.usage.busy_s - own_s
    unused_s = cpus * used_s - own_s
    throttled_s = last.usage.throttled_s - first.usage.throttled_s
    before = first.usage.waiting_s
    waits = (total - before.get(process, 0.0) for process, total in last.usage.waiting_s.items())
    waiting_s = max(waits, default=0.0) - throttled_s
    allowed_s = used_s * min(1.0, cpus)
    denied = min(foreign_s / allowed_s, unused_s / allowed_s, waiting_s / used_s)
    return Block(
        seconds=wall_s,
        steps=last.step - first.step,
        stolen=(last.usage.stolen_s - first.usage.stolen_s) / (used_s * max(cpu_count, 1)),
        denied=max(0.0, denied),
        own_s=own_s * wall_s / used_s,
        probes=last.usage.probes - first.usage.probes,
        probe_s=last.usage.probe_s - first.usage.probe_s,
    )


def hopeless(blocks: Sequence[Block]) -> bool:
    """Whether others disturb so much that waiting for better blocks does not pay."""
    return len(blocks) >= TRIED_BLOCKS and sum(block.clean for block in blocks) < len(blocks) / 4


def after_start(ticks: Sequence[Tick], workers: int) -> list[Tick]:
    """Without the steps whose data were ready before the first."""
    if not ticks:
        return []
    least = ticks[0].step + workers * PREFETCH + 1
    return [tick for tick in ticks if tick.step >= least]


def estimate(blocks: Sequence[Block]) -> Estimate | None:
    """The speed that blocks tell; None without a single clean one."""
    steady = list(blocks[_warm_up(blocks) :])
    clean = [block for block in steady if block.clean]
    if not clean:
        return None
    kept = _independent(clean)
    rates = np.array([block.rate for block in kept])
    seconds = sum(block.seconds for block in clean)
    steps = sum(block.steps for block in clean)
    half = math.inf
    if len(kept) > 1:
        spread = float(rates.std(ddof=1)) / math.sqrt(len(kept))
        half = quantile(CONFIDENCE, len(kept) - 1) * spread / float(rates.mean())
    return Estimate(
        rate=steps / seconds,
        half_width=half,
        blocks=len(kept),
        thrown_away=len(steady) - len(clean),
        cpu_s=sum(block.own_s for block in clean) / steps,
    )


def _warm_up(blocks: Sequence[Block]) -> int:
    """How many blocks at the beginning are not steady yet."""
    rates = np.array([block.rate for block in blocks])
    if len(rates) < 6:
        return 0
    cut = mser(rates, batch=1)
    return len(rates) // 2 if cut is None else cut


def _independent(blocks: list[Block]) -> list[Block]:
    """Blocks that say something new each: neighbours that are alike become one."""
    while len(blocks) >= ENOUGH_BLOCKS and _lag_1(blocks) > ALIKE:
        blocks = [_joined(a, b) for a, b in zip(blocks[::2], blocks[1::2], strict=False)]
    return blocks


def _lag_1(blocks: Sequence[Block]) -> float:
    rates = np.array([block.rate for block in blocks])
    apart = rates - rates.mean()
    total = float((apart**2).sum())
    return 0.0 if total <= 0 else float((apart[1:] * apart[:-1]).sum()) / total


def _joined(first: Block, second: Block) -> Block:
    seconds = first.seconds + second.seconds
    return Block(
        seconds=seconds,
        steps=first.steps + second.steps,
        stolen=(first.stolen * first.seconds + second.stolen * second.seconds) / seconds,
        denied=(first.denied * first.seconds + second.denied * second.seconds) / seconds,
        own_s=first.own_s + second.own_s,
    )


def drifted(rates: Sequence[float], most: float) -> bool:
    """Whether speeds of the same cell are further apart than this part of them."""
    return any(abs(a - b) > most * max(a, b) for a, b in itertools.combinations(rates, 2))
