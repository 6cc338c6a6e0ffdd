"""One task of the scheduler as processes on this server: started, watched, asked to stop, and ended for good."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Protocol

from rota.client import checkpoints
from rota.client.stalls import mean_times
from rota.core.errors import OutputError, RotaError
from rota.core.lifecycle import AttemptOutcome, TaskPhase, outcome_named
from rota.deploy.agent.descriptions import share
from rota.deploy.agent.outcome import EndedTask, LastWords
from rota.deploy.agent.start_time import StartTime
from rota.deploy.agent.task_stop import StopHost, TaskStop
from rota.deploy.agent.tasks import Key
from rota.deploy.clocks import machine_s
from rota.deploy.numbering import same_generation
from rota.deploy.structured_logs import about
from rota.deploy.worker import unheard
from rota.deploy.worker.launcher import LaunchPostponed
from rota.deploy.worker.ranks import AttemptId, Rank, RankPhase
from rota.deploy.worker.spec import TaskId, TaskSpec
from rota.deploy.worker.status import ExitReason, Phase, Status
from rota.deploy.worker.tasks import Lease
from rota.rpc import rota_pb2 as pb

log = logging.getLogger(__name__)

_LINE_BACK_S = 3.0
"""Seconds in which training code comes back to an agent that was started again, before it counts as not listening."""


class ProcessHost(StopHost, Protocol):
    """What runners share: the machine, the socket of the training code, the orders on disk."""

    async def admit(self, order: pb.TaskOrder) -> None:
        """Let the ranks of an order reach the agent. ConfigError if their tenant may not run here."""

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
        self._ids = _ids(order)
        self._status: dict[TaskId, Status] = {}
        self._stop = TaskStop(
            shared,
            self.task,
            self._ids,
            gang=order.world_size > 1,
            spread=order.world_size > order.ranks,
            grace_s=order.grace_s,
        )
        self._lease_end = machine_s() + order.lease_s
        self._start = StartTime()
        self._starting: asyncio.Task[None] | None = None
        self._failure: tuple[AttemptOutcome, str] | None = None
        self._saved: tuple[int, str] = (int(order.resume_step), order.resume)
        self._step = int(order.resume_step)
        self._ended = False
        self._answers: dict[tuple[int, str], str] = {}
        self._passed_on = 0
        self._resizes = False
        self._greeted = False
        self._adopted = False
        self._folder: Path | None = None
        self._asked_meanwhile = ""
        self._wait_for_line_until = 0.0
        self._last_words = LastWords()
        self._job_over = False

    def _about(self) -> dict[str, Any]:
        return about(job=self.key[0], epoch=self.key[1], tenant=self._order.spec.tenant)

    # What `Tasks` asks for

    @property
    def devices(self) -> Sequence[str]:
        """GPUs that it holds here."""
        return tuple(self._order.devices)

    def start(self, order: pb.TaskOrder) -> None:
        """Write it down, then start every rank in a thread."""
        self._shared.keep(order, self._lease_end)
        self._expect()
        self._starting = asyncio.get_running_loop().create_task(self._launch())

    def resume(self, lease_end: float) -> None:
        """Adopt what runs; `lease_end` is in seconds of the machine."""
        self._lease_end = lease_end
        self._adopted = True
        self._start = StartTime(known=False)
        self._wait_for_line_until = time.monotonic() + _LINE_BACK_S
        if machine_s() >= lease_end:  # its supervisor has ended it meanwhile
            self._stop.began = True
            self._stop.reason = "its lease has ended"
        self._expect()
        self.take(self.look())

    def _find_unheard_checkpoint(self) -> None:
        """What a task saved that ended before it could tell the agent which adopted it."""
        if any(rank.pid is not None for rank in self._shared.endpoint.ranks(self.task)):
            return
        try:
            spec = self._shared.host.table.spec(self._ids[0])
        except RotaError:  # it never started
            return
        step = unheard.newest(Path(spec.checkpoints), spec.user)
        if step is not None and step > self._saved[0]:
            self._saved = (step, f"{self.key[0]}/{self.key[1]}/{checkpoints.name_of(step)}")
            self._step = step

    def update(self, order: pb.TaskOrder) -> None:
        """A longer lease, and messages for a gang."""
        self._job_over = self._job_over or order.job_over
        if self._ended:
            return
        self._lease_end = machine_s() + order.lease_s
        self._stop.grace_s = order.grace_s
        self._shared.endpoint.set_lease(self.task, max(0.0, order.lease_s))
        if (order.cpus, order.memory_gb) != (self._order.cpus, self._order.memory_gb):
            self._order.cpus = order.cpus
            self._order.memory_gb = order.memory_gb
            self._resizes = True
        with contextlib.suppress(OSError):  # a full disk: what was written down before holds, and that is less
            self._shared.keep(self._order, self._lease_end)
        self._lend()
        for message in order.messages:
            if message.id > self._passed_on or not same_generation(message.id, self._passed_on):
                self._passed_on = message.id
                self._shared.endpoint.pass_on(self.task, json.loads(message.json), message.rank)

    def stop(self, reason: str, *, at_once: bool = False) -> None:
        """Ask it to save and end; TERM and KILL follow if it does not."""
        if self._ended:
            return
        if at_once:
            self._stop.end_now(reason)
        elif not self._stop.listens and time.monotonic() < self._wait_for_line_until:
            self._asked_meanwhile = reason  # `tick` asks again
        else:
            self._stop.ask(reason)
            self._lend()

    def kill(self, reason: str) -> None:
        """End it without asking."""
        self._failure = self._failure or (AttemptOutcome.FAILED, reason)
        self._stop.end_now()

    def tick(self, now: float) -> None:
        """Look after the lease: whoever was asked to stop before is killed at its end, others are asked then."""
        del now
        if self._asked_meanwhile:
            self.stop(self._asked_meanwhile)
        if not self._ended and machine_s() >= self._lease_end:
            self._stop.lease_over()

    def forget(self) -> None:
        """Nothing of it is needed any more but its logs and checkpoints."""
        for task in self._ids:
            with contextlib.suppress(RotaError):
                self._shared.host.forget(task)
        self._shared.drop(self)

    @property
    def memory_gb(self) -> float:
        """What it was given, all ranks here together; 0: no limit."""
        return float(self._order.memory_gb)

    @property
    def job_over(self) -> bool:
        """Whether the job will not go on after this attempt, as far as is known."""
        return self._job_over or (self._ended and self._outcome()[0] is AttemptOutcome.COMPLETED)

    def state(self) -> pb.TaskState:
        """How it is."""
        outcome, code, detail = self._outcome() if self._ended else (None, 0, "")
        ranks = self._shared.endpoint.ranks(self.task)
        spent = mean_times([rank.spent for rank in ranks])
        return pb.TaskState(
            job=self.key[0], epoch=self.key[1], phase=self._phase().value, step=self._step, saved_step=self._saved[0],
            saved_path=self._saved[1], outcome="" if outcome is None else outcome.value, exit_code=code, detail=detail,
            answers=[pb.GangMessage(rank=rank, json=text) for (rank, _), text in sorted(self._answers.items())],
            can_save=any(rank.saves for rank in ranks), saving=not self._ended and any(rank.saving for rank in ranks),
            save_progress=self._stop.signs,
            save_s=max((rank.longest_save_s for rank in ranks), default=0.0),
            start_s=self._start.seconds(talks=any(rank.pid is not None for rank in ranks)),
            compute_s=spent.compute_s, prepare_s=spent.prepare_s, storage_s=spent.storage_s,
            step_at_s=min(ranks, key=lambda rank: rank.step).step_at if ranks else 0.0,
            cpu_used_s=sum(status.cpu_seconds for status in self._status.values()),
            memory_used_gb=sum(status.rss_bytes for status in self._status.values()) / 1e9,
        )  # fmt: skip

    def _phase(self) -> TaskPhase:
        if self._ended:
            return TaskPhase.ENDED
        if self._starting is not None and not self._starting.done():
            return TaskPhase.STARTING
        return TaskPhase.STOPPING if self._stop.began else TaskPhase.RUNNING

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
            self._shared.host.lease(task, self._lease())

    def _lease(self) -> Lease:
        return Lease(self._lease_end, self._stop.beyond_lease_s)

    async def _launch(self) -> None:
        try:
            await self._shared.admit(self._order)
            for task in self._ids:
                self._status[task] = await asyncio.to_thread(
                    self._shared.host.start, self._shared.spec(self._order, task), self._lease()
                )
            self._start.launched()
            self._lend()
        except (RotaError, OSError) as error:
            log.warning("job %d cannot start: %s", self.key[0], error, extra=self._about())
            self._failure = (_outcome_of_failed_start(error), str(error))
            self._stop.end_now()
            if not self._status:
                self._ended = True
        self._changed()

    def _resize(self) -> None:
        """Other CPUs and memory for the processes that run. If that fails they keep what they have."""
        for task in self._ids:
            try:
                self._shared.host.resize(task, *share(self._order))
            except RotaError as error:  # noqa: PERF203 - each rank by itself
                log.warning("job %d keeps its CPUs and memory: %s", self.key[0], error, extra=self._about())

    def look(self) -> dict[TaskId, Status]:
        """The ranks as the machine sees them (reads files; called in a thread)."""
        if self._resizes:
            self._resizes = False
            self._resize()
        statuses: dict[TaskId, Status] = {}
        self._stop.advance(self._checkpoints() if self._stop.began else None)
        for task in self._ids:
            statuses[task] = self._shared.host.status(task)
        unheard = self._adopted or self._stop.began
        if unheard and all(status.phase is Phase.ENDED for status in statuses.values()):
            self._find_unheard_checkpoint()
        return statuses

    def _checkpoints(self) -> Path | None:
        """Folder into which its ranks save, as they were told when they started; None: not started yet."""
        if self._folder is None:
            with contextlib.suppress(RotaError):
                self._folder = Path(self._shared.host.table.spec(self._ids[0]).checkpoints)
        return self._folder

    def take(self, statuses: dict[TaskId, Status]) -> None:
        """Draw conclusions from what was seen."""
        self._status = statuses
        self._stop.note_time_over()
        over = [task for task, status in statuses.items() if status.phase is Phase.ENDED]
        if len(over) == len(statuses):
            if self._last_words.awaited(self._shared.endpoint.ranks(self.task)):
                return
            self._ended = True
            self._changed()
            return
        notice = next((status.notice for status in statuses.values() if status.notice), "")
        if notice and not self._stop.began:
            self.stop(notice)
        bad = [task for task in over if not self._left_well(task)]
        if bad and not self._stop.began and self._failure is None:
            for task in bad:
                self._shared.endpoint.lost(self.task, task.rank)
            exit_ = statuses[bad[0]].exit
            how = "" if exit_ is None else f"exit code {exit_.code}, signal {exit_.signal}"
            self._failure = (AttemptOutcome.FAILED, f"rank {bad[0].rank} died ({how}); the others were ended")
            self._stop.end_now()

    def _left_well(self, task: TaskId) -> bool:
        exit_ = self._status[task].exit
        return exit_ is not None and exit_.reason is ExitReason.COMPLETED

    # The training code inside

    def heard(self, rank: Rank) -> None:
        """A rank said something about itself."""
        known = self._shared.endpoint.ranks(self.task)
        self._step = min((r.step for r in known), default=self._step)
        self._stop.heard(rank)
        if self._step > self._order.resume_step:
            self._start.stepped()
        if rank.saves and not self._greeted:
            self._greeted = True  # worth a report: it can save
            self._changed()
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
        ended = EndedTask(
            statuses=self._status.values(),
            phases={rank.phase for rank in self._shared.endpoint.ranks(self.task)},
            stop=self._stop,
            adopted=self._adopted,
            saved_step=self._saved[0],
            steps=int(self._order.spec.steps),
        )
        return ended.outcome() if self._failure is None else (self._failure[0], ended.code(), self._failure[1])


def _outcome_of_failed_start(error: Exception) -> AttemptOutcome:
    """A full disk of this server, or no room in its batch system, is no fault of the job."""
    if isinstance(error, LaunchPostponed):
        return AttemptOutcome.STOPPED
    return AttemptOutcome.LOST if isinstance(error, OSError | OutputError) else AttemptOutcome.FAILED


def _ids(order: pb.TaskOrder) -> list[TaskId]:
    ranks = range(order.first_rank, order.first_rank + order.ranks)
    return [TaskId(str(order.job), int(order.epoch), rank) for rank in ranks]
