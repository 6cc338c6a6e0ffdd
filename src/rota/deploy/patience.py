"""Calls that the scheduler puts off because their tenant makes too many: made again when it says, for a while.

A refusal with `rota-retry-after-s` in its metadata was not looked at, so that the same request may be sent again.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

import grpc

from rota.deploy.security.admission import RETRY_AFTER
from rota.deploy.security.transport import DEADLINE_S

T = TypeVar("T")
_LEAST_PAUSE_S = 0.05


def patiently(call: Callable[[], T], patience_s: float = DEADLINE_S) -> T:
    """The answer of a call; one that is put off is made again, unless that is too late."""
    until = time.monotonic() + patience_s
    while True:
        try:
            return call()
        except grpc.RpcError as error:  # noqa: PERF203 - it is about trying again
            _pause(error, until)


def patient_stream(open_stream: Callable[[], Iterable[T]], patience_s: float = DEADLINE_S) -> Iterator[T]:
    """The messages of a stream; one that is put off before its first message is opened again."""
    until = time.monotonic() + patience_s
    begun = False
    while True:
        try:
            for message in open_stream():
                begun = True
                yield message
        except grpc.RpcError as error:  # noqa: PERF203 - it is about trying again
            if begun:
                raise
            _pause(error, until)
        else:
            return


def _pause(error: grpc.RpcError, until: float) -> None:
    """Wait as long as the scheduler says; raises the error if it says nothing, or too long."""
    metadata = error.trailing_metadata() if hasattr(error, "trailing_metadata") else None
    said = [float(value) for key, value in metadata or () if key == RETRY_AFTER]
    pause_s = max(_LEAST_PAUSE_S, *said) if said else math.inf
    if time.monotonic() + pause_s > until:
        raise error
    time.sleep(pause_s)
