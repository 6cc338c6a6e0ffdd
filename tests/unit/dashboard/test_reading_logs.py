"""Logs on a page: how many are read, also if pages are gone before the first line came."""

import asyncio
import threading
from types import SimpleNamespace

import pytest

from rota.dashboard.access import Access
from rota.dashboard.gateway import Gateway


@pytest.fixture
def slow():
    """A gateway whose clients come when they are let in, and what lets them in."""
    let_in = threading.Event()

    def another():
        let_in.wait(10.0)
        raise OSError("too many open files")

    watcher = SimpleNamespace(questions=None)
    return Gateway(None, watcher, Access(7080), another), let_in


def test_a_log_whose_page_is_gone_before_it_began_is_read_no_more(slow):
    gateway, let_in = slow

    async def look_and_leave():
        page = asyncio.create_task(anext(gateway._lines(0)))
        await asyncio.sleep(0.05)
        page.cancel()
        let_in.set()
        await asyncio.gather(page, return_exceptions=True)

    asyncio.run(look_and_leave())
    assert gateway._logs == 0


def test_a_log_for_which_there_is_no_client_is_read_no_more(slow):
    gateway, let_in = slow
    let_in.set()

    with pytest.raises(OSError, match="too many"):
        asyncio.run(anext(gateway._lines(0)))
    assert gateway._logs == 0
