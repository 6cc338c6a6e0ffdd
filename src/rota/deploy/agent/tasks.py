"""What runs on this server, brought in line with the scheduler's list.

The list is the whole truth: what is on it and unknown here starts, what is here and not on it ends. A task that ended
is reported until it is off the list, so its end cannot be missed.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from typing import Protocol

from rota.core.errors import OutputError, RotaError
from rota.core.lifecycle import AttemptOutcome, TaskCommand, TaskPhase
from rota.deploy.agent.job_mapping import JobMapping
from rota.deploy.structured_logs import about
from rota.rpc import rota_pb2 as pb

log = logging.getLogger(__name__)

_LONGEST_DETAIL = 4096
"""Characters of what is told about the end of a task."""

Key = tuple[int, int]
"""(job, epoch)"""
_COMMANDS = {command.value: command for command in TaskCommand}


def command_of(order: pb.TaskOrder) -> TaskCommand:
    """What has to be done with a task; a word that this agent does not know is no permission to run."""
    return _COMMANDS.get(order.state, TaskCommand.STOP)


class Runner(Protocol):
    """One task on this server, in whatever way it runs."""

    key: Key

    @property
    def devices(self) -> Sequence[str]:
        """GPUs that it holds here."""

    def start(self, order: pb.TaskOrder) -> None:
        """Begin; what goes wrong is a state, not an error."""

    def update(self, order: pb.TaskOrder) -> None:
        """A newer order for the same task: lease, CPUs and memory, speed, agreement on where to stop."""

    def stop(self, reason: str, *, at_once: bool = False) -> None:
        """End it, gracefully if there is time; saying so again does no harm."""

    def state(self) -> pb.TaskState:
        """How it is."""

    def tick(self, now: float) -> None:
        """Called a few times a second: look after leases and processes."""

    def forget(self) -> None:
        """Its end was acknowledged: nothing of it is needed any more."""


Make = Callable[[pb.TaskOrder, Callable[[], None]], Runner]
"""From an order and what to call on a change to a runner that was not started yet."""


class Tasks:
    """All tasks of the agent."""

    def __init__(self, make: Make, changed: Callable[[], None], mapping: JobMapping | None = None) -> None:
        self._make = make
        self._mapping = mapping
        self._changed = changed
        self._all: dict[Key, Runner] = {}
        self._refused: dict[Key, pb.TaskState] = {}
        self.taken_over = 0
        """Version of the list that was carried out last."""

    def adopt(self, runners: Iterable[Runner]) -> None:
        """Tasks that were running before the agent was started again."""
        for runner in runners:
            self._all[runner.key] = runner
        self.map_jobs()

    def take(self, desired: pb.Desired) -> None:
        """Bring tasks in line with a list: the newest one of the stream that is open now."""
        wanted = {(order.job, order.epoch): order for order in desired.tasks}
        for key in [key for key in self._all if key not in wanted]:
            self._end(key)
        for key in [key for key in self._refused if key not in wanted]:
            del self._refused[key]
        for key, order in wanted.items():
            runner = self._all.get(key)
            if runner is None:
                if key not in self._refused:
                    self._begin(key, order)
                continue
            runner.update(order)
            command = command_of(order)
            if command is not TaskCommand.RUN:
                runner.stop("the scheduler asks for it", at_once=command is TaskCommand.KILL)
        self.taken_over = desired.version
        self._changed()

    def _begin(self, key: Key, order: pb.TaskOrder) -> None:
        if command_of(order) is not TaskCommand.RUN:  # never began here
            self._refused[key] = _ended(key, AttemptOutcome.STOPPED.value)
            return
        try:
            runner = self._make(order, self._changed)
            self._all[key] = runner
            self.map_jobs()
            runner.start(order)
        except (RotaError, OSError) as error:
            log.warning("job %d cannot start: %s", key[0], error, extra=about(job=key[0], epoch=key[1]))
            self._all.pop(key, None)
            outcome = getattr(error, "rota_reason", AttemptOutcome.FAILED.value)
            if isinstance(error, OSError | OutputError):
                outcome = AttemptOutcome.LOST.value  # the disk of this server is full, which is no fault of the job
            self._refused[key] = _ended(key, outcome, exit_code=127, detail=str(error))

    def _end(self, key: Key) -> None:
        """Off the list: forget it if it has ended, end it if it has not."""
        runner = self._all[key]
        if runner.state().phase == TaskPhase.ENDED.value:
            runner.forget()
            del self._all[key]
        else:
            runner.stop("it is not on the scheduler's list")

    def tick(self, now: float) -> None:
        """Look after every task."""
        for runner in list(self._all.values()):
            runner.tick(now)
        self.map_jobs()

    def map_jobs(self) -> None:
        """Let others on this server know which jobs hold which GPUs, if somebody wants to."""
        if self._mapping is None:
            return
        jobs: dict[str, list[int]] = {}
        for runner in self.unended():
            for device in runner.devices:
                jobs.setdefault(device, []).append(runner.key[0])
        self._mapping.bring_in_line(jobs)

    def states(self) -> list[pb.TaskState]:
        """All tasks as they are."""
        states = [runner.state() for runner in self._all.values()] + list(self._refused.values())
        for state in states:
            if len(state.detail) > _LONGEST_DETAIL:
                state.detail = state.detail[:_LONGEST_DETAIL] + " ..."
        return states

    def running(self) -> list[Runner]:
        """All runners."""
        return list(self._all.values())

    def unended(self) -> list[Runner]:
        """Those of which something may still run."""
        return [runner for runner in self._all.values() if runner.state().phase != TaskPhase.ENDED.value]


def _ended(key: Key, outcome: str, *, exit_code: int = 0, detail: str = "") -> pb.TaskState:
    """The state of a task that never ran here."""
    phase = TaskPhase.ENDED.value
    return pb.TaskState(job=key[0], epoch=key[1], phase=phase, outcome=outcome, exit_code=exit_code, detail=detail)
