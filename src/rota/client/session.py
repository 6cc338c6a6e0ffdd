"""One attempt of a job as a training loop sees it.

The gate, the line to the agent, and the checkpoints together.
"""

from __future__ import annotations

import atexit
import os
import sys
import time
from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING, Any, NamedTuple

from rota.client.environment import JobEnvironment
from rota.client.failures import detail_of, reason_of
from rota.client.gate import Gate
from rota.core.errors import ConfigError

if TYPE_CHECKING:
    from pathlib import Path

    from rota.client.checkpoints import CheckpointStore, SavedCheckpoint
    from rota.client.link import AgentLink
    from rota.client.stalls import StallMeter

Hook = Callable[["Path"], Any]


class Hooks(NamedTuple):
    """What the training script brings along, and when it wants to be asked."""

    save: Hook | None
    load: Hook | None
    save_on: str = "rank0"
    every_steps: int | None = None


class TrainingSession:
    """The life of one rank in one attempt.

    `place` says where in the data the loop is: epoch and position.
    """

    def __init__(
        self,
        env: JobEnvironment,
        hooks: Hooks,
        steps: int | None,
        place: Callable[[], tuple[int, int]],
    ) -> None:
        _check(env, hooks)
        self.env = env
        self.total = steps if env.steps is None else env.steps
        self.resumed: SavedCheckpoint | None = None
        self.gate = Gate(lease_s=env.lease_s)
        self.meter: StallMeter | None = None
        """Times the loop; None: nobody does."""
        self._hooks = hooks
        self._place = place
        self._alone = env.job is None  # outside Rota nobody else looks at the gate
        self._link: AgentLink | None = None
        self._store: CheckpointStore | None = None
        self._saved_step = 0
        self._saved_at = time.monotonic()
        self._old_excepthook: Callable[..., Any] | None = None

    def open(self) -> None:
        """Say hello to the agent and load the checkpoint to resume from.

        Outside Rota nothing happens.
        """
        env = self.env
        if env.job is None:
            return
        self.resumed = _checkpoint_to_resume(env, self._hooks)
        if self.resumed is not None:
            self.gate.step = self.gate.begun = self._saved_step = self.resumed.step
        if env.socket is not None:
            self._connect(env.socket)
        if env.checkpoints is not None and self._hooks.save is not None and self._saves():
            from rota.client.checkpoints import CheckpointStore  # outside Rota no files

            part = f"rank-{env.rank}" if self._hooks.save_on == "all" and env.world_size > 1 else ""
            self._store = CheckpointStore(env.checkpoints, part, env.world_size)
            self._store.tidy()
        if self.resumed is not None and self._hooks.load is not None:
            self._hooks.load(self.resumed.part(env.rank))
        self._saved_at = time.monotonic()

    def _connect(self, path: str) -> None:
        _take_the_line(self)
        from rota.client.link import AgentLink  # outside Rota no sockets

        identity = {
            "job": self.env.job,
            "epoch": self.env.epoch,
            "rank": self.env.rank,
            "key": self.env.key,
            "pid": os.getpid(),
            "saves": self._hooks.save is not None and self._hooks.load is not None,
        }
        if os.environ.get("ROTA_TERM_IS_NOTICE"):
            from rota.client.termination import leave_term_to_the_agent

            leave_term_to_the_agent()
        self._link = AgentLink(path, self.gate, identity, self._account)
        self._link.open()
        atexit.register(self._link.close)
        self._old_excepthook = sys.excepthook
        sys.excepthook = self._on_uncaught

    @property
    def stopped(self) -> str | None:
        """Why the loop ended: "lease", "done", or None while it goes on."""
        return self.gate.ended

    def going(self) -> bool:
        """Whether there are steps left to begin. Ends the job when there are none."""
        if self.gate.ended is None and self.total is not None and self.gate.step >= self.total:
            self.finish()
        return self.gate.ended is None

    def begin(self) -> bool:
        """Begin a step, or save, report and say False when the loop has to end before it."""
        if self._alone:
            self.gate.begun += 1
            return True
        if self.gate.begin():
            return True
        self._stop()
        return False

    def finished(self) -> bool:
        """A step is finished: save when it is time, end when it was the last or a stop is due.

        False ends the loop.
        """
        if self._alone:
            self.gate.step = self.gate.begun
            return self.going()
        self.gate.complete()
        return self._boundary()

    def abandon(self) -> bool:
        """A step was begun in vain and does not count; otherwise as `finished`."""
        self.gate.abandon()
        return self._boundary()

    def finish(self) -> None:
        """The job is done: final checkpoint, last report."""
        if self.gate.ended is not None:
            return
        self.gate.end("done")
        self._save()
        self._conclude({"op": "done", "step": self.gate.step})

    def fail(self, error: BaseException) -> None:
        """Report an error that ends this process."""
        if self._link is not None:
            reason = reason_of(error, self.env.checkpoints)
            self._link.conclude({"op": "failed", "reason": reason, "detail": detail_of(error)})
            self._link.close()

    def _boundary(self) -> bool:
        if not self.going():
            return False
        if self.gate.must_stop():
            return self.begin()
        if self._due():
            self._save()
        return True

    def _stop(self) -> None:
        self._save()
        self._conclude({"op": "stopped", "step": self.gate.step})

    def _conclude(self, message: dict[str, Any]) -> None:
        if self._link is not None:
            self._link.conclude({**message, **self._account()})
            self._link.close()
        if self._old_excepthook is not None and sys.excepthook == self._on_uncaught:
            sys.excepthook = self._old_excepthook

    def _account(self) -> dict[str, Any]:
        """What the loop spent its time on, for the agent."""
        if self.meter is None:
            return {}
        return {name: round(spent, 3) for name, spent in self.meter.times()._asdict().items()}

    def _saves(self) -> bool:
        return self._hooks.save_on == "all" or self.env.rank == 0

    def _due(self) -> bool:
        if self._store is None:
            return False
        if self._hooks.every_steps is not None:
            return self.gate.step % self._hooks.every_steps == 0
        return time.monotonic() - self._saved_at >= self.env.checkpoint_every_s

    def _save(self) -> None:
        step = self.gate.step
        if self._store is None or self._hooks.save is None or step == self._saved_step:
            return
        began = time.monotonic()
        if self._link is not None:
            self._link.saving(step, self._store.amount_written)
        try:
            name = self._store.write(step, *self._place(), self._hooks.save)
        except BaseException as error:
            self.fail(error)
            raise
        self._saved_step = step
        self._saved_at = time.monotonic()
        if self.meter is not None:
            self.meter.leave_out(self._saved_at - began)
        if self._link is not None:
            self._link.saved(step, name, self._saved_at - began)
        self._store.prune(step)

    def _on_uncaught(
        self, error_type: type[BaseException], error: BaseException, trace: TracebackType | None
    ) -> None:
        self.fail(error)
        (self._old_excepthook or sys.__excepthook__)(error_type, error, trace)


