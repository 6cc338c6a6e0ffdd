"""Jobs that may only run for so long: all attempts count, they save before they stop, and the outcome says why."""

import math

import pytest
from click.testing import CliRunner
from engine_harness import EngineHarness
from harness import ROUND_S, ends

from rota.cli.main import cli
from rota.core.duration_text import duration_s
from rota.core.errors import ConfigError
from rota.core.job_spec import spec_from
from rota.core.lifecycle import AttemptOutcome, JobPhase, TaskCommand
from rota.deploy.job_files import read_jobs
from rota.deploy.scheduler.reasons import ReasonCode, Reasons, cluster_as_it_is
from rota.deploy.scheduler.time_limits import near_words, ran_s

MODEL = "ResNet-18 (batch size 32)"
PARTS = {"policy": "las", "mechanism": "proportional", "profiles": "gavel"}


def a_cluster(*jobs, gpus=4):
    harness = EngineHarness(**PARTS)
    harness.join("a", gpus)
    for fields in jobs:
        harness.submit(profile=MODEL, **fields)
    harness.round()
    return harness


def explained(harness, number):
    cluster = cluster_as_it_is(harness.registry, harness.clock.now())
    return Reasons(cluster, harness.catalogue, registry=harness.registry).explain(harness.job(number))


def outcomes(harness, number):
    return [record.outcome for record in harness.job(number).attempts]


def test_a_job_whose_time_is_up_saves_stops_and_has_failed_with_that_outcome():
    harness = a_cluster({"time_limit_s": 2.5 * ROUND_S, "max_restarts": 9})
    harness.silent.add("a")
    harness.pass_time(2.5 * ROUND_S)
    (order,) = harness.board.published["a"].tasks
    assert order.command is TaskCommand.STOP
    assert order.grace_s == 0.0  # as long as it takes to save, not as one that is cancelled
    harness.silent.clear()

    harness.obey("a", saved=300)
    harness.round()

    assert harness.phase(0) is JobPhase.FAILED
    assert outcomes(harness, 0) == ["time-limit"]
    assert explained(harness, 0).code is ReasonCode.TIME_LIMIT
    assert "its time limit is 25 s (--time-limit); saved step 300" in harness.job(0).reason
    assert harness.job(0).restarts == 0


def test_time_of_all_attempts_counts_and_waiting_does_not():
    harness = a_cluster({"time_limit_s": 4 * ROUND_S})
    harness.round()
    harness.ask(lambda now: harness.requests.hold([0], [], "me", None, now))
    harness.round()
    before = ran_s(harness.job(0), harness.clock.now())
    for _ in range(20):
        harness.round()
    assert ran_s(harness.job(0), harness.clock.now()) == before
    assert ROUND_S <= before < 4 * ROUND_S

    harness.ask(lambda now: harness.requests.release([0], [], "me", None, now))
    for _ in range(5):
        harness.round()

    assert harness.phase(0) is JobPhase.FAILED
    assert outcomes(harness, 0) == ["stopped", "time-limit"]


def test_the_owner_is_warned_once_before():
    harness = a_cluster({"time_limit_s": 100.0})
    assert near_words(harness.job(0), harness.clock.now()) == ""

    for _ in range(9):
        harness.round()

    (warning,) = harness.of("TimeLimitNear")
    assert warning["job"] == 0
    assert 0 < warning["left_s"] <= 10.0
    assert "left of its time limit of 100 s" in near_words(harness.job(0), harness.clock.now())


def test_a_job_that_is_done_in_time_is_finished():
    harness = a_cluster({"time_limit_s": 100.0})
    harness.report("a", {0: ends("completed", step=1000, saved_step=1000)})
    harness.pass_time(200.0)
    harness.round()

    assert harness.phase(0) is JobPhase.FINISHED


