"""What a job's training loop waited for: in its record, in the event of an attempt's end, and after a restart."""

import pytest
from harness import Harness, ends, runs

from rota.cli.job_text import pairs
from rota.client.stalls import StallTimes
from rota.deploy.event_text import told
from rota.deploy.scheduler.clock import WallClock
from rota.deploy.scheduler.reasons import Explanation
from rota.deploy.scheduler.records import job_from, job_values
from rota.deploy.server.messages import agent_report, job_message
from rota.rpc import rota_pb2 as pb

COMMAND = {"emulated": False, "argv": ("train",), "steps": 0, "profile": ""}


def stopped_once(spent=StallTimes(6.0, 3.0, 1.0)):  # noqa: B008 - it never changes
    h = Harness()
    number = h.running(**COMMAND)
    h.report("a", {number: runs(step=5, saved_step=5, saved_path="p", spent=spent)})
    h.report("a", {number: ends("stopped", step=9, saved_step=5, saved_path="p", spent=spent)})
    return h, number


def shown(h, number, live=None):
    info = job_message(h.job(number), WallClock(scale=1.0), Explanation.of_archived(h.job(number)), live_spent=live)
    return dict(pairs(info))


def test_the_end_of_an_attempt_says_what_its_loop_waited_for():
    h, number = stopped_once()
    event = next(row for row in h.journal.rows if row["event"] == "AttemptEnded")

    assert (event["compute_s"], event["prepare_s"], event["storage_s"]) == (6.0, 3.0, 1.0)
    assert "of 10 s it waited 30% for preparation and 10% for storage" in told(event, None)
    assert h.restarted().job(number).prepare_s == 3.0


def test_a_job_shows_the_attempts_that_are_over_and_the_one_that_runs():
    h, number = stopped_once()

    assert shown(h, number)["time"].startswith("60% computing, 30% waiting for preparation, 10% for storage (of 10 s")
    assert "80% computing" in shown(h, number, StallTimes(10.0, 0.0, 0.0))["time"]


def test_a_job_that_says_nothing_shows_nothing():
    h, number = stopped_once(StallTimes())

    assert "time" not in shown(h, number)
    assert "waited" not in told(next(row for row in h.journal.rows if row["event"] == "AttemptEnded"), None)


def test_journals_and_records_of_before_have_no_times():
    h, number = stopped_once()
    new = {"compute_s", "prepare_s", "storage_s"}
    old = {name: value for name, value in job_values(h.job(number)).items() if name not in new}
    h.journal.rows = [{name: value for name, value in row.items() if name not in new} for row in h.journal.rows]

    assert job_from(old).storage_s == 0.0
    assert h.restarted().job(number).compute_s == 0.0


def test_an_agent_of_before_and_one_that_talks_nonsense_count_as_silent():
    message = pb.Observed(node="a", tasks=[pb.TaskState(job=1, epoch=1, phase="running", compute_s=float("nan"))])

    [task] = agent_report(message).tasks.values()

    assert task.spent == StallTimes()


@pytest.mark.parametrize("servers", [1, 2])
def test_servers_of_a_gang_count_in_the_mean(servers):
    h = Harness()
    number = h.running(**COMMAND)
    key = (number, h.job(number).epoch)
    h.report("a", {number: runs(spent=StallTimes(4.0, 2.0, 0.0))})
    h.heartbeats.of("b").tasks = {key: runs(spent=StallTimes(2.0, 0.0, 2.0))} if servers == 2 else {}

    expected = StallTimes(4.0, 2.0, 0.0) if servers == 1 else StallTimes(3.0, 1.0, 1.0)
    assert h.heartbeats.live_spent(key) == expected
