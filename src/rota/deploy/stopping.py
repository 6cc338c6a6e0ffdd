"""How a process of a deployment is told to stop: a signal, or the end of its standard input."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal

STOPPING = "the scheduler is stopping"
"""How the answer to a request begins that came too late; clients know it by that."""
NOT_IN_CHARGE = "this scheduler is not in charge"
"""How refusals begin of one that stands by, or that may have been replaced."""


def stop_on_signals(stop: asyncio.Event) -> None:
    """Ctrl-C and TERM end a service in order."""
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)


def stop_on_eof(stop: asyncio.Event) -> None:
    """So does the end of standard input: whoever started us is gone."""
    loop = asyncio.get_running_loop()

    def read() -> None:
        with contextlib.suppress(BlockingIOError):
            if not os.read(0, 4096):
                loop.remove_reader(0)
                stop.set()

    loop.add_reader(0, read)
