"""Measures how fast jobs run, from the steps that agents report: blocks of time in which a job did nothing but train.

A block is at least two heartbeats and five steps long, from the end of a step to the end of a step by the clock of the
server. Left out are the start of an attempt up to its first step and the block after that, blocks in which a checkpoint
was written (unless it takes next to no time, or there is one in every block), what comes after the request to stop,
jobs that share their GPUs, and time in which the agent was not heard of. When CPUs, memory or servers change, a new
block begins.

Kept in memory only: what was measured is in the journal as `SpeedMeasured`; a restart loses a few blocks.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from rota.core.lifecycle import TaskPhase
from rota.deploy.events import Part, SpeedMeasured
from rota.deploy.scheduler.heartbeats import Heartbeats, TaskReport
from rota.deploy.scheduler.learned_speeds import FASTEST, SLOWEST, SpeedCell
from rota.deploy.scheduler.records import Attempt, AttemptKey, Job
from rota.deploy.scheduler.registry import Registry
from rota.deploy.scheduler.speed_names import speed_name

_BLOCK_HEARTBEATS = 2.0
_LEAST_STEPS = 5
_LONGEST_SAVE = 0.02
"""Of a block; a checkpoint that takes longer makes the block say nothing about steps, ..."""
_MOST_WITH_SAVES = 4
"""... unless there is one in all of the last blocks: then saving is part of the speed."""
_MOST_APART = 2.0
"""Factor between the length of a block as the job tells it and as the scheduler saw it."""
_LONGEST_SILENCE_HEARTBEATS = 4.0
_LONGEST_SILENCE_S = 3.0
"""Wall seconds; the longer one of the two."""
_BLOCKS_AT_ONCE = 4
"""Blocks of an attempt that are written down together, ..."""
_BLOCKS_AT_ONCE_LATER = 16
"""... and when much is known already, ..."""
_MUCH = 32
"""... which is from so many blocks on."""


@dataclass(frozen=True, slots=True)
class _Mark:
    """Where a block began."""

    at: float
    """When the report came."""
    step_at: float
    """When the step was finished, by the clock of its server; 0: not known."""
    step: int
    saved_step: int


@dataclass(slots=True)
class _Watch:
    """One attempt."""

    parts: tuple[Part, ...]
    share: float
    begun: _Mark | None = None
    warm: bool = False
    """Whether the first block is over."""
    heard: float = 0.0
    with_saves: int = 0
    """Blocks in a row that have a checkpoint in them."""
    rates: list[float] = field(default_factory=list)


class SpeedMeter:
    """Watches attempts. Used by the thread that owns the registry."""

    def __init__(self, registry: Registry, heartbeats: Heartbeats, heartbeat_s: float, time_scale: float) -> None:
        self._registry = registry
        self._heartbeats = heartbeats
        self._heartbeat_s = heartbeat_s * time_scale
        self._scale = time_scale
        self._watches: dict[AttemptKey, _Watch] = {}
        self.shares: Mapping[int, float] = {}
        """By job that runs alone: its speed with what it holds, relative to the proportional share on one server."""

    def measured(self, node: str, now: float) -> list[SpeedMeasured]:
        """What the last report of a node says about the speeds of jobs whose first rank is there."""
        events: list[SpeedMeasured] = []
        tasks = self._heartbeats.of(node).tasks
        attempts = self._registry.attempts_on(node)
        held = Counter(device for _, attempt in attempts for device in _devices_on(node, attempt))
        for job, attempt in attempts:
            task = tasks.get((job.id, attempt.epoch))
            if attempt.nodes[0] == node and task is not None and speed_name(job.spec):
                alone = all(held[device] == 1 for device in _devices_on(node, attempt))
                events += self._of_attempt(job, attempt, task, now, alone=alone)
        if len(self._watches) > 2 * len(self._registry.running):
            self._forget_ended()
        return events

    def _of_attempt(
        self, job: Job, attempt: Attempt, task: TaskReport, now: float, *, alone: bool
    ) -> list[SpeedMeasured]:
        key = (job.id, attempt.epoch)
        share = self.shares.get(job.id, 0.0)
        watch = self._watches.get(key)
        events: list[SpeedMeasured] = []
        if watch is not None and (watch.parts != attempt.parts or watch.share != share):
            events = self._written(job, attempt, watch, now, at_least=1)
            watch = None
        if watch is None:
            watch = _Watch(parts=attempt.parts, share=share)
            self._watches[key] = watch
        over = attempt.stopping or task.phase is not TaskPhase.RUNNING
        if over or share <= 0 or task.saving or not alone:
            watch.begun = None
        else:
            self._follow(watch, attempt, task, now)
        return events + self._written(job, attempt, watch, now, at_least=1 if over else self._at_once(job, watch))

    def _follow(self, watch: _Watch, attempt: Attempt, task: TaskReport, now: float) -> None:
        """One more report of a job that trains."""
        silent = now - watch.heard > max(
            _LONGEST_SILENCE_HEARTBEATS * self._heartbeat_s, _LONGEST_SILENCE_S * self._scale
        )
        watch.heard = now
        here = _Mark(now, task.step_at_s * self._scale, task.step, task.saved_step)
        begun = watch.begun
        if begun is None or silent or task.step < begun.step:
            watch.begun = here if task.step > attempt.resume_step else None
            return
        steps = here.step - begun.step
        if now - begun.at < _BLOCK_HEARTBEATS * self._heartbeat_s or steps < _LEAST_STEPS:
            return
        watch.begun = here
        seconds = here.step_at - begun.step_at if here.step_at and begun.step_at else now - begun.at
        saved = here.saved_step > begun.saved_step and task.save_s * self._scale > _LONGEST_SAVE * seconds
        watch.with_saves = watch.with_saves + 1 if saved else 0
        sound = watch.warm and _plausible(seconds, now - begun.at) and SLOWEST <= steps / seconds <= FASTEST
        if sound and (not saved or watch.with_saves > _MOST_WITH_SAVES):
            watch.rates.append(steps / seconds)
        watch.warm = True

    def _written(self, job: Job, attempt: Attempt, watch: _Watch, now: float, *, at_least: int) -> list[SpeedMeasured]:
        """The blocks so far as an event, if there are so many."""
        if len(watch.rates) < at_least or watch.share <= 0:
            return []
        cell = self._cell(job, watch)
        rates = tuple(float(f"{rate:.6g}") for rate in watch.rates)
        watch.rates = []
        return [
            SpeedMeasured(
                at=now,
                job=job.id,
                epoch=attempt.epoch,
                name=cell.name,
                type=cell.type,
                cpus=cell.cpus,
                memory_gb=cell.memory_gb,
                servers=cell.servers,
                share=watch.share,
                rates=rates,
            )
        ]

    def _at_once(self, job: Job, watch: _Watch) -> int:
        known = self._registry.speeds.cells.get(self._cell(job, watch))
        return _BLOCKS_AT_ONCE if known is None or known.blocks < _MUCH else _BLOCKS_AT_ONCE_LATER

    def _cell(self, job: Job, watch: _Watch) -> SpeedCell:
        node = self._registry.nodes.get(watch.parts[0].node)
        return SpeedCell(
            tenant=job.tenant,
            name=speed_name(job.spec),
            gpus=job.spec.gpus,
            type="" if node is None else node.joined.type,
            cpus=round(sum(part.cpus for part in watch.parts), 3),
            memory_gb=round(sum(part.memory_gb for part in watch.parts), 3),
            servers=len(watch.parts),
        )

    def _forget_ended(self) -> None:
        running = self._registry.running
        epochs = {number: job.attempt.epoch for number, job in running.items() if job.attempt is not None}
        self._watches = {key: watch for key, watch in self._watches.items() if epochs.get(key[0]) == key[1]}


def _devices_on(node: str, attempt: Attempt) -> list[str]:
    return [device for part in attempt.parts if part.node == node for device in part.devices]


def _plausible(seconds: float, between_reports: float) -> bool:
    """Whether a block that is so long by the clock of its job can be that long, as the scheduler saw it."""
    return between_reports / _MOST_APART <= seconds <= between_reports * _MOST_APART
