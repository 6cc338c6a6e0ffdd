"""Real jobs on this server: processes that outlive the agent, and the line to the training code inside them.

A task of the scheduler is one or several ranks here, each a process under its own supervisor (`deploy.worker`).
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Protocol

from rota.core import files
from rota.core.errors import RotaError
from rota.core.lifecycle import AttemptOutcome, TaskPhase, outcome_named
from rota.deploy.agent.descriptions import describe, share
from rota.deploy.agent.emulated import machine_s
from rota.deploy.agent.tasks import Key, Runner
from rota.deploy.worker.endpoint import Endpoint
from rota.deploy.worker.host import Host
from rota.deploy.worker.inventory import Machine, inspect
from rota.deploy.worker.ranks import Rank, Task
from rota.deploy.worker.spec import TaskId, TaskSpec
from rota.deploy.worker.status import Phase, Reason, Status
from rota.deploy.worker.stopping import Ending
from rota.rpc import rota_pb2 as pb

log = logging.getLogger(__name__)

_POLL_S = 0.1
_STOP_S, _GANG_STOP_S, _TERM_S = 10.0, 30.0, 5.0
"""How long a job may take to stop by itself when it talks to us (alone, in a gang), and after TERM."""


class Offered(Protocol):
    """Emulated devices for processes."""

    def environment(self, order: pb.TaskOrder) -> dict[str, str]:
        """What a process of a job has to know to use them."""


class Processes:
    """Makes and looks after runners of processes."""

    def __init__(self, folder: Path, machine: Machine | None = None, devices: Offered | None = None) -> None:
        self.host = Host(folder / "work", machine or inspect())
        self.devices = devices
        self.root = folder / "checkpoints"
        self._logs = folder / "logs"
        self._orders = folder / "orders"
        self._orders.mkdir(parents=True, exist_ok=True)
        self.endpoint = Endpoint(
            folder / "run" / "agent.sock", on_change=self._heard, on_answer=self._answered, on_broken=self._broken
        )
        self._runners: dict[Task, ProcessRunner] = {}
        self._some = asyncio.Event()
        self._changed: Callable[[], None] = lambda: None
        self._polling: asyncio.Task[None] | None = None

    def describe(self) -> str:
        """How limits are enforced here."""
        return self.host.describe()

    async def open(self, root: Path, changed: Callable[[], None]) -> None:
        """Begin to listen to jobs."""
        self.root, self._changed = root, changed
        await self.endpoint.start()
        self._polling = asyncio.create_task(self._poll())

    async def close(self) -> None:
        """Leave; jobs go on until their leases end."""
        if self._polling is not None:
            self._polling.cancel()
            await asyncio.gather(self._polling, return_exceptions=True)
        await self.endpoint.close()
        self.host.close()

    def make(self, order: pb.TaskOrder, changed: Callable[[], None]) -> Runner:
        """A runner for an order."""
        runner = ProcessRunner(self, order, changed)
        self._add(runner)
        return runner

    def _add(self, runner: ProcessRunner) -> None:
        self._runners[runner.task] = runner
        self._some.set()

    def recover(self) -> Iterator[Runner]:
        """Runners of tasks that were here before the agent was started again."""
        self.host.recover()
        for path in sorted(self._orders.glob("*.order")):
            try:
                kept = json.loads(path.read_text(encoding="utf-8"))
                order = pb.TaskOrder.FromString(bytes.fromhex(kept["order"]))
            except (OSError, ValueError, KeyError) as error:
                log.warning("%s cannot be read (%s); its task is given up", path, error)
                path.unlink(missing_ok=True)
                continue
            runner = ProcessRunner(self, order, self._changed)
            runner.resume(kept["lease_end"])
            self._add(runner)
            yield runner

    def log(self, job: int, rank: int) -> list[Path]:
        """The output of the last attempt of a rank that ran here: what it wrote to standard output and error."""
        found = [path for path in self._logs.glob(f"{job}.*.{rank}") if path.is_dir()]
        if not found:
            return []
        last = max(found, key=lambda path: int(path.name.split(".")[1]))
        return [path for path in (last / "stdout.log", last / "stderr.log") if path.is_file()]

    def keep(self, order: pb.TaskOrder, lease_end: float) -> None:
        """Remember an order, so that its task can be adopted."""
        path = self._orders / f"{order.job}.{order.epoch}.order"
        text = json.dumps({"order": order.SerializeToString().hex(), "lease_end": lease_end})
        files.write_text(path, text, durable=False)  # after a power cut nothing runs any more

    def drop(self, runner: ProcessRunner) -> None:
        """Its end was acknowledged."""
        (self._orders / f"{runner.key[0]}.{runner.key[1]}.order").unlink(missing_ok=True)
        self.endpoint.forget(runner.task)
        self._runners.pop(runner.task, None)
        if not self._runners:
            self._some.clear()

    def spec(self, order: pb.TaskOrder, task: TaskId) -> TaskSpec:
        """What a rank is started as. Logs stay after its end."""
        own = {} if self.devices is None else self.devices.environment(order)
        own["ROTA_SOCKET"] = str(self.endpoint.path)
        return describe(order, task, root=self.root, logs=self._logs, run=self.endpoint.path.parent, env=own)

    # Events of the endpoint and the machine

    def _heard(self, rank: Rank) -> None:
        runner = self._runners.get(rank.task)
        if runner is not None:
            runner.heard(rank)

    def _answered(self, task: Task, rank: int, message: dict[str, Any]) -> None:
        runner = self._runners.get(task)
        if runner is not None:
            runner.answered(rank, message)

    def _broken(self, task: Task, reason: str) -> None:
        runner = self._runners.get(task)
        if runner is not None:
            runner.kill(reason)

    async def _poll(self) -> None:
        """Look at the processes; files are read in a thread, so that nobody waits for a disk. Without any it sleeps."""
        while True:
            await self._some.wait()
            await asyncio.sleep(_POLL_S)
            for runner in list(self._runners.values()):
                if runner.alive:
                    found = await asyncio.to_thread(runner.look)
                    runner.take(found)


class ProcessRunner:
    """One task of the scheduler: its ranks on this server."""

    def __init__(self, place: Processes, order: pb.TaskOrder, changed: Callable[[], None]) -> None:
        self.key: Key = (order.job, order.epoch)
        self.task = Task(str(order.job), int(order.epoch))
        self._place, self._order, self._changed = place, order, changed
        self._ids = [
            TaskId(str(order.job), int(order.epoch), rank)
            for rank in range(order.first_rank, order.first_rank + order.ranks)
        ]
        self._status: dict[TaskId, Status] = {}
        self._endings: dict[TaskId, Ending] = {}
        self._lease_end = machine_s() + order.lease_s
        self._stopping = ""
        self._began_stop = self._hurried = False
        self._starting: asyncio.Task[None] | None = None
        self._failure: tuple[AttemptOutcome, str] | None = None
        self._saved: tuple[int, str] = (int(order.resume_step), order.resume)
        self._step = int(order.resume_step)
        self._ended = False
        self._answers: dict[tuple[int, str], str] = {}
        self._passed_on = 0
        self._resizes = False

    # What Tasks asks for

    def start(self, order: pb.TaskOrder) -> None:
        """Write it down, then start every rank in a thread."""
        self._place.keep(order, self._lease_end)
        self._expect()
        self._starting = asyncio.get_running_loop().create_task(self._launch())

    def resume(self, lease_end: float) -> None:
        """Adopt what runs; `lease_end` is in seconds of the machine."""
        self._lease_end = lease_end
        if machine_s() >= lease_end:  # its supervisor has ended it meanwhile
            self._began_stop, self._stopping = True, "its lease has ended"
        self._expect()
        self.take(self.look())

    def update(self, order: pb.TaskOrder) -> None:
        """A longer lease, and messages for a gang."""
        if self._ended:
            return
        self._lease_end = machine_s() + order.lease_s
        self._place.endpoint.set_lease(self.task, max(0.0, order.lease_s))
        if (order.cpus, order.memory_gb) != (self._order.cpus, self._order.memory_gb):
            self._order.cpus, self._order.memory_gb = order.cpus, order.memory_gb
            self._resizes = True
        self._place.keep(self._order, self._lease_end)
        self._lend()
        for message in order.messages:
            if message.id > self._passed_on:
                self._passed_on = message.id
                self._place.endpoint.pass_on(self.task, json.loads(message.json), message.rank)

    def stop(self, reason: str, *, at_once: bool = False) -> None:
        """Ask it to save and end; TERM and KILL follow if it does not."""
        if self._ended or self._hurried or (self._began_stop and not at_once):
            return
        self._began_stop, self._stopping, self._hurried = True, self._stopping or reason, at_once
        if at_once:
            self._endings.clear()
        patience = 0.0 if at_once else self._patience()
        spread = self._order.world_size > self._order.ranks
        if patience and not spread:
            with contextlib.suppress(RotaError):
                self._place.endpoint.stop(self.task)
        self._begin_ending(patience)

    def _patience(self) -> float:
        """How long it may take to stop by itself: not at all if it does not listen."""
        talks = any(rank.connected for rank in self._place.endpoint.ranks(self.task))
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
                self._place.host.forget(task)
        self._place.drop(self)

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
        endpoint = self._place.endpoint
        endpoint.expect(self.task, [task.rank for task in self._ids], int(self._order.world_size))
        endpoint.set_lease(self.task, max(0.0, self._lease_end - machine_s()))

    def _lend(self) -> None:
        for task in self._ids:
            self._place.host.lease(task, self._lease_end, self._patience())

    async def _launch(self) -> None:
        try:
            for task in self._ids:
                self._status[task] = await asyncio.to_thread(
                    self._place.host.start, self._place.spec(self._order, task)
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
                self._place.host.resize(task, *share(self._order))
            except RotaError as error:  # noqa: PERF203 - each rank by itself
                log.warning("job %d keeps its CPUs and memory: %s", self.key[0], error)

    def look(self) -> dict[TaskId, Status]:
        """The ranks as the machine sees them (reads files; called in a thread)."""
        if self._resizes:
            self._resizes = False
            self._resize()
        found: dict[TaskId, Status] = {}
        for task in self._ids:
            ending = self._endings.get(task)
            if ending is not None:
                ending.advance(time.monotonic())
            found[task] = self._place.host.status(task)
        return found

    def take(self, found: dict[TaskId, Status]) -> None:
        """Draw conclusions from what was seen."""
        self._status = found
        over = [task for task, status in found.items() if status.phase is Phase.ENDED]
        if len(over) == len(found):
            self._ended = True
            self._changed()
            return
        bad = [task for task in over if not self._left_well(task)]
        if bad and not self._began_stop and self._failure is None:
            for task in bad:
                self._place.endpoint.lost(self.task, task.rank)
            exit_ = found[bad[0]].exit
            how = "" if exit_ is None else f"exit code {exit_.code}, signal {exit_.signal}"
            self._failure = (AttemptOutcome.FAILED, f"rank {bad[0].rank} died ({how}); the others were ended")
            self._begin_ending(0.0)

    def _left_well(self, task: TaskId) -> bool:
        exit_ = self._status[task].exit
        return exit_ is not None and exit_.reason is Reason.COMPLETED

    def _begin_ending(self, gentle_s: float) -> None:
        now = time.monotonic()
        for task in self._ids:
            with contextlib.suppress(RotaError):
                self._endings.setdefault(task, self._place.host.ending(task, gentle_s, _TERM_S, now))

    # The training code inside

    def heard(self, rank: Rank) -> None:
        """A rank said something about itself."""
        known = self._place.endpoint.ranks(self.task)
        self._step = min((r.step for r in known), default=self._step)
        if rank.saved is not None and rank.saved > self._saved[0] and rank.saved_path:
            self._saved = (rank.saved, f"{self.key[0]}/{self.key[1]}/{rank.saved_path}")
            self._changed()
        if rank.phase == "failed":
            self._failure = outcome_named(rank.failure or AttemptOutcome.FAILED.value, rank.detail or "")
        if rank.over:
            self._answers[rank.rank, "end"] = json.dumps({"op": rank.phase, "step": rank.step})
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
        worst = next((e for e in exits if e.reason is not Reason.COMPLETED), None)
        phases = {rank.phase for rank in self._place.endpoint.ranks(self.task)}
        if worst is None:
            forced = any(ending.forced for ending in self._endings.values())
            stopped = ("stopped" in phases or forced) and "done" not in phases
            if stopped:
                return AttemptOutcome.STOPPED, 0, self._stopping
            return AttemptOutcome.COMPLETED, 0, ""
        if self._began_stop and worst.reason is Reason.KILLED:
            return AttemptOutcome.STOPPED, code, self._stopping
        return AttemptOutcome(worst.reason.value), code, worst.detail