def test_a_job_that_is_done_while_it_is_being_stopped_is_finished():
    harness = a_cluster({"time_limit_s": 5.0})
    harness.silent.add("a")
    harness.pass_time(6.0)
    harness.silent.clear()

    harness.report("a", {0: ends("completed", step=1000, saved_step=1000)})
    harness.round()

    assert harness.phase(0) is JobPhase.FINISHED


def test_a_job_that_fails_with_its_time_up_is_not_tried_again():
    harness = a_cluster({"time_limit_s": 5.0, "max_restarts": 9})
    harness.silent.add("a")
    harness.wait(6.0)
    harness.silent.clear()

    harness.report("a", {0: ends("killed", detail="it did not stop in time")})
    harness.round()

    assert harness.phase(0) is JobPhase.FAILED
    assert outcomes(harness, 0) == [AttemptOutcome.TIME_LIMIT.value]


def test_jobs_after_one_whose_time_is_up_are_cancelled():
    harness = a_cluster({"time_limit_s": 5.0})
    harness.submit(profile=MODEL, after=[0])
    harness.pass_time(10.0)
    harness.round()

    assert harness.phase(1) is JobPhase.CANCELLED


def test_a_restarted_scheduler_knows_how_long_a_job_ran():
    harness = a_cluster({"time_limit_s": 3.2 * ROUND_S})
    harness.round()

    again = harness.restarted()
    for _ in range(4):
        again.round()

    assert again.phase(0) is JobPhase.FAILED
    assert again.job(0).ran_s == pytest.approx(3.2 * ROUND_S, abs=ROUND_S / 2)


def test_a_job_learns_how_much_time_it_has():
    harness = a_cluster({"time_limit_s": 100.0}, {})

    orders = {order.job: order for order in harness.board.published["a"].tasks}

    assert orders[0].time_left_s == 100.0
    assert orders[1].time_left_s == 0.0


def test_a_job_without_a_limit_is_never_stopped_for_it():
    harness = a_cluster({})
    for _ in range(30):
        harness.round()

    assert harness.phase(0) is JobPhase.RUNNING
    assert not harness.of("TimeLimitNear")


@pytest.mark.parametrize(
    ("text", "seconds"), [("90", 90), ("45s", 45), ("1.5h", 5400), ("1h30m", 5400), ("2d", 172800), ("30m", 1800)]
)
def test_durations_have_units(text, seconds):
    assert duration_s(text) == seconds


@pytest.mark.parametrize("text", ["", "0", "0h", "-1", "nan", "inf", "1e9999", "4 h", "4hours", "m", "9" * 40, "1m1h"])
def test_what_is_no_duration_is_refused_with_an_example(text):
    with pytest.raises(ConfigError, match=r"is not a duration; give seconds, .* such as 4h"):
        duration_s(text)


@pytest.mark.parametrize("value", [math.nan, math.inf, -1.0, "4h"])
def test_a_job_cannot_have_a_limit_that_is_no_number_of_seconds(value):
    with pytest.raises(ConfigError, match="time_limit_s is"):
        spec_from({"argv": ["x"], "time_limit_s": value})


def test_the_command_line_refuses_a_limit_in_one_message():
    said = CliRunner().invoke(cli, ["submit", "--time-limit", "soon", "--", "x"])

    assert said.exit_code == 2
    assert "'soon' is not a duration" in said.output


def test_a_file_has_durations_or_seconds(tmp_path):
    path = tmp_path / "jobs.toml"
    for text, seconds in (('"4h"', 14400.0), ("90", 90.0)):
        path.write_text(f'[[job]]\ncommand = "x"\ntime_limit = {text}\n', encoding="utf-8")
        assert read_jobs(path)[0].time_limit_s == seconds
    path.write_text('[[job]]\ncommand = "x"\ntime_limit = "soon"\n', encoding="utf-8")
    with pytest.raises(ConfigError, match=r"jobs.toml:3: time_limit = 'soon' is not a duration"):
        read_jobs(path)
