"""Who lets a job make its steps.

Rota's lease when it runs under Rota, else a count with checkpoints and signals.

`Steps` has the shape of `rota.client.Lease`. `open_steps` gives that one when the agent's socket is
in the environment, so an emulated job obeys leases like any other, and a plain one otherwise.
"""

from __future__ import annotations

import importlib
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Protocol

from rota.emulate.pacing import Interrupt

Hook = Callable[[Path], object]


class Steps(Protocol):
    """Permission to make steps, asked for before each."""

    def next(self) -> bool:
        """Close the step under way and begin the next; False when the loop has to end."""
        ...

    def wait(self, seconds: float) -> bool:
        """Sleep in a step, but no longer than until a stop is ordered; True if it was."""
        ...

    def abandon(self) -> None:
        """Do not count the step under way."""
        ...

    @property
    def stopping(self) -> bool:
        """Whether a stop was ordered."""
        ...

    @property
    def stopped(self) -> str | None:
        """Why the loop ended: "lease" (to go on later), "done", or None."""
        ...

    def __enter__(self) -> Steps: ...

    def __exit__(
        self, error_type: type[BaseException] | None, error: BaseException | None, trace: object
    ) -> None: ...


class PlainSteps:
    """Counts to a total outside of Rota.

    Saves at intervals and at the end, stops on SIGTERM and SIGINT.
    """

    def __init__(
        self,
        steps: int,
        *,
        save: Hook,
        load: Hook,
        checkpoint: Path | None = None,
        every_s: float = 60.0,
        interrupt: Interrupt | None = None,
    ) -> None:
        self._steps = steps
        self._save = save
        self._checkpoint = checkpoint
        self._every_s = every_s
        self._interrupt = interrupt or Interrupt()
        self._inside = False
        self.stopped: str | None = None
        loaded = load(checkpoint) if checkpoint is not None and checkpoint.exists() else 0
        self.step = loaded if isinstance(loaded, int) else 0
        self._saved = self.step
        self._saved_at = time.monotonic()

    def next(self) -> bool:
        """See `Steps`."""
        if self._inside:
            self.step += 1
            self._inside = False
        if self.step >= self._steps:
            return self._end("done")
        if self._interrupt.is_set():
            return self._end("lease")
        if time.monotonic() - self._saved_at >= self._every_s:
            self._write()
        self._inside = True
        return True

    def wait(self, seconds: float) -> bool:
        """See `Steps`."""
        return self._interrupt.wait(seconds)

    def abandon(self) -> None:
        """See `Steps`."""
        self._inside = False

    @property
    def stopping(self) -> bool:
        """See `Steps`."""
        return self._interrupt.is_set()

    def __enter__(self) -> PlainSteps:
        return self

    def __exit__(
        self, error_type: type[BaseException] | None, error: BaseException | None, trace: object
    ) -> None:
        """Nothing to give back."""

    def stop_on_signals(self) -> None:
        """Let SIGTERM and SIGINT end the job cleanly; call it from the main thread."""

        def stop(_number: int, _frame: FrameType | None) -> None:
            self._interrupt.set()

        signal.signal(signal.SIGTERM, stop)
        signal.signal(signal.SIGINT, stop)

    def _end(self, why: str) -> bool:
        self.stopped = why
        if self.step != self._saved or not self._checkpoint or not self._checkpoint.exists():
            self._write()
        return False

    def _write(self) -> None:
        if self._checkpoint is not None:
            self._save(self._checkpoint)
        self._saved = self.step
        self._saved_at = time.monotonic()


def open_steps(
    steps: int, *, save: Hook, load: Hook, checkpoint: Path | None = None, every_s: float = 60.0
) -> Steps:
    """A lease of Rota if the environment has its agent's socket, else a plain count."""
    if os.environ.get("ROTA_SOCKET"):
        lease: Callable[..., Steps] = importlib.import_module("rota.client").lease
        return lease(save=save, load=load, steps=steps)
    plain = PlainSteps(steps, save=save, load=load, checkpoint=checkpoint, every_s=every_s)
    plain.stop_on_signals()
    return plain
