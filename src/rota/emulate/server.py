"""Devices for jobs that are processes of their own: a UNIX socket of the agent, JSON lines.

    job -> agent   {"op": "attach", "device": "gpu0", "job": "a", "persistent_mib": 300, ...}
                   {"op": "run", "compute_s": 0.5, "transfer_s": 0.01, "ready": 123.4}
                   {"op": "interrupt"}, {"op": "begin"}
    agent -> job   {"op": "attached"}, {"op": "ran", "done": true}
                   {"op": "failed", "reason": "...", "detail": "..."}

The connection is the holder: when it ends, by a good-bye or by kill -9, everything of the job on
the device is gone.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import socket
import time
from functools import partial
from pathlib import Path
from typing import Any

from rota.core import unix_sockets
from rota.core.errors import ConfigError, RotaError
from rota.emulate.catalogue import LONGEST_STEP_S, StepTime
from rota.emulate.device import DevicePool, Seat
from rota.emulate.device_memory import DeviceError

ASKING_S = 0.002
"""How long a shared device waits for the job it served to ask again before it chooses; costs no
device time."""

MOST_CONNECTIONS = 256
"""Through one door, so that no user takes all file handles of the agent."""
PAUSE_S = 0.02
"""Seconds for which somebody is not heard whose line made no sense."""


class DeviceServer:
    """Lets processes use the devices of a fleet."""

    def __init__(self, fleet: DevicePool, path: str | os.PathLike[str]) -> None:
        self.fleet = fleet
        self.path = Path(path)
        self._servers: dict[Path, asyncio.Server] = {}
        self._connections: dict[asyncio.Task[None], Path] = {}

    async def start(self) -> None:
        """Listen, in place of one that died; only the own user may connect.

        Paths of any length work on Linux.
        """
        await self.open_door(self.path)

    async def open_door(self, path: Path, owner: tuple[int, int] | None = None) -> None:
        """Listen at another path as well, which only its owner (user, group) can reach."""
        if path in self._servers:
            return
        listener = _bound(path, owner)
        serve = partial(self._serve, path)
        self._servers[path] = await asyncio.start_unix_server(serve, sock=listener, backlog=32)

    async def close(self) -> None:
        """Stop listening and drop all connections."""
        for server in self._servers.values():
            server.close()
        for task in list(self._connections):
            task.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)
        for path in self._servers:
            with contextlib.suppress(FileNotFoundError):
                path.unlink()

    async def _serve(
        self, door: Path, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        task = asyncio.current_task()
        through_this_door = sum(1 for other in self._connections.values() if other == door)
        if task is None or through_this_door >= MOST_CONNECTIONS:
            writer.close()
            return
        self._connections[task] = door
        connection = _JobConnection(self.fleet, writer)
        try:
            # A line longer than the reader's limit is a ValueError; such a connection is dropped.
            with contextlib.suppress(ConnectionError, asyncio.CancelledError, ValueError):
                while line := await reader.readline():
                    understood = connection.receive(line)
                    await writer.drain()  # who does not read its answers is not heard
                    await asyncio.sleep(0 if understood else PAUSE_S)  # let others speak
        finally:
            connection.close()
            writer.close()
            del self._connections[task]


def _bound(path: Path, owner: tuple[int, int] | None) -> socket.socket:
    try:
        path.unlink(missing_ok=True)
        return unix_sockets.bind(str(path), owner)
    except OSError as error:
        raise ConfigError(f"{path}: cannot listen there ({error.strerror or error})") from error


class _JobConnection:
    def __init__(self, fleet: DevicePool, writer: asyncio.StreamWriter) -> None:
        self._fleet = fleet
        self._writer = writer
        self._seat: Seat | None = None
        self._running: asyncio.Task[None] | None = None

    def receive(self, line: bytes) -> bool:
        """Do what a line says; False if it makes no sense."""
        try:
            message = json.loads(line)
            operation = message["op"]
            if operation == "attach":
                self._attach(message)
            elif self._seat is None:
                raise ConfigError(f"{operation!r} before 'attach'")
            elif operation == "run":
                step = StepTime(float(message["compute_s"]), float(message.get("transfer_s", 0.0)))
                ready = message.get("ready")
                at = None if ready is None else _time(float(ready))
                self._running = asyncio.ensure_future(self._run(self._seat, step, at))
            elif operation == "interrupt":
                self._seat.interrupt()
            elif operation == "begin":
                self._seat.begin()
        except RotaError as error:
            self._fail(error)
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            self._fail(ConfigError(f"not understood: {line[:200]!r} ({error})"))
            return False
        return True

    def _attach(self, message: dict[str, Any]) -> None:
        if self._seat is not None:
            raise ConfigError(f"this connection has job {self._seat.holder!r} already")
        self._seat = self._fleet[str(message["device"])].attach(
            str(message["job"]),
            persistent_mib=float(message.get("persistent_mib", 0.0)),
            peak_mib=float(message.get("peak_mib", 0.0)),
            weight=float(message.get("weight", 1.0)),
            overlap=bool(message.get("overlap", False)),
        )
        self._send({"op": "attached", "compression": self._seat.device.compression})

    async def _run(self, seat: Seat, step: StepTime, ready: float | None) -> None:
        try:
            done = await seat.run(step, ready)
        except RotaError as error:
            self._fail(error)
        else:
            self._send({"op": "ran", "done": done})

    def close(self) -> None:
        if self._seat is not None:
            self._seat.device.release(self._seat.holder)

    def _fail(self, error: RotaError) -> None:
        reason = error.rota_reason if isinstance(error, DeviceError) else "refused"
        self._send({"op": "failed", "reason": reason, "detail": str(error)})

    def _send(self, message: dict[str, Any]) -> None:
        if not self._writer.is_closing():
            self._writer.write(json.dumps(message).encode() + b"\n")


def _time(ready: float) -> float:
    """A time on the monotonic clock that is not further away than a step may be long."""
    if not abs(ready - time.monotonic()) < LONGEST_STEP_S:
        raise ConfigError(
            f"data that are ready at {ready} cannot be waited for; times are of the monotonic clock"
        )
    return ready
