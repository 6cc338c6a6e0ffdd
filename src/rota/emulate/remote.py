"""The job's end of devices that an agent holds (see `server`).

An agent may be started again while its jobs run. A job that loses its devices waits for the next
agent, takes its places again and repeats the step that was under way.
"""

from __future__ import annotations

import json
import select
import socket
import time
from collections.abc import Sequence
from typing import Any, Protocol

from rota.core.errors import ConfigError
from rota.core.unix_sockets import connect
from rota.emulate.catalogue import DeviceMemoryNeed, StepTime
from rota.emulate.device_memory import DeviceError

LOOK_S = 0.02
FIRST_S = 3.0
"""How long the agent may take to offer its devices at the start of a job."""
PATIENCE_S = 60.0
"""The same when it was there and went away."""


class Stopping(Protocol):
    """Says whether a stop was ordered."""

    @property
    def stopping(self) -> bool:
        """Whether it was."""
        ...


class DeviceRefused(DeviceError):
    """The agent's device did not take the job or failed it; `rota_reason` says why."""

    def __init__(self, reason: str, detail: str) -> None:
        super().__init__(detail)
        self.rota_reason = reason


class _Lost(Exception):
    """The agent is gone."""


class RemoteDevice:
    """Paces the steps of one job by a device of the agent."""

    def __init__(self, path: str, device: str, job: str, steps: Stopping) -> None:
        self._path = path
        self._device = device
        self._job = job
        self._steps = steps
        self._rest = b""
        self._hello: dict[str, Any] = {}
        self._run: dict[str, Any] = {}
        self.compression = 1.0
        """How many times faster than real the device runs; known once attached."""
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        if not self._reach(FIRST_S) and not steps.stopping:
            raise ConfigError(
                f"{path}: no agent offers devices there; is it an emulated server, and is it up?"
            )

    def attach(
        self, need: DeviceMemoryNeed | None, *, weight: float = 1.0, overlap: bool = False
    ) -> None:
        """Take a place on the device and the memory that a job keeps."""
        memory = (
            {}
            if need is None
            else {"persistent_mib": need.persistent_mib, "peak_mib": need.peak_mib}
        )
        hello = {
            "op": "attach",
            "device": self._device,
            "job": self._job,
            "weight": weight,
            "overlap": overlap,
        }
        self._hello = {**hello, **memory}
        while True:
            try:
                self._take_place()
            except _Lost:
                if not self._again():
                    return
            else:
                return

    def begin(self) -> None:
        """Count from now."""
        self._send({"op": "begin"})

    def step(self, step: StepTime, ready: float | None = None) -> bool:
        """Wait until the device computed the step; False if a stop was ordered meanwhile."""
        self.ask(step, ready)
        return self.answer()

    def ask(self, step: StepTime, ready: float | None = None) -> None:
        """Let the device begin a step."""
        self._run = {"op": "run", "compute_s": step.compute_s, "transfer_s": step.transfer_s}
        self._run |= {} if ready is None else {"ready": ready}
        self._send(self._run)

    def answer(self) -> bool:
        """Wait for the end of the step that was asked for.

        False if a stop was ordered meanwhile.
        """
        lost = False
        while True:
            try:
                if lost and not self._repeat():
                    return False
                lost = False
                answer = self._receive(stop=True)
                if answer is None:
                    self._send({"op": "interrupt"})
                    answer = self._receive(stop=False)
                return bool(answer and answer.get("done"))
            except _Lost:
                lost = True

    def close(self) -> None:
        """Leave the device."""
        self._socket.close()

    def _take_place(self) -> None:
        self._send(self._hello)
        answer = self._receive(stop=False) or {}
        self.compression = float(answer.get("compression", 1.0))

    def _repeat(self) -> bool:
        """The same step on the device of the next agent; False if a stop was ordered first."""
        if not self._again():
            return False
        self._take_place()
        self.begin()
        self._send(self._run)
        return True

    def _again(self) -> bool:
        """Wait for the next agent; False if a stop was ordered first."""
        self._rest = b""
        if self._reach(PATIENCE_S):
            return True
        if self._steps.stopping:
            return False
        raise DeviceRefused("device-lost", f"{self._device}: the agent that held it is gone")

    def _reach(self, patience_s: float) -> bool:
        """Connect, if need be once there is somebody to connect to."""
        self._socket.close()
        end = time.monotonic() + patience_s
        while not self._steps.stopping and time.monotonic() < end:
            try:
                self._socket = connect(self._path)
            except OSError:
                time.sleep(LOOK_S)
            else:
                return True
        return False

    def _send(self, message: dict[str, Any]) -> None:
        try:
            self._socket.sendall(json.dumps(message).encode() + b"\n")
        except OSError:
            return  # who waits for the answer finds out

    def _receive(self, *, stop: bool) -> dict[str, Any] | None:
        while b"\n" not in self._rest:
            try:
                readable, _, _ = select.select([self._socket], [], [], LOOK_S)
                more = self._socket.recv(1 << 16) if readable else b""
            except (OSError, ValueError):  # it was never reached
                raise _Lost from None
            if readable:
                if not more:
                    raise _Lost
                self._rest += more
            elif stop and self._steps.stopping:
                return None
        line, self._rest = self._rest.split(b"\n", 1)
        answer: dict[str, Any] = json.loads(line)
        if answer["op"] == "failed":
            raise DeviceRefused(str(answer["reason"]), str(answer["detail"]))
        return answer


class RemoteDevices:
    """All devices of one process: a step begins on all of them and ends with the last."""

    def __init__(self, path: str, devices: Sequence[str], job: str, steps: Stopping) -> None:
        self._each = [RemoteDevice(path, device, job, steps) for device in devices]

    def attach(
        self, need: DeviceMemoryNeed | None, *, weight: float = 1.0, overlap: bool = False
    ) -> None:
        """A place on each of them, with the same need of memory."""
        for device in self._each:
            device.attach(need, weight=weight, overlap=overlap)

    def begin(self) -> None:
        """Count from now."""
        for device in self._each:
            device.begin()

    def step(self, step: StepTime, ready: float | None = None) -> bool:
        """Wait until all computed the step; False if a stop was ordered meanwhile."""
        for device in self._each:
            device.ask(step, ready)
        answers = [device.answer() for device in self._each]
        return all(answers)

    def close(self) -> None:
        """Leave the devices."""
        for device in self._each:
            device.close()
