"""The job's end of a device that an agent holds (see `server`)."""

from __future__ import annotations

import contextlib
import json
import os
import select
import socket
from typing import Any, Protocol

from rota.core.errors import ConfigError, RotaError
from rota.emulate.catalogue import MemoryNeed, StepTime
from rota.emulate.memory import REASON

LOOK_S = 0.02


class Stopping(Protocol):
    """Says whether a stop was ordered."""

    @property
    def stopping(self) -> bool:
        """Whether it was."""
        ...


class DeviceRefused(RotaError):
    """The agent's device did not take the job or failed it; `rota_reason` says why."""

    def __init__(self, reason: str, detail: str) -> None:
        super().__init__(detail)
        self.rota_reason = self.reason = reason

    @property
    def out_of_memory(self) -> bool:
        """Whether the device had too little memory."""
        return self.reason == REASON


class RemoteDevice:
    """Paces the steps of one job by a device of the agent."""

    def __init__(self, path: str, device: str, job: str, steps: Stopping) -> None:
        self._steps = steps
        self._rest = b""
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            self._socket.connect(path)
        except OSError as error:
            self._socket.close()
            raise ConfigError(f"{path}: no agent offers devices there ({error.strerror})") from error
        self._device, self._job = device, job

    def attach(self, need: MemoryNeed | None, *, weight: float = 1.0, overlap: bool = False) -> None:
        """Take a place on the device and the memory that a job keeps."""
        memory = {} if need is None else {"persistent_mib": need.persistent_mib, "peak_mib": need.peak_mib}
        message = {"op": "attach", "device": self._device, "job": self._job, "weight": weight, "overlap": overlap}
        self._send({**message, **memory})
        self._receive(stop=False)

    def begin(self) -> None:
        """Count from now."""
        self._send({"op": "begin"})

    def step(self, step: StepTime, ready: float | None = None) -> bool:
        """Wait until the device computed the step; False if a stop was ordered meanwhile."""
        message: dict[str, Any] = {"op": "run", "compute_s": step.compute_s, "transfer_s": step.transfer_s}
        self._send(message if ready is None else {**message, "ready": ready})
        answer = self._receive(stop=True)
        if answer is None:
            self._send({"op": "interrupt"})
            answer = self._receive(stop=False)
        return bool(answer and answer.get("done"))

    def close(self) -> None:
        """Leave the device."""
        self._socket.close()

    def _send(self, message: dict[str, Any]) -> None:
        with contextlib.suppress(BrokenPipeError):
            self._socket.sendall(json.dumps(message).encode() + b"\n")

    def _receive(self, *, stop: bool) -> dict[str, Any] | None:
        while b"\n" not in self._rest:
            readable, _, _ = select.select([self._socket], [], [], LOOK_S)
            if readable:
                more = os.read(self._socket.fileno(), 1 << 16)
                if not more:
                    raise DeviceRefused("device-lost", f"{self._device}: the agent that held it is gone")
                self._rest += more
            elif stop and self._steps.stopping:
                return None
        line, self._rest = self._rest.split(b"\n", 1)
        answer: dict[str, Any] = json.loads(line)
        if answer["op"] == "failed":
            raise DeviceRefused(str(answer["reason"]), str(answer["detail"]))
        return answer
