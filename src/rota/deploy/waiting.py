"""Wait for an event for a while, without losing a cancellation.

`asyncio.wait_for` of Python 3.11 and older swallows a cancellation that comes at the very moment at which the event
happens: the loop around it goes on for ever, and whoever waits for its end with it.
"""

from __future__ import annotations

import asyncio


async def happens(event: asyncio.Event, within_s: float) -> bool:
    """Whether the event happens within that time."""
    if event.is_set():
        return True
    waiting = asyncio.ensure_future(event.wait())
    try:
        await asyncio.wait((waiting,), timeout=within_s)
    finally:
        waiting.cancel()
    return event.is_set()
