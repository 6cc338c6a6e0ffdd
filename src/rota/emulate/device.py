"""An emulated GPU: a clock that one or several jobs take turns on, and memory.

Devices live in the event loop of an agent; one process holds hundreds of them. A job attaches and
gets a `Seat`; each step it says what the step asks and waits. The device computes mini-batches one
after the other, each from when the one before should have ended, so that neither a late wake-up nor
the time a job takes to ask again slows anybody down.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass, field

from rota.core.errors import ConfigError, RotaError, UnknownName
from rota.emulate.cards import USABLE, card
from rota.emulate.catalogue import StepTime
from rota.emulate.device_memory import DeviceError, DeviceMemory
from rota.emulate.lateness import Lateness, LatenessReport
from rota.emulate.pacing import CATCH_UP_S, StepTimeline, checked_compression
from rota.emulate.sharing import turns


class DeviceBusy(DeviceError):
    """A device that is not shared has a job already."""

    rota_reason = "device-busy"


@dataclass(eq=False)
class _Request:
    owner: Seat
    seconds: float
    copied: float
    tag: float
    answer: asyncio.Future[bool] = field(repr=False)
    start: float = 0.0
    end: float = 0.0

    @property
    def seat(self) -> int:
        return self.owner.number


class Seat:
    """A job's place on a device."""

    def __init__(
        self,
        device: Device,
        holder: str,
        number: int,
        weight: float,
        peak_mib: float,
        overlap: bool,
    ) -> None:
        self.device = device
        self.holder = holder
        self.number = number
        self.weight = weight
        self.peak_mib = peak_mib
        self.served_s = 0.0
        """Emulated seconds that the device computed for this job."""
        self.clock = 0.0
        self.timeline = StepTimeline(overlap=overlap, compression=device.compression)

    def begin(self) -> None:
        """Count from now, after real work of the job that asked nothing of the device."""
        self.timeline.begin(asyncio.get_running_loop().time())

    async def run(self, step: StepTime, ready: float | None = None) -> bool:
        """Wait until the device computed this step.

        False if it was interrupted, and then it does not count.

        `ready` is when the data were there. Raises `OutOfDeviceMemory` if the peak of the step does
        not fit.
        """
        return await self.device.compute(self, step, ready)

    def interrupt(self) -> None:
        """End the step under way at once and let the next job on."""
        self.device.interrupt(self)


