"""Waiting for an event for a while."""

import asyncio

import pytest

from rota.deploy.waiting import happens


def test_an_event_is_waited_for_no_longer_than_that():
    async def story():
        event = asyncio.Event()
        late = await happens(event, 0.01)
        asyncio.get_running_loop().call_later(0.01, event.set)
        return late, await happens(event, 10.0), await happens(event, 0.0)

    assert asyncio.run(story()) == (False, True, True)


@pytest.mark.parametrize("turns", range(5))
def test_a_cancellation_at_the_moment_of_the_event_is_not_lost(turns):
    """`asyncio.wait_for` of Python 3.11 loses it, and an agent that was told to stop went on for ever."""

    async def for_ever(event):
        while True:
            await happens(event, 60.0)
            event.clear()

    async def story():
        event = asyncio.Event()
        loop = asyncio.ensure_future(for_ever(event))
        await asyncio.sleep(0.01)
        event.set()
        for _ in range(turns):
            await asyncio.sleep(0)
        loop.cancel()
        await asyncio.wait((loop,), timeout=1.0)
        was_cancelled = loop.cancelled()
        loop.cancel()
        return was_cancelled

    assert asyncio.run(story())
