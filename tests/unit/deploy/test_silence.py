"""What the scheduler makes of an agent that is not heard of."""

import pytest

from deployed import PlayedAgent, a_scheduler, jobs_of, look, submit, until
from rota.core.lifecycle import TaskPhase
from rota.deploy.scheduler.heartbeats import AgentReport, Heartbeats, TaskReport
from rota.deploy.scheduler.options import Timing


@pytest.fixture
def scheduler(tmp_path):
    found = a_scheduler(tmp_path / "s.db", timing=Timing(heartbeat_s=0.1, dead_after_s=0.5, lease_s=60.0))
    found.start()
    yield found
    found.stop()


def test_nothing_new_starts_on_a_server_that_is_silent(scheduler):
    agent = PlayedAgent(scheduler, "n0", gpus=2)
    (first,) = submit(scheduler, {"steps": 10**9})
    until(lambda: jobs_of(scheduler)[first].attempt is not None, scheduler, [agent])

    until(lambda: look(scheduler, lambda _: scheduler.heartbeats.unanswered_s("n0")) > 0.6, scheduler)
    (second,) = submit(scheduler, {"steps": 10**9})
    rounds = scheduler.round_start + 10 * 60.0
    until(lambda: scheduler.round_start > rounds, scheduler)
    assert jobs_of(scheduler)[second].admitted
    assert jobs_of(scheduler)[second].epoch == 0

    until(lambda: jobs_of(scheduler)[second].attempt is not None, scheduler, [agent])


def heard(heartbeats, sequence, step):
    task = TaskReport(phase=TaskPhase.RUNNING, step=step)
    return heartbeats.take(AgentReport(node="n0", session="s", sequence=sequence, acknowledged=1, tasks={(0, 1): task}))


def test_time_in_which_nobody_was_heard_is_no_time_without_a_step():
    now = [100.0]
    heartbeats = Heartbeats(heartbeat_s=1.0, monotonic=lambda: now[0])
    heard(heartbeats, 1, 5)

    now[0] += 50.0  # the line is cut
    assert heartbeats.idle_s((0, 1), ["n0"]) == 0.0
    heard(heartbeats, 2, 5)  # written before the cut, and long on its way
    assert heartbeats.idle_s((0, 1), ["n0"]) == 2.0
    for sequence in range(3, 13):
        now[0] += 1.0
        heard(heartbeats, sequence, 5)

    assert heartbeats.idle_s((0, 1), ["n0"]) == 12.0
    heard(heartbeats, 13, 6)
    assert heartbeats.idle_s((0, 1), ["n0"]) == 0.0
