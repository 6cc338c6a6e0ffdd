"""How a training loop stands: what the iterator and the lease tell it in the same words."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    from rota.client.session import TrainingSession


class LoopStatus:
    """What a loop can ask about itself, answered by its session."""

    _session: TrainingSession

    @property
    def step(self) -> int:
        """Steps finished since the job began, those before a resume included."""
        return self._session.gate.step

    @property
    def rank(self) -> int:
        """The number of this process in its gang."""
        return self._session.env.rank

    @property
    def world_size(self) -> int:
        """How many processes the gang has."""
        return self._session.env.world_size

    @property
    def resumed(self) -> Path | None:
        """The checkpoint this attempt went on from, if any."""
        return self._session.resumed.path if self._session.resumed is not None else None

    @property
    def stopped(self) -> str | None:
        """Why the loop ended: "lease" (to go on later), "done", or None."""
        return self._session.stopped

    @property
    def stopping(self) -> bool:
        """Whether the loop will end at the next boundary of steps.

        A long step may look and `abandon` itself.
        """
        return self._session.gate.must_stop()

    def wait(self, seconds: float) -> bool:
        """Sleep in a step, but no longer than until a stop is ordered; True if it was."""
        return self._session.gate.wait(seconds)
