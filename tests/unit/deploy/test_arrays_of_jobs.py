"""Job arrays in the scheduler: jobs with an index each, at most so many at the same time."""

import pytest
from engine_harness import EngineHarness
from harness import Harness, ends

from rota.core.job_spec import spec_from
from rota.deploy.scheduler.requests import Refused

MODEL = "ResNet-18 (batch size 32)"
PARTS = {"policy": "las", "mechanism": "proportional", "profiles": "gavel"}


def running(harness):
    return {job.id for job in harness.registry.running.values()}


def submit(harness, *specs, request=""):
    jobs = [spec_from({"steps": 1000, "profile": MODEL, "emulated": True, **fields}) for fields in specs]
    return harness.ask(lambda now: harness.requests.submit(jobs, "tester", request, now))


def finish(harness, number):
    """The agent says that a job is done."""
    job = harness.job(number)
    harness.report(job.attempt.parts[0].node, {number: ends("completed", step=1000, saved_step=1000)})


def test_an_array_becomes_jobs_with_consecutive_numbers():
    harness = Harness()

    numbers = submit(harness, {"profile": "fast"}, {"profile": "fast", "array": "3-9:3"}, {"profile": "fast"})

    assert numbers == [0, 1, 2, 3, 4]
    assert [harness.job(number).array for number in numbers] == [-1, 1, 1, 1, -1]
    assert harness.registry.queue.arrays == {1: {1, 2, 3}}


def test_the_same_request_again_is_the_same_array():
    harness = Harness()
    first = submit(harness, {"profile": "fast", "array": "0-4"}, request="mine")

    assert submit(harness, {"profile": "fast", "array": "0-4"}, request="mine") == first
    assert len(harness.registry.jobs) == 5


def test_a_submission_of_too_many_jobs_is_refused_whole():
    harness = Harness()

    with pytest.raises(Refused, match="these are 15,000 jobs; give at most 10,000 in one submission"):
        submit(harness, *[{"profile": "fast", "array": "0-7499"}] * 2)
    assert not harness.registry.jobs


def test_at_most_as_many_as_the_limit_run_at_the_same_time_and_all_run_in_the_end():
    harness = EngineHarness(**PARTS)
    harness.join("a", 4)
    numbers = submit(harness, {"array": "0-5%2"})
    seen = []
    for _ in range(12):
        harness.round()
        seen.append(running(harness))
        assert len(seen[-1]) <= 2
        for number in seen[-1]:
            finish(harness, number)

    assert set().union(*seen) == set(numbers)
    assert seen[0] == {0, 1}


def test_other_jobs_get_the_gpus_that_an_array_may_not_have():
    harness = EngineHarness(**PARTS)
    harness.join("a", 4)
    submit(harness, {"array": "0-9%1"}, {"gpus": 2})

    harness.round()

    assert running(harness) == {0, 10}


def test_a_restarted_scheduler_keeps_to_the_limit():
    harness = EngineHarness(**PARTS)
    harness.join("a", 4)
    submit(harness, {"array": "0-5%2"})
    harness.round()

    again = harness.restarted()
    again.round()

    assert running(again) == {0, 1}
    assert again.registry.queue.arrays == {0: set(range(6))}


def test_a_snapshot_keeps_arrays():
    harness = EngineHarness(**PARTS)
    harness.join("a", 4)
    submit(harness, {"array": "0-5%2"})
    harness.round()
    harness.snapshot()

    again = harness.restarted(stored=harness.journal.stored)

    assert again.registry.queue.arrays[0] == set(range(6))


def test_an_array_is_cancelled_as_a_whole_by_any_of_its_jobs():
    harness = Harness()
    submit(harness, {"profile": "fast", "array": "0-3"}, {"profile": "fast"})

    cancelled, over = harness.ask(lambda now: harness.requests.cancel([], "me", None, now, [2]))

    assert (sorted(cancelled), over) == ([0, 1, 2, 3], [])
    assert not harness.job(4).ending


def test_a_job_of_no_array_cannot_be_cancelled_as_one():
    harness = Harness()
    harness.submit()

    with pytest.raises(Refused, match="job 0 is not in an array"):
        harness.ask(lambda now: harness.requests.cancel([], "me", None, now, [0]))


def test_the_array_of_another_tenant_does_not_exist():
    harness = Harness()
    submit(harness, {"profile": "fast", "array": "0-3", "tenant": "theirs"})

    with pytest.raises(Refused, match=r"^there is no job 1$"):
        harness.ask(lambda now: harness.requests.cancel([], "me", "mine", now, [1]))
    with pytest.raises(Refused, match=r"^there is no job 7$"):
        harness.ask(lambda now: harness.requests.cancel([], "me", "mine", now, [7]))
