"""Jobs that are over leave memory after a while, and nobody notices but the memory."""

import json
import sqlite3

import numpy as np
import pytest
from harness import Harness, ends

from deployed import PlayedAgent, a_scheduler, ask, jobs_of, look, submit, until
from rota.core.events import JobsDropped
from rota.core.lifecycle import JobPhase
from rota.deploy.scheduler.archive import JobFilter
from rota.deploy.scheduler.options import Retention
from rota.deploy.scheduler.records import job_from, job_values


def finished(harness, **fields):
    """The number of a job that has just finished."""
    job = harness.running(**fields)
    harness.report("a", {job: ends("completed", saved_step=1000)})
    harness.round()
    assert harness.phase(job) is JobPhase.FINISHED
    return job


def test_a_job_leaves_memory_when_it_is_over_for_long_enough():
    harness = Harness(retention=Retention(keep_finished_s=60.0))
    job = finished(harness, request="r", name="mine")

    harness.wait(59.0)
    assert job in harness.registry.jobs
    harness.wait(2.0)

    assert (harness.registry.jobs, harness.registry.requests, harness.registry.ended) == ({}, {}, {})
    assert harness.names()[-1] == "JobsArchived"
    archived = harness.requests.job(job, None)
    assert (archived.phase, archived.spec.name, archived.saved_step) == (JobPhase.FINISHED, "mine", 1000)


def test_only_so_many_stay_and_those_that_ended_last():
    harness = Harness(retention=Retention(keep_finished_jobs=2))
    jobs = [finished(harness) for _ in range(5)]

    harness.wait(1.0)

    assert list(harness.registry.jobs) == jobs[-2:]
    assert harness.registry.counts[JobPhase.FINISHED] == 5
    assert harness.submit() == 5  # numbers are not given twice


def test_jobs_that_are_over_take_no_more_memory_than_they_may():
    harness = Harness(retention=Retention(keep_finished_bytes=25_000))
    jobs = [finished(harness, argv=("true", "x" * 10_000), emulated=False) for _ in range(5)]

    harness.wait(1.0)

    assert list(harness.registry.jobs) == jobs[-2:]
    assert 20_000 < harness.registry.ended_bytes < 25_000
    archived = harness.requests.job(jobs[0], None)
    assert len(archived.spec.argv[1]) == 10_000


def test_the_same_request_is_the_same_submission_after_its_jobs_left():
    harness = Harness(retention=Retention(keep_finished_jobs=0))
    job = finished(harness, request="r")
    harness.wait(1.0)
    assert harness.registry.jobs == {}

    assert harness.submit(request="r") == job


def test_a_request_is_remembered_as_long_as_one_of_its_jobs_is_there():
    harness = Harness(retention=Retention(keep_finished_jobs=0))
    harness.join("a")
    first = harness.submit(request="r")
    spec = harness.job(first).spec
    harness.registry.requests["r"].append(99)  # two jobs came with it; the other one is not over
    harness.registry.jobs[99] = harness.registry.jobs[first].__class__(id=99, spec=spec, submitted=0.0, by="me")

    harness.cancel(first)
    harness.wait(1.0)

    assert harness.ask(lambda now: harness.requests.submit([spec], "me", "r", now)) == [first, 99]


def test_a_job_of_which_something_still_runs_stays():
    harness = Harness(retention=Retention(keep_finished_jobs=0))
    job = harness.running()
    harness.recorder.apply_engine_event(JobsDropped(at=1.0, jobs=np.array([job]), reason="of a test"))
    harness.wait(1.0)
    assert harness.phase(job) is JobPhase.FAILED
    assert job in harness.registry.jobs

    harness.want()
    harness.report("a", {job: ends("stopped")})
    harness.wait(1.0)
    assert job not in harness.registry.jobs


def test_a_restart_does_not_bring_them_back():
    harness = Harness(retention=Retention(keep_finished_jobs=0))
    finished(harness)
    left = harness.submit()
    harness.wait(1.0)

    again = harness.restarted()

    assert list(again.registry.jobs) == [left]
    assert again.registry == harness.registry


def test_an_archived_job_says_all_that_it_said_before():
    harness = Harness(retention=Retention(keep_finished_s=60.0))
    job = harness.job(finished(harness, env={"A": "1"}, ranks="gpu", request="r"))

    again = job_from(json.loads(json.dumps(job_values(job))))

    again.story = job.story
    assert again == job


@pytest.fixture
def scheduler(tmp_path):
    started = a_scheduler(tmp_path / "s?#%41.db", retention=Retention(keep_finished_jobs=3))
    started.start()
    yield started
    started.stop()


def test_memory_is_bounded_and_the_journal_has_all_jobs(scheduler, tmp_path):
    agent = PlayedAgent(scheduler, "a")
    for batch in range(6):
        submit(scheduler, *({"steps": 100, "tenant": f"t{batch % 2}"} for _ in range(5)), request=f"r{batch}")
        until(lambda: not look(scheduler, lambda registry: len(registry.live)), scheduler, [agent])
    until(lambda: len(jobs_of(scheduler)) <= 3, scheduler, [agent])

    archive = scheduler.archive
    assert look(scheduler, lambda registry: len(registry.requests)) <= 2
    jobs, total = archive.select(JobFilter(phases=frozenset({JobPhase.FINISHED})))
    assert total == len(jobs) == 27
    assert [job.id for job in jobs] == sorted((job.id for job in jobs), reverse=True)
    assert archive.select(JobFilter(tenant="t1"), limit=2)[1] == archive.select(JobFilter(tenant="t1"))[1]
    assert {job.id for job in archive.select(JobFilter(jobs=frozenset({0, 1, 29})))[0]} <= {0, 1, 29}
    assert archive.tenants([0, 5, 10**6]) == {0: "t0", 5: "t1"}
    assert submit(scheduler, {}, request="r0") == [0, 1, 2, 3, 4]
    assert ask(scheduler, lambda now: scheduler.requests.cancel([0], "me", None, now)) == ([], [0])


def test_jobs_and_the_event_that_lets_them_go_are_committed_together(scheduler, tmp_path):
    agent = PlayedAgent(scheduler, "a")
    submit(scheduler, *({"steps": 100} for _ in range(8)))
    until(lambda: len(jobs_of(scheduler)) <= 3, scheduler, [agent])
    scheduler.stop()

    db = sqlite3.connect(tmp_path / "s?#%41.db")
    rows = {job for (job,) in db.execute("SELECT job FROM finished_jobs")}
    bodies = db.execute("SELECT body FROM events WHERE kind = 'JobsArchived'")
    assert {job for (body,) in bodies for job in json.loads(body)["jobs"]} == rows
    again = a_scheduler(tmp_path / "s?#%41.db")
    again.journal.close()
    assert rows.isdisjoint(again.registry.jobs)
    assert again.requests.job(min(rows), None).phase is JobPhase.FINISHED


def test_the_attempts_of_a_job_are_remembered_with_it():
    harness = Harness(retention=Retention(keep_finished_jobs=0))
    job = finished(harness)
    (attempt,) = harness.requests.job(job, None).attempts

    assert (attempt.epoch, attempt.outcome, [place.node for place in attempt.places]) == (1, "completed", ["a"])
    assert job_from(json.loads(json.dumps(job_values(harness.requests.job(job, None))))).attempts == (attempt,)


def test_a_job_that_was_archived_before_attempts_were_remembered_has_none():
    harness = Harness()
    job = finished(harness)
    values = job_values(harness.requests.job(job, None))
    del values["attempts"]

    assert job_from(values).attempts == ()
