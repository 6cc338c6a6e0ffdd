"""Leases for loops without an iterable: `with lease(...) as run: while run.next(): ...`."""

from __future__ import annotations

import os

from rota.client import environment
from rota.client.loop_status import LoopStatus
from rota.client.session import Hook, Hooks, TrainingSession


class Lease(LoopStatus):
    """Permission to make steps, asked for before each. Made by `lease`."""

    def __init__(self, session: TrainingSession) -> None:
        self._session = session
        self._inside = False

    def next(self) -> bool:
        """Close the step that is under way and begin the next; False when the loop has to end."""
        session = self._session
        if self._inside:
            self._inside = False
            if not session.finished():
                return False
        self._inside = session.going() and session.begin()
        return self._inside

    def abandon(self) -> None:
        """Do not count the step that is under way; call it as the last thing in the body."""
        if self._inside:
            self._inside = False
            self._session.abandon()

    def finish(self) -> None:
        """Say that the job is done, when no total of steps says it."""
        self._session.finish()

    def __enter__(self) -> Lease:
        return self

    def __exit__(
        self, error_type: type[BaseException] | None, error: BaseException | None, trace: object
    ) -> None:
        if isinstance(error, Exception):
            self._session.fail(error)
        if error is not None:
            return
        if (
            self._inside
        ):  # left by break: what was under way counts, and the script says that was all
            self._session.gate.complete()
        self._session.finish()


def lease(
    *,
    save: Hook | None = None,
    load: Hook | None = None,
    steps: int | None = None,
    save_on: str = "rank0",
    every_steps: int | None = None,
) -> Lease:
    """A lease on this machine, resumed from the last checkpoint.

    Outside Rota, `next` counts to `steps`.
    """
    session = TrainingSession(
        environment.read(os.environ), Hooks(save, load, save_on, every_steps), steps, lambda: (0, 0)
    )
    session.open()
    return Lease(session)
