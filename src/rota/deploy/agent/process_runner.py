"""One task of the scheduler as processes on this server: started, watched, asked to stop, and ended for good."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import time
from collections.abc import Callable
from typing import Any, Protocol

from rota.core.errors import RotaError
from rota.core.lifecycle import AttemptOutcome, TaskPhase, outcome_named
from rota.deploy.agent.descriptions import share
from rota.deploy.agent.emulated import machine_s
from rota.deploy.agent.tasks import Key
from rota.deploy.worker.endpoint import Endpoint
from rota.deploy.worker.host import Host
from rota.deploy.worker.ranks import AttemptId, Rank, RankPhase
from rota.deploy.worker.spec import TaskId, TaskSpec
from rota.deploy.worker.status import ExitReason, Phase, Status
from rota.deploy.worker.stopping import Ending
from rota.rpc import rota_pb2 as pb

log = logging.getLogger(__name__)

_STOP_S = 10.0
"""Seconds that a job may take to stop by itself when it talks to us."""
_GANG_STOP_S = 30.0
"""The same for a gang."""
_TERM_S = 5.0
"""Seconds that it may take after TERM."""


class ProcessHost(Protocol):
    """What runners share: the machine, the socket of the training code, the orders on disk."""

    host: Host
    endpoint: Endpoint

    def spec(self, order: pb.TaskOrder, task: TaskId) -> TaskSpec:
        """What a rank is started as."""

    def keep(self, order: pb.TaskOrder, lease_end: float) -> None:
        """Remember an order, so that its task can be adopted."""

    def drop(self, runner: ProcessRunner) -> None:
        """The end of its task was acknowledged."""


class ProcessRunner:
    """One task of the scheduler: its ranks on this server."""

    def __init__(self, shared: ProcessHost, order: pb.TaskOrder, changed: Callable[[], None]) -> None:
        self.key: Key = (order.job, order.epoch)
        self.task = AttemptId(str(order.job), int(order.epoch))
        self._shared = shared
        self._order = order
        self._changed = changed
        self._ids = [
            TaskId(str(order.job), int(order.epoch), rank)
            for rank in range(order.first_rank, order.first_rank + order.ranks)
        ]
        self._status: dict[TaskId, Status] = {}
        self._endings: dict[TaskId, Ending] = {}
        self._lease_end = machine_s() + order.lease_s
        self._stopping = ""
        self._began_stop = False
        self._hurried = False
        self._starting: asyncio.Task[None] | None = None
        self._failure: tuple[AttemptOutcome, str] | None = None
        self._saved: tuple[int, str] = (int(order.resume_step), order.resume)
        self._step = int(order.resume_step)
        self._ended = False
        self._answers: dict[tuple[int, str], str] = {}
        self._passed_on = 0
        self._resizes = False

    # What `Tasks` asks for

    def start(self, order: pb.TaskOrder) -> None:
        """Write it down, then start every rank in a thread."""
        self._shared.keep(order, self._lease_end)
        self._expect()
        self._starting = asyncio.get_running_loop().create_task(self._launch())

    def resume(self, lease_end: float) -> None:
        """Adopt what runs; `lease_end` is in seconds of the machine."""
        self._lease_end = lease_end
        if machine_s() >= lease_end:  # its supervisor has ended it meanwhile
            self._began_stop = True
            self._stopping = "its lease has ended"
        self._expect()
        self.take(self.look())

    def update(self, order: pb.TaskOrder) -> None:
        """A longer lease, and messages for a gang."""
        if self._ended:
            return
        self._lease_end = machine_s() + order.lease_s
        self._shared.endpoint.set_lease(self.task, max(0.0, order.lease_s))
        if (order.cpus, order.memory_gb) != (self._order.cpus, self._order.memory_gb):
            self._order.cpus = order.cpus
            self._order.memory_gb = order.memory_gb
            self._resizes = True
        self._shared.keep(self._order, self._lease_end)
        self._lend()
        for message in order.messages:
            if message.id > self._passed_on:
                self._passed_on = message.id
                self._shared.endpoint.pass_on(self.task, json.loads(message.json), message.rank)

    def stop(self, reason: str, *, at_once: bool = False) -> None:
        """Ask it to save and end; TERM and KILL follow if it does not."""
        if self._ended or self._hurried or (self._began_stop and not at_once):
            return
        self._began_stop = True
        self._stopping = self._stopping or reason
        self._hurried = at_once
        if at_once:
            self._endings.clear()
        patience = 0.0 if at_once else self._patience()
        spread = self._order.world_size > self._order.ranks
        if patience and not spread:
            with contextlib.suppress(RotaError):
                self._shared.endpoint.stop(self.task)
        self._begin_ending(patience)

    def _patience(self) -> float:
        """How long it may take to stop by itself: not at all if it does not listen."""
        talks = any(rank.connected for rank in self._shared.endpoint.ranks(self.task))
        return (_GANG_STOP_S if self._order.world_size > 1 else _STOP_S) if talks else 0.0

    def kill(self, reason: str) -> None:
        """End it without asking."""
        self._failure = self._failure or (AttemptOutcome.FAILED, reason)
        self._begin_ending(0.0)

    def tick(self, now: float) -> None:
        """Look after the lease."""
        del now
        if not self._ended and machine_s() >= self._lease_end:
            self.stop("its lease has ended")

    def forget(self) -> None:
        """Nothing of it is needed any more but its logs and checkpoints."""
        for task in self._ids:
            with contextlib.suppress(RotaError):
                self._shared.host.forget(task)
        self._shared.drop(self)

    def state(self) -> pb.TaskState:
        """How it is."""
        outcome, code, detail = self._outcome() if self._ended else (None, 0, "")
        return pb.TaskState(
            job=self.key[0], epoch=self.key[1], phase=self._phase().value, step=self._step, saved_step=self._saved[0],
            saved_path=self._saved[1], outcome="" if outcome is None else outcome.value, exit_code=code, detail=detail,
            answers=[pb.GangMessage(rank=rank, json=text) for (rank, _), text in sorted(self._answers.items())],
        )  # fmt: skip

    def _phase(self) -> TaskPhase:
        if self._ended:
            return TaskPhase.ENDED
        if self._starting is not None and not self._starting.done():
            return TaskPhase.STARTING
        return TaskPhase.STOPPING if self._began_stop else TaskPhase.RUNNING

    # Processes

    @property
    def alive(self) -> bool:
        """Whether there is something to look at."""
        return not self._ended and (self._starting is None or self._starting.done())

    def _expect(self) -> None:
        endpoint = self._shared.endpoint
        endpoint.expect(self.task, [task.rank for task in self._ids], int(self._order.world_size))
        endpoint.set_lease(self.task, max(0.0, self._lease_end - machine_s()))

    def _lend(self) -> None:
        for task in self._ids:
            self._shared.host.lease(task, self._lease_end, self._patience())

    async def _launch(self) -> None:
        try:
            for task in self._ids:
                self._status[task] = await asyncio.to_thread(
                    self._shared.host.start, self._shared.spec(self._order, task)
                )
            self._lend()
        except (RotaError, OSError) as error:
            log.warning("job %d cannot start: %s", self.key[0], error)
            self._failure = (AttemptOutcome.FAILED, str(error))
            self._begin_ending(0.0)
            if not self._status:
                self._ended = True
        self._changed()

    def _resize(self) -> None:
        """Other CPUs and memory for the processes that run. If that fails they keep what they have."""
        for task in self._ids:
            try:
                self._shared.host.resize(task, *share(self._order))
            except RotaError as error:  # noqa: PERF203 - each rank by itself
                log.warning("job %d keeps its CPUs and memory: %s", self.key[0], error)

    def look(self) -> dict[TaskId, Status]:
        """The ranks as the machine sees them (reads files; called in a thread)."""
        if self._resizes:
            self._resizes = False
            self._resize()
        statuses: dict[TaskId, Status] = {}
        for task in self._ids:
            ending = self._endings.get(task)
            if ending is not None:
                ending.advance(time.monotonic())
            statuses[task] = self._shared.host.status(task)
        return statuses

    def take(self, statuses: dict[TaskId, Status]) -> None:
        """Draw conclusions from what was seen."""
        self._status = statuses
        over = [task for task, status in statuses.items() if status.phase is Phase.ENDED]
        if len(over) == len(statuses):
            self._ended = True
            self._changed()
            return
        bad = [task for task in over if not self._left_well(task)]
        if bad and not self._began_stop and self._failure is None:
            for task in bad:
                self._shared.endpoint.lost(self.task, task.rank)
            exit_ = statuses[bad[0]].exit
            how = "" if exit_ is None else f"exit code {exit_.code}, signal {exit_.signal}"
            self._failure = (AttemptOutcome.FAILED, f"rank {bad[0].rank} died ({how}); the others were ended")
            self._begin_ending(0.0)

    def _left_well(self, task: TaskId) -> bool:
        exit_ = self._status[task].exit
        return exit_ is not None and exit_.reason is ExitReason.COMPLETED

    def _begin_ending(self, gentle_s: float) -> None:
        now = time.monotonic()
        for task in self._ids:
            with contextlib.suppress(RotaError):
                self._endings.setdefault(task, self._shared.host.ending(task, gentle_s, _TERM_S, now))

    # The training code inside

    def heard(self, rank: Rank) -> None:
        """A rank said something about itself."""
        known = self._shared.endpoint.ranks(self.task)
        self._step = min((r.step for r in known), default=self._step)
        if rank.saved is not None and rank.saved > self._saved[0] and rank.saved_path:
            self._saved = (rank.saved, f"{self.key[0]}/{self.key[1]}/{rank.saved_path}")
            self._changed()
        if rank.phase is RankPhase.FAILED:
            self._failure = outcome_named(rank.failure or AttemptOutcome.FAILED.value, rank.detail or "")
        if rank.over:
            self._answers[rank.rank, "end"] = json.dumps({"op": rank.phase.value, "step": rank.step})
            self._changed()

    def answered(self, rank: int, message: dict[str, Any]) -> None:
        """A rank answered about where to stop; the scheduler leads that for gangs over several servers."""
        if self._order.world_size > self._order.ranks:
            self._answers[rank, str(message.get("op"))] = json.dumps(message)
            self._changed()

    def _outcome(self) -> tuple[AttemptOutcome, int, str]:
        """What became of the task, from the exits of its processes and the last words of the training code."""
        exits = [status.exit for status in self._status.values() if status.exit is not None]
        code = next((e.code if e.code is not None else 128 + (e.signal or 0) for e in exits if e.code != 0), 0)
        if self._failure is not None:
            return self._failure[0], code, self._failure[1]
        worst = next((e for e in exits if e.reason is not ExitReason.COMPLETED), None)
        phases = {rank.phase for rank in self._shared.endpoint.ranks(self.task)}
        if worst is None:
            forced = any(ending.forced for ending in self._endings.values())
            stopped = (RankPhase.STOPPED in phases or forced) and RankPhase.DONE not in phases
            if stopped:
                return AttemptOutcome.STOPPED, 0, self._stopping
            return AttemptOutcome.COMPLETED, 0, ""
        if self._began_stop and worst.reason is ExitReason.KILLED:
            return AttemptOutcome.STOPPED, code, self._stopping
        return AttemptOutcome(worst.reason.value), code, worst.detail
