"""Processes are told apart by their start, so that a number that was given again is never touched."""

import os
import signal
import subprocess

import pytest

from rota.deploy.worker import procs
from rota.deploy.worker.procs import Process


@pytest.fixture
def sleeper():
    child = subprocess.Popen(
        ["sleep", "60"], start_new_session=True, env={**os.environ, "ROTA_TEST_MARK": f"{os.getpid()}!"}
    )
    yield child
    child.kill()
    child.wait()


def test_a_process_is_recognised(sleeper):
    found = procs.identify(sleeper.pid)

    assert procs.is_alive(found)
    assert procs.in_session(found) == procs.in_group(found) == [found]
    assert procs.usage([found]).rss_bytes > 0


def test_a_signal_for_a_predecessor_with_the_same_number_reaches_nobody(sleeper):
    now = procs.identify(sleeper.pid)
    before = Process(now.pid, now.start - 1)

    assert not procs.send(before, signal.SIGKILL)
    assert procs.in_group(before) == procs.in_session(before) == []
    assert sleeper.poll() is None


def test_a_signal_for_the_process_itself_arrives(sleeper):
    assert procs.send(procs.identify(sleeper.pid), signal.SIGTERM)
    assert sleeper.wait(5) == -signal.SIGTERM


def test_a_zombie_is_not_alive(sleeper):
    found = procs.identify(sleeper.pid)
    sleeper.kill()
    os.waitid(os.P_PID, sleeper.pid, os.WEXITED | os.WNOWAIT)

    assert not procs.is_alive(found)


def test_processes_are_found_by_a_mark_in_their_environment(sleeper):
    assert [p.pid for p in procs.with_environment(f"ROTA_TEST_MARK={os.getpid()}!")] == [sleeper.pid]
    assert procs.with_environment(f"ROTA_TEST_MARK={os.getpid()}") == []
