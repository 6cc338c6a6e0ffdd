"""A training job that is no process at all: a task in the event loop of an agent, for jobs that only use devices.

Hundreds of them run beside each other. A stop ends the step under way at once; that step does not count.
"""

from __future__ import annotations

import asyncio
import copy
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from rota.core.errors import ConfigError, RotaError
from rota.emulate.catalogue import MemoryNeed, StepTime
from rota.emulate.device import Device, Seat
from rota.emulate.sampling import Sampler
from rota.emulate.state import JobState

Progress = Callable[[int], None]


@dataclass(frozen=True)
class EmulatedSpec:
    """What an emulated job asks of its devices."""

    job: str
    step: StepTime
    steps: int
    """In total, those before a resume included."""
    memory: MemoryNeed | None = None
    start_s: float = 0.0
    """Emulated seconds before the first step, such as the copy of the model."""
    overlap: bool = False
    weight: float = 1.0
    sampler: Sampler | None = None
    seed: int = 0
    ballast_bytes: int = 0


@dataclass(frozen=True)
class Ended:
    """How a job ended: `done`, `stopped` or the reason of a failure, and the steps that count."""

    step: int
    why: str
    detail: str = ""


class EmulatedJob:
    """One attempt of a job on some devices."""

    def __init__(
        self,
        spec: EmulatedSpec,
        devices: Sequence[Device],
        *,
        progress: Progress | None = None,
        progress_every_s: float = 0.5,
    ) -> None:
        if not devices:
            raise ConfigError(f"job {spec.job!r} has no device to run on")
        self.spec = spec
        self.devices = tuple(devices)
        self.state = JobState.new(spec.seed, spec.ballast_bytes)
        self._progress = progress
        self._every_s = progress_every_s
        self._seats: list[Seat] = []
        self._task: asyncio.Task[Ended] | None = None
        self._stop = asyncio.Event()
        self._until = spec.steps

    def load(self, folder: str | os.PathLike[str]) -> int:
        """Go on from a checkpoint; the step."""
        return self.state.load(folder)

    def save(self, folder: str | os.PathLike[str]) -> int:
        """Write a checkpoint of the steps done so far; the step. Devices stand still meanwhile."""
        self.state.save(folder)
        for seat in self._seats:
            seat.begin()
        return self.state.step

    async def checkpoint(self, folder: str | os.PathLike[str]) -> int:
        """The same without holding anybody up: a copy of the state is written in a thread while steps go on."""
        snapshot = copy.deepcopy(self.state)
        await asyncio.to_thread(snapshot.save, folder)
        return snapshot.step

    def start(self, step: int | None = None) -> asyncio.Task[Ended]:
        """Begin, from `step` if it is given; the task ends with how the job ended."""
        if step is not None:
            while self.state.step < step:
                self.state.advance(self._steps_per_epoch)
        self._task = asyncio.get_running_loop().create_task(self._run(), name=f"job {self.spec.job}")
        return self._task

    def stop_at(self, step: int) -> bool:
        """End before step number `step` (from 0) begins; False if that one began already, and nothing changes.

        Parts of a gang that live in several agents can agree on a step this way.
        """
        if step <= self.state.step and self._task is not None:
            return False
        self._until = min(step, self.spec.steps)
        return True

    async def stop(self) -> int:
        """End it now, in the middle of a step if need be; the exact number of steps done."""
        self._stop.set()
        for seat in self._seats:
            seat.interrupt()
        if self._task is not None:
            await asyncio.wait([self._task])
        return self.state.step

    @property
    def _steps_per_epoch(self) -> int:
        return self.spec.sampler.steps_per_epoch if self.spec.sampler else max(1, self.spec.steps)

    async def _run(self) -> Ended:
        try:
            self._attach()
            if self.spec.start_s:
                await self._pause(self.spec.start_s / self.devices[0].compression)
                for seat in self._seats:
                    seat.begin()
            return await self._loop()
        except RotaError as error:
            return Ended(self.state.step, getattr(error, "reason", "failed"), str(error))
        finally:
            for seat in self._seats:
                seat.device.release(seat.holder)

    def _attach(self) -> None:
        need = self.spec.memory or MemoryNeed(0.0, 0.0, "measured")
        for device in self.devices:
            seat = device.attach(
                self.spec.job,
                persistent_mib=need.persistent_mib,
                peak_mib=need.peak_mib,
                weight=self.spec.weight,
                overlap=self.spec.overlap,
            )
            self._seats.append(seat)

    async def _loop(self) -> Ended:
        told = time.monotonic()
        while self.state.step < self._until:
            if self._stop.is_set() or not await self._one_step():
                return Ended(self.state.step, "stopped")
            self.state.advance(self._steps_per_epoch)
            if self._progress is not None and time.monotonic() - told >= self._every_s:
                told = time.monotonic()
                self._progress(self.state.step)
        if self._progress is not None:
            self._progress(self.state.step)
        return Ended(self.state.step, "done" if self.state.step >= self.spec.steps else "stopped")

    async def _one_step(self) -> bool:
        """On all devices at once; all begin the next step when the last is done."""
        if len(self._seats) == 1:
            return await self._seats[0].run(self.spec.step)
        ready = None if self.spec.overlap else max(seat.timeline.last_end for seat in self._seats)
        done = await asyncio.gather(*(seat.run(self.spec.step, ready) for seat in self._seats))
        return all(done)

    async def _pause(self, seconds: float) -> None:
        try:
            await asyncio.wait_for(self._stop.wait(), seconds)
        except asyncio.TimeoutError:
            return
