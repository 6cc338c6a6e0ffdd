"""What became of a task whose processes have ended: from their exits and the last words of the training code."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable
from dataclasses import dataclass

from rota.core.lifecycle import AttemptOutcome
from rota.deploy.agent.task_stop import TaskStop
from rota.deploy.worker.ranks import Rank, RankPhase
from rota.deploy.worker.status import ExitReason, Status

_LAST_WORDS_S = 5.0
"""Wall seconds for which the line of a rank that has ended may stay open before it counts as silent."""


class LastWords:
    """Waits for what ranks said last: it is on the way until their line is closed."""

    def __init__(self) -> None:
        self._since: float | None = None
        """When all ranks had ended, if the line of one was still open then."""

    def awaited(self, ranks: Iterable[Rank]) -> bool:
        """Whether a rank that has ended may still be heard."""
        if not any(rank.connected and not rank.over for rank in ranks):
            return False
        if self._since is None:
            self._since = time.monotonic()
        return time.monotonic() < self._since + _LAST_WORDS_S


@dataclass(frozen=True, slots=True, kw_only=True)
class EndedTask:
    """All that tells how a task ended."""

    statuses: Collection[Status]
    phases: Collection[RankPhase]
    stop: TaskStop
    adopted: bool
    """Whether another agent started it."""
    saved_step: int
    steps: int
    """Of the whole job; 0: unknown."""

    def outcome(self) -> tuple[AttemptOutcome, int, str]:
        """What became of it, its exit code, and what is to be said about it."""
        exits = [status.exit for status in self.statuses if status.exit is not None]
        worst = next((e for e in exits if e.reason is not ExitReason.COMPLETED), None)
        if worst is None:
            if self._stopped():
                return AttemptOutcome.STOPPED, 0, self.stop.reason
            return AttemptOutcome.COMPLETED, 0, ""
        if self.stop.began and worst.reason is ExitReason.KILLED:
            return AttemptOutcome.STOPPED, self.code(), self.stop.reason
        return AttemptOutcome(worst.reason.value), self.code(), worst.detail

    def code(self) -> int:
        """The first exit code that is not 0, as a shell would tell it."""
        exits = [status.exit for status in self.statuses if status.exit is not None]
        return next((e.code if e.code is not None else 128 + (e.signal or 0) for e in exits if e.code != 0), 0)

    def _stopped(self) -> bool:
        """Whether exit code 0 means that it stopped in order, and not that the job is done."""
        if RankPhase.DONE in self.phases:
            return False
        return RankPhase.STOPPED in self.phases or self.stop.forced or self._stopped_unheard()

    def _stopped_unheard(self) -> bool:
        """Whether it was asked to stop, by whomever, and nobody heard that it did."""
        if self.adopted and any(status.stop_requested for status in self.statuses):
            return True
        asked = self.adopted or self.stop.began
        return asked and 0 < self.saved_step < self.steps