class Device:
    """One emulated GPU."""

    def __init__(
        self,
        id: str,
        type: str,
        memory_mib: float,
        *,
        sharing: str = "exclusive",
        compression: float = 1.0,
        asking_s: float = 0.0,
    ) -> None:
        self.id = id
        self.type = type
        self.sharing = sharing
        self.compression = checked_compression(compression)
        self.memory = DeviceMemory(id, memory_mib)
        self.busy_s = 0.0
        """Emulated seconds of computing."""
        self._turns = turns(sharing)
        self._asking_s = asking_s
        self._seats: dict[str, Seat] = {}
        self._waiting: list[_Request] = []
        self._later: dict[_Request, asyncio.TimerHandle] = {}
        self._active: _Request | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._free_at = 0.0
        self._clock = 0.0
        self._count = 0
        self._last = -1
        self._lateness = Lateness()

    @property
    def holders(self) -> list[str]:
        """The jobs on it, in the order in which they came."""
        return list(self._seats)

    def attach(
        self,
        holder: str,
        *,
        persistent_mib: float = 0.0,
        peak_mib: float = 0.0,
        weight: float = 1.0,
        overlap: bool = False,
    ) -> Seat:
        """Give a job a place and what it keeps in memory.

        The peak is taken when its first step begins.
        """
        if holder in self._seats or (self.sharing == "exclusive" and self._seats):
            raise DeviceBusy(
                f"{self.id}: job {next(iter(self._seats))!r} is on it, so {holder!r} cannot be; "
                "choose another device or let it be shared (fifo, round-robin, weighted)"
            )
        if not weight > 0.0:
            raise ConfigError(f"{self.id}: job {holder!r} has weight {weight}; it must be above 0")
        self.memory.hold(holder, persistent_mib)
        seat = Seat(self, holder, self._count, weight, peak_mib, overlap)
        self._count += 1
        seat.clock = self._clock
        seat.begin()
        self._seats[holder] = seat
        return seat

    def release(self, holder: str) -> None:
        """A job ended in whatever way: its step, its place and its memory are gone.

        Nothing happens if it has none.
        """
        seat = self._seats.pop(holder, None)
        if seat is not None:
            self.interrupt(seat)
        self.memory.release(holder)

    async def compute(self, seat: Seat, step: StepTime, ready: float | None) -> bool:
        """See `Seat.run`."""
        if self._seats.get(seat.holder) is not seat:
            return False  # released between two steps
        loop = asyncio.get_running_loop()
        copied = seat.timeline.copied(step, ready)
        request = _Request(
            seat, step.compute_s / self.compression, copied, 0.0, loop.create_future()
        )
        if len(self._seats) > 1 and copied > loop.time():
            self._later[request] = loop.call_at(copied, self._arrive, request)
        else:
            self._arrive(request)
        try:
            return await request.answer
        except asyncio.CancelledError:
            self.interrupt(seat)
            raise

    def interrupt(self, seat: Seat) -> None:
        """See `Seat.interrupt`."""
        for request in [*self._waiting, *self._later]:
            if request.owner is seat:
                self._drop(request)
        active = self._active
        if active is not None and active.owner is seat:
            if self._timer is not None:
                self._timer.cancel()
            self._active = None
            self._free_at = asyncio.get_running_loop().time()
            _answer(active, False)
            self._serve()

    def lateness(self) -> LatenessReport:
        """How late its mini-batches ended."""
        return self._lateness.report()

    def _drop(self, request: _Request) -> None:
        timer = self._later.pop(request, None)
        if timer is not None:
            timer.cancel()
        else:
            self._waiting.remove(request)
        _answer(request, False)

    def _arrive(self, request: _Request) -> None:
        self._later.pop(request, None)
        seat = request.owner
        request.tag = max(self._clock, seat.clock)
        seat.clock = request.tag + request.seconds / seat.weight
        self._waiting.append(request)
        self._serve()

    def _serve(self) -> None:
        loop = asyncio.get_running_loop()
        while self._active is None and self._waiting:
            request = self._waiting.pop(self._turns.pick(self._waiting, self._last))
            seat = request.owner
            try:
                self.memory.hold(seat.holder, seat.peak_mib)
            except RotaError as error:
                if not request.answer.done():
                    request.answer.set_exception(error)
                continue
            request.start = max(self._free_at, request.copied)
            behind = loop.time() - request.start
            if behind > CATCH_UP_S:
                self._lateness.lost_s += behind
                request.start += behind
            request.end = request.start + request.seconds
            self._clock = request.tag
            self._last = seat.number
            self._active = request
            self._timer = loop.call_at(request.end, self._finish, request)

    def _finish(self, request: _Request) -> None:
        loop = asyncio.get_running_loop()
        seat = request.owner
        self._lateness.add(loop.time() - request.end, request.seconds)
        self._active = None
        self._free_at = request.end
        self.busy_s += request.seconds * self.compression
        seat.served_s += request.seconds * self.compression
        seat.timeline.computed(request.copied, request.start, request.end)
        _answer(request, True)
        # The job that was served may ask again first; what is chosen next starts at `_free_at`.
        if self._asking_s and self._waiting and request.seconds > 2.0 * self._asking_s:
            loop.call_later(self._asking_s, self._serve)
        else:
            loop.call_soon(self._serve)


def _answer(request: _Request, done: bool) -> None:
    if not request.answer.done():
        request.answer.set_result(done)


class DevicePool:
    """The devices of one agent, by id."""

    def __init__(self, devices: Iterable[Device]) -> None:
        self.devices = {device.id: device for device in devices}

    @classmethod
    def of(
        cls,
        types: Iterable[str],
        *,
        sharing: str = "exclusive",
        compression: float = 1.0,
        memory_mib: float | None = None,
        asking_s: float = 0.0,
    ) -> DevicePool:
        """Devices of the given types, named `gpu0`, `gpu1` and so on.

        A type that was not measured needs its memory said.
        """
        devices = []
        for number, type_ in enumerate(types):
            usable = card(type_).usable_mib if memory_mib is None else USABLE * memory_mib
            devices.append(
                Device(
                    f"gpu{number}",
                    type_,
                    usable,
                    sharing=sharing,
                    compression=compression,
                    asking_s=asking_s,
                )
            )
        return cls(devices)

    def __getitem__(self, id: str) -> Device:
        if id not in self.devices:
            raise UnknownName("device", id, self.devices)
        return self.devices[id]

    def __len__(self) -> int:
        return len(self.devices)

    def release(self, holder: str) -> None:
        """A job ended: nothing of it stays on any device."""
        for device in self.devices.values():
            device.release(holder)
