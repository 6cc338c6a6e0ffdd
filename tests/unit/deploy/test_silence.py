"""What the scheduler makes of an agent that is not heard of."""

import time

import pytest

from deployed import PlayedAgent, a_scheduler, submit, until
from rota.deploy.contacts import Contacts, Report, Seen
from rota.deploy.floor import Timing


@pytest.fixture
def scheduler(tmp_path):
    found = a_scheduler(tmp_path / "s.db", timing=Timing(heartbeat_s=0.1, dead_after_s=0.5, lease_s=60.0))
    found.start()
    yield found
    found.stop()


def test_nothing_new_starts_on_a_server_that_is_silent(scheduler):
    agent = PlayedAgent(scheduler, "n0", gpus=2)
    jobs = scheduler.floor.book.jobs
    (first,) = submit(scheduler, {"steps": 10**9})
    until(lambda: jobs[first].attempt is not None, scheduler, [agent])

    until(lambda: scheduler.contacts.silent_s("n0") > 0.6, scheduler)
    (second,) = submit(scheduler, {"steps": 10**9})
    rounds = scheduler.floor.now() + 10 * 60.0
    until(lambda: scheduler.floor.now() > rounds, scheduler)
    assert jobs[second].admitted
    assert jobs[second].epoch == 0

    until(lambda: jobs[second].attempt is not None, scheduler, [agent])


def heard(contacts, sequence, step):
    return contacts.take(
        Report(
            node="n0", session="s", sequence=sequence, taken_over=1, tasks={(0, 1): Seen(phase="running", step=step)}
        )
    )


def test_time_in_which_nobody_was_heard_is_no_time_without_a_step(monkeypatch):
    now = [100.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    contacts = Contacts(heartbeat_s=1.0)
    heard(contacts, 1, 5)

    now[0] += 50.0  # the line is cut
    assert contacts.idle_s((0, 1), ["n0"]) == 0.0
    heard(contacts, 2, 5)  # written before the cut, and long on its way
    assert contacts.idle_s((0, 1), ["n0"]) == 2.0
    for sequence in range(3, 13):
        now[0] += 1.0
        heard(contacts, sequence, 5)

    assert contacts.idle_s((0, 1), ["n0"]) == 12.0
    heard(contacts, 13, 6)
    assert contacts.idle_s((0, 1), ["n0"]) == 0.0
