"""Calls of a user to whichever of several schedulers is in charge."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

import grpc

from rota.rpc import rota_pb2 as pb
from rota.rpc import rota_pb2_grpc as stubs

LONGEST_S = 20.0
"""Seconds for which a scheduler in charge is looked for: a standby takes over within 10."""
_AGAIN_S = 0.3
_STREAMS = frozenset({"Logs", "Events", "ReplicaBase"})


class FailoverStub:
    """The calls of `ControlStub`. One that finds nobody in charge is made again at the next one.

    Calls that change something are named by their callers (`request`), or have no further effect
    when they are made twice.
    """

    def __init__(self, channels: Sequence[Any]) -> None:
        self._stubs = [stubs.ControlStub(channel) for channel in channels]
        self._current = 0

    def __getattr__(self, name: str) -> Callable[..., Any]:
        """A call by name."""
        if name in _STREAMS:
            return lambda request, **more: self._stream(name, request, more)
        return lambda request, **more: self._unary(name, request, more)

    def _unary(self, name: str, request: Any, more: dict[str, Any]) -> Any:
        until = time.monotonic() + LONGEST_S
        while True:
            try:
                return getattr(self._stubs[self._current], name)(request, **more)
            except grpc.RpcError as error:
                if error.code() is not grpc.StatusCode.UNAVAILABLE or time.monotonic() > until:
                    raise
            self._current = (self._current + 1) % len(self._stubs)
            if self._current == 0:
                time.sleep(_AGAIN_S)

    def _stream(self, name: str, request: Any, more: dict[str, Any]) -> Any:
        """A stream cannot be begun twice without care: it is looked first who is in charge."""
        self._unary("Status", pb.Empty(), {})
        return getattr(self._stubs[self._current], name)(request, **more)
