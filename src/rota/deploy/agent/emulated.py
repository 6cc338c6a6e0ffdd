"""Emulated jobs without a process: the agent's event loop spends the device time, to absolute deadlines.

How fast a job is comes with the order (the scheduler's profiles). The clock of a job is that of the machine since it
was booted, so a job goes on while the agent is started again, as a process would.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import json
import math
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Protocol

from rota.core import files
from rota.core.errors import RotaError
from rota.core.lifecycle import AttemptOutcome, TaskPhase
from rota.deploy.agent.tasks import Key
from rota.deploy.clocks import boot_id, machine_s
from rota.emulate.lateness import Lateness
from rota.rpc import rota_pb2 as pb
from rota.rpc.convert import spec_of

_SAVE_EVERY_S = 5.0
"""Seconds between two checkpoints of a job that does not say it."""
_WAKE_S = 0.1
"""Steps are paced in groups that last at least so long."""


class DeviceMemory(Protocol):
    """The devices of the agent, as far as jobs without a process need them."""

    def hold(self, key: Key, order: pb.TaskOrder) -> None:
        """Take the memory of a job; raises OutOfDeviceMemory."""

    def free(self, key: Key) -> None:
        """Give it back."""

    def rate(self, order: pb.TaskOrder) -> float:
        """Steps per second of a job here."""


class EmulatedRunner:
    """One job whose device time is spent here."""

    def __init__(
        self,
        order: pb.TaskOrder,
        changed: Callable[[], None],
        root: Path,
        folder: Path,
        devices: DeviceMemory | None = None,
    ) -> None:
        self.key: Key = (order.job, order.epoch)
        self._changed = changed
        self._root = root
        self._folder = folder
        self._devices = devices
        self._order = order
        self._file = folder / f"{order.job}.{order.epoch}.json"
        spec = spec_of(order.spec)
        self._total = spec.steps
        self._every_s = spec.checkpoint_every_s or _SAVE_EVERY_S
        self._rate = self._promised(order)
        self._first = int(order.resume_step)
        self._base = float(order.resume_step)
        self._since = machine_s()
        self._lease_end = self._since + order.lease_s
        self._saved_step = int(order.resume_step)
        self._saved_path = order.resume
        self._saved_at = self._since
        self._phase = TaskPhase.STARTING
        self._outcome: AttemptOutcome | None = None
        self._detail = ""
        self._ended_step = 0
        self._disk_full = False
        self._task: asyncio.Task[None] | None = None
        self.lateness = Lateness()

    # Life

    @property
    def devices(self) -> Sequence[str]:
        """GPUs that it holds here."""
        return tuple(self._order.devices)

    def start(self, order: pb.TaskOrder) -> None:
        """Begin to spend device time."""
        if self._rate <= 0:
            raise RotaError("the scheduler promises no speed here; check the profile")
        if self._devices is not None:
            self._devices.hold(self.key, order)
        self._phase = TaskPhase.RUNNING
        self._keep()
        self._task = asyncio.get_running_loop().create_task(self._run())

    @staticmethod
    def recovered(
        path: Path, changed: Callable[[], None], root: Path, devices: DeviceMemory | None = None
    ) -> EmulatedRunner:
        """A job that went on while the agent was away."""
        kept = json.loads(path.read_text(encoding="utf-8"))
        order = pb.TaskOrder.FromString(bytes.fromhex(kept["order"]))
        runner = EmulatedRunner(order, changed, root, path.parent, devices)
        runner._rate = kept["rate"]
        runner._base = kept["base"]
        runner._since = kept["since"]
        runner._first = kept["first"]
        runner._lease_end = kept["lease_end"]
        runner._saved_step = kept["saved_step"]
        runner._saved_path = kept["saved_path"]
        runner._phase = TaskPhase(kept["phase"])
        runner._outcome = AttemptOutcome(kept["outcome"]) if kept["outcome"] else None
        runner._ended_step = kept["ended_step"]
        if kept.get("boot", boot_id()) != boot_id():
            runner._end_with_the_machine()
        if runner._phase is not TaskPhase.ENDED:
            if devices is not None:
                with contextlib.suppress(RotaError):
                    devices.hold(runner.key, order)
            runner._task = asyncio.get_running_loop().create_task(runner._run())
        return runner

    def _end_with_the_machine(self) -> None:
        """The machine was started again: a process would be gone, and times since boot mean nothing any more."""
        if self._phase is not TaskPhase.ENDED:
            self._phase = TaskPhase.ENDED
            self._outcome = AttemptOutcome.LOST
            self._detail = "the machine was started again meanwhile"
            self._ended_step = self._saved_step

    def update(self, order: pb.TaskOrder) -> None:
        """A longer lease, or another speed from now on."""
        self._lease_end = machine_s() + order.lease_s
        rate = self._promised(order)
        if rate > 0 and abs(rate - self._rate) > 1e-9 * self._rate and self._phase is TaskPhase.RUNNING:
            self._base = self._position()
            self._since = machine_s()
            self._rate = rate
            if self._task is not None:
                self._task.cancel()
            self._task = asyncio.get_running_loop().create_task(self._run())
        self._keep()

    def stop(self, reason: str, *, at_once: bool = False) -> None:
        """End now; the step under way does not count."""
        del at_once  # it is always
        if self._phase is TaskPhase.ENDED:
            return
        self._end(AttemptOutcome.STOPPED, reason)

    def tick(self, now: float) -> None:
        """Save when it is time, and end when the lease has ended."""
        del now
        if self._phase is not TaskPhase.RUNNING:
            return
        here = machine_s()
        if here >= self._lease_end:
            self.stop("its lease has ended")
        else:
            self._save_in_time(here)

    def state(self) -> pb.TaskState:
        """How it is."""
        return pb.TaskState(
            job=self.key[0], epoch=self.key[1], phase=self._phase.value, step=self._step(),
            saved_step=self._saved_step, saved_path=self._saved_path, outcome=_word(self._outcome),
            detail=self._detail, step_at_s=0.0 if self._phase is TaskPhase.ENDED else machine_s(),
        )  # fmt: skip

    def forget(self) -> None:
        """Nothing of it is needed any more."""
        self._file.unlink(missing_ok=True)

    # Inside

    def _promised(self, order: pb.TaskOrder) -> float:
        return float(order.rate) if self._devices is None else self._devices.rate(order)

    def _save_in_time(self, here: float) -> None:
        """Save when it is time, and let the scheduler know: what is saved counts."""
        if here - self._saved_at >= self._every_s:
            self._save(self._step())
            self._keep()
            self._changed()

    def _position(self) -> float:
        return min(self._base + max(0.0, machine_s() - self._since) * self._rate, float(self._total))

    def _step(self) -> int:
        return self._ended_step if self._phase is TaskPhase.ENDED else math.floor(self._position() + 1e-9)

    async def _run(self) -> None:
        """Wake at the ends of groups of steps, as they should be; the last one is the end of the job."""
        loop = asyncio.get_running_loop()
        offset = loop.time() - machine_s()
        group = max(1, round(_WAKE_S * self._rate))
        goal = math.floor(self._position()) + group
        while True:
            goal = min(goal, self._total)
            due = self._since + (goal - self._base) / self._rate
            wait = due + offset - loop.time()
            if wait > 0:
                await asyncio.sleep(wait)
                self.lateness.add(machine_s() - due, group / self._rate)
            if goal >= self._total:
                self._end(AttemptOutcome.COMPLETED, "")
                return
            self._save_in_time(machine_s())
            goal = max(goal + group, math.floor(self._position()))

    def _end(self, outcome: AttemptOutcome, detail: str) -> None:
        completed = outcome is AttemptOutcome.COMPLETED
        self._ended_step = self._total if completed else self._step()
        if self._save(self._ended_step):
            self._outcome = outcome
            self._detail = detail
        else:
            self._outcome = AttemptOutcome.DISK_FULL if self._disk_full else AttemptOutcome.FAILED
        self._phase = TaskPhase.ENDED
        if self._devices is not None:
            self._devices.free(self.key)
        if self._task is not None and not completed:
            self._task.cancel()
        self._keep()
        self._changed()

    def _save(self, step: int) -> bool:
        """A real, small checkpoint; what is saved is credited for good. The caller remembers it (`_keep`)."""
        self._saved_at = machine_s()
        if step <= self._saved_step and self._saved_path:
            return True
        place = self._root / str(self.key[0]) / str(self.key[1])
        try:
            place.mkdir(parents=True, exist_ok=True)
            final = place / f"step-{step}.json"
            # Not synced: it stands for a checkpoint, and hundreds of jobs save in this one process.
            files.write_text(final, json.dumps({"job": self.key[0], "step": step}), durable=False)
        except OSError as error:
            self._detail = f"cannot save: {error.strerror or error}"
            self._disk_full = error.errno in {errno.ENOSPC, errno.EDQUOT}
            return False
        before = self._saved_path
        self._saved_step = step
        self._saved_path = str(final.relative_to(self._root))
        if before and before != self._saved_path and before.startswith(f"{self.key[0]}/{self.key[1]}/"):
            with contextlib.suppress(OSError):
                (self._root / before).unlink()
        return True

    def _keep(self) -> None:
        """Remember enough to go on after the agent was started again."""
        kept: dict[str, Any] = {
            "order": self._order.SerializeToString().hex(),
            "rate": self._rate, "base": self._base, "since": self._since, "first": self._first,
            "lease_end": self._lease_end, "saved_step": self._saved_step, "saved_path": self._saved_path,
            "phase": self._phase.value, "outcome": _word(self._outcome), "ended_step": self._ended_step,
            "boot": boot_id(),
        }  # fmt: skip
        with contextlib.suppress(OSError):
            # Only the owner may read it: it has the environment. After a power cut nothing runs any more.
            files.write_text(self._file, json.dumps(kept), mode=0o600, durable=False)


def _word(outcome: AttemptOutcome | None) -> str:
    return "" if outcome is None else outcome.value


def recover(
    folder: Path, changed: Callable[[], None], root: Path, devices: DeviceMemory | None = None
) -> Iterator[EmulatedRunner]:
    """All emulated jobs that were here."""
    for path in sorted(folder.glob("*.json")):
        with contextlib.suppress(ValueError, KeyError, RotaError):
            yield EmulatedRunner.recovered(path, changed, root, devices)