_speaker: list[TrainingSession] = []


def _take_the_line(session: TrainingSession) -> None:
    """Two loops of one process would speak to the agent under the same name."""
    if any(other.stopped is None for other in _speaker):
        raise ConfigError(
            f"job {session.env.job}: this process has an iterator of Rota already. Wrap only the "
            "loop that trains."
        )
    _speaker[:] = [session]


def _check(env: JobEnvironment, hooks: Hooks) -> None:
    if hooks.save_on not in {"rank0", "all"}:
        raise ConfigError(
            f"save_on={hooks.save_on!r}: it is 'rank0' (one rank saves for all) or 'all'."
        )
    if hooks.every_steps is not None and hooks.every_steps < 1:
        raise ConfigError(
            f"every_steps={hooks.every_steps}: expected 1 or more, or None to save by time."
        )
    if (
        hooks.save_on == "all"
        and env.world_size > 1
        and hooks.save is not None
        and hooks.every_steps is None
    ):
        raise ConfigError(
            "save_on='all' needs every_steps=...: by the clock, ranks would save at different "
            "steps, and no checkpoint would be whole."
        )


def _checkpoint_to_resume(env: JobEnvironment, hooks: Hooks) -> SavedCheckpoint | None:
    if env.resume is None:
        return None
    from rota.client import checkpoints  # outside Rota no files

    if hooks.load is None:
        raise ConfigError(
            f"job {env.job}: it is to resume from {env.resume}, but the script gave no load= "
            "function."
        )
    named = checkpoints.read(env.resume)
    checkpoint = named or checkpoints.latest(env.resume) or checkpoints.latest(env.resume.parent)
    if checkpoint is None:
        raise ConfigError(
            f"job {env.job}: neither {env.resume} nor a checkpoint beside it is whole (manifest "
            "and files disagree). Unset ROTA_RESUME to begin anew."
        )
    if named is None and env.resume.name.startswith("step-"):
        sys.stderr.write(
            f"rota: checkpoint {env.resume} is damaged; resuming from {checkpoint.path}\n"
        )
    saved_by_all = (checkpoint.path / "rank-0").is_dir()
    if saved_by_all and not (checkpoint.path / f"rank-{env.rank}").is_dir():
        raise ConfigError(
            f"job {env.job}: {checkpoint.path} was saved by {checkpoint.world_size} ranks and has "
            f"no part for rank {env.rank}. Run with {checkpoint.world_size} ranks, or save with "
            "save_on='rank0'."
        )
    return checkpoint
