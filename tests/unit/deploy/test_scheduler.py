"""The owner of the state: what it accepts, what survives, what it makes of reports."""

import json
import shutil
import sqlite3
import threading
from contextlib import contextmanager

import pytest

from deployed import PROFILE, PlayedAgent, a_scheduler, ask, ended, jobs_of, running_jobs, submit, until
from rota.core.errors import ConfigError
from rota.core.lifecycle import JobPhase
from rota.deploy.scheduler.requests import Refused


@contextmanager
def running(path, **options):
    scheduler = a_scheduler(path, **options)
    scheduler.start()
    try:
        yield scheduler
        assert scheduler.failure is None
    finally:
        scheduler.stop()


def all_over(scheduler):
    return lambda: all(job.over for job in jobs_of(scheduler).values())


def test_jobs_run_to_the_end_and_every_step_is_credited_once(tmp_path):
    with running(tmp_path / "s.db") as scheduler:
        agents = [PlayedAgent(scheduler, "a"), PlayedAgent(scheduler, "b", "k80")]
        submit(scheduler, *({"gpus": g, "steps": 3000} for g in (1, 1, 2, 4, 1, 2)))

        until(all_over(scheduler), scheduler, agents)

        jobs = jobs_of(scheduler)
        assert {job.phase for job in jobs.values()} == {"finished"}
        assert all(job.saved_step == 3000 for job in jobs.values())
    lines = [json.loads(body) for (body,) in sqlite3.connect(tmp_path / "s.db").execute("SELECT body FROM events")]
    for number in jobs:
        saved = [line["step"] for line in lines if line["event"] == "StepsSaved" and line["job"] == number]
        assert saved == sorted(set(saved))  # cumulative and rising: no step twice


def test_no_device_is_ever_held_twice(tmp_path):
    with running(tmp_path / "s.db") as scheduler:
        agents = [PlayedAgent(scheduler, "a"), PlayedAgent(scheduler, "b", "k80", gpus=2)]
        submit(scheduler, *({"gpus": 1 + i % 2, "steps": 1500} for i in range(12)))
        until(all_over(scheduler), scheduler, agents)
    held = {}
    for (body,) in sqlite3.connect(tmp_path / "s.db").execute("SELECT body FROM events ORDER BY seq"):
        line = json.loads(body)
        if line["event"] == "AttemptStarted":
            mine = [(part["node"], device) for part in line["parts"] for device in part["devices"]]
            assert not set(mine) & {device for other in held.values() for device in other}
            held[line["job"]] = mine
        elif line["event"] == "AttemptEnded":
            del held[line["job"]]
    assert held == {}


def test_a_restart_finds_everything_and_restarts_no_job(tmp_path):
    with running(tmp_path / "s.db") as scheduler:
        agents = [PlayedAgent(scheduler, "a")]
        submit(scheduler, *({"steps": 200000} for _ in range(6)))
        until(lambda: len(running_jobs(scheduler)) == 4, scheduler, agents)
        for _ in range(5):
            agents[0].report(scheduler)
        before = {n: (j.phase, j.epoch, j.saved_step, j.attempt) for n, j in jobs_of(scheduler).items()}
    with running(tmp_path / "s.db") as again:
        after = {n: (j.phase, j.epoch, j.saved_step, j.attempt) for n, j in jobs_of(again).items()}
        epochs = {n: j.epoch for n, j in jobs_of(again).items()}
        assert set(after) == set(before)
        assert all(after[n][2] >= before[n][2] for n in before)
        assert agents[0].report(again) is True  # the session is still good
        running_before = {n for n, (phase, *_) in before.items() if phase == "running"}
        assert all(epochs[n] == before[n][1] for n in running_before)


def test_every_prefix_of_a_journal_is_a_state_to_go_on_from(tmp_path):
    """A crash may come after any commit: whatever was committed by then can be read and makes sense."""
    with running(tmp_path / "s.db") as scheduler:
        agents = [PlayedAgent(scheduler, "a"), PlayedAgent(scheduler, "b", "k80", gpus=2)]
        submit(scheduler, *({"gpus": 1 + i % 2, "steps": 900} for i in range(6)))
        ask(scheduler, lambda now: scheduler.requests.drain("b", "me", now, undo=False))
        until(all_over(scheduler), scheduler, agents)
        ends = {n: (j.phase, j.saved_step) for n, j in jobs_of(scheduler).items()}
        last = scheduler.journal.last
    step = max(1, last // 60)
    for length in [*range(1, last, step), last]:
        copy = tmp_path / f"{length}.db"
        shutil.copy(tmp_path / "s.db", copy)
        db = sqlite3.connect(copy)
        db.execute("DELETE FROM events WHERE seq > ?", (length,))
        db.execute("DELETE FROM snapshots")
        db.commit()
        db.close()
        part = a_scheduler(copy)
        try:
            book = part.registry
            held = [(p.node, d) for j in book.running.values() for p in j.attempt.parts for d in p.devices]
            assert len(held) == len(set(held))
            if length == last:
                assert {n: (j.phase, j.saved_step) for n, j in book.jobs.items()} == ends
        finally:
            part.journal.close()
            copy.unlink()


def test_a_snapshot_gives_the_same_as_the_whole_journal(tmp_path, monkeypatch):
    monkeypatch.setattr("rota.deploy.scheduler.housekeeping.SNAPSHOT_EVERY", 20)
    with running(tmp_path / "s.db") as scheduler:
        agents = [PlayedAgent(scheduler, "a")]
        submit(scheduler, *({"steps": 3000} for _ in range(8)))
        until(lambda: sum(j.over for j in jobs_of(scheduler).values()) >= 3, scheduler, agents)
    shutil.copy(tmp_path / "s.db", tmp_path / "whole.db")
    db = sqlite3.connect(tmp_path / "whole.db")
    (count,) = db.execute("SELECT count(*) FROM snapshots").fetchone()
    db.execute("DELETE FROM snapshots")
    db.commit()
    db.close()
    quick, whole = a_scheduler(tmp_path / "s.db"), a_scheduler(tmp_path / "whole.db")
    try:
        assert count >= 1
        assert quick.registry == whole.registry
        mine, theirs = quick._recovered.state, whole._recovered.state
        assert mine.view(0.0).jobs.tolist() == theirs.view(0.0).jobs.tolist()
        assert mine.view(0.0).attained.tolist() == theirs.view(0.0).attained.tolist()
        assert mine.placement == theirs.placement
        assert mine.saved() == theirs.saved()
    finally:
        quick.journal.close()
        whole.journal.close()


def test_the_same_request_twice_is_one_submission(tmp_path):
    with running(tmp_path / "s.db") as scheduler:
        first = submit(scheduler, {}, {}, request="r1")

        assert submit(scheduler, {}, {}, request="r1") == first
        assert submit(scheduler, {}, request="r2") == [2]


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ({"gpus": -1}, "gpus is -1; give a number from 1"),
        ({"emulated": False}, "nothing to run"),
        ({"steps": 0}, "steps is 0"),
        ({"profile": "ResNet-19"}, "not in catalogue 'gavel'"),
        ({"ranks": "many"}, "give server or gpu"),
        ({"weight": -2.0}, "weight is -2.0"),
        ({"model": "rezzznet", "batch": 4}, "unknown model 'rezzznet'"),
        ({"model": "resnet50"}, "a batch of at least 1, not 0"),
        ({"model": "resnet50", "batch": 2, "gpus": 4}, "a batch of at least 4, not 2"),
        ({"batch": 2}, "says nothing without a model"),
        ({"model": "resnet50", "batch": 2, "emulated": False, "argv": ["train"]}, "is for emulated jobs"),
    ],
)
def test_a_job_that_cannot_be_is_refused_at_once(tmp_path, spec, message):
    with running(tmp_path / "s.db") as scheduler, pytest.raises(ConfigError, match=message):
        submit(scheduler, spec)


def test_a_job_for_which_no_server_is_up_waits_and_says_so(tmp_path):
    with running(tmp_path / "s.db") as scheduler:
        small = PlayedAgent(scheduler, "small", gpus=2)
        submit(scheduler, {"gpus": 4}, {"gpus": 1})
        until(lambda: jobs_of(scheduler)[1].over, scheduler, [small])
        assert jobs_of(scheduler)[0].phase == "queued"

        agents = [small, PlayedAgent(scheduler, "big", gpus=4)]
        until(all_over(scheduler), scheduler, agents)

        assert jobs_of(scheduler)[0].phase == "finished"


def test_a_failing_job_is_tried_again_after_pauses_and_then_given_up(tmp_path):
    with running(tmp_path / "s.db") as scheduler:
        agent = PlayedAgent(scheduler, "a")
        submit(scheduler, {"max_restarts": 1}, {"steps": 500})
        good = agent.states

        def failing(_):
            tasks, version = good(scheduler)
            for key in tasks:
                if key[0] == 0:
                    tasks[key] = ended("failed", exit_code=3, detail="no data")
            return tasks, version

        agent.states = failing
        until(all_over(scheduler), scheduler, [agent])

        jobs = jobs_of(scheduler)
        assert jobs[0].phase == "failed"
        assert "no data" in jobs[0].reason
        assert (jobs[0].restarts, jobs[0].exit_code, jobs[0].epoch) == (2, 3, 2)
        assert jobs[1].phase == "finished"  # a poisoned job does not harm the others


def test_old_doubled_and_foreign_reports_change_nothing(tmp_path):
    with running(tmp_path / "s.db") as scheduler:
        agent = PlayedAgent(scheduler, "a")
        submit(scheduler, {"steps": 100000})
        until(lambda: running_jobs(scheduler) and agent.sequence > 1, scheduler, [agent])
        key = (0, 1)
        lie = {key: ended("completed", step=10**9, saved_step=10**9)}

        assert agent.report(scheduler, tasks=lie, sequence=1) is True  # overtaken by newer ones
        assert agent.report(scheduler, tasks=lie, session="of another life") is False
        assert agent.report(scheduler, tasks={(0, 7): lie[key], (99, 1): lie[key]}, acknowledged=0) is True

        job = jobs_of(scheduler)[0]
        assert (job.phase, job.epoch) == (JobPhase.RUNNING, 1)
        assert job.saved_step < 100000


def test_a_task_that_its_agent_does_not_know_is_started_again(tmp_path):
    with running(tmp_path / "s.db") as scheduler:
        agent = PlayedAgent(scheduler, "a")
        submit(scheduler, {"steps": 20000})
        until(
            lambda: agent.states(scheduler)[0], scheduler, [agent]
        )  # in the registry is not yet among the agent's orders

        agent.report(scheduler, tasks={})

        until(lambda: jobs_of(scheduler)[0].epoch == 2, scheduler, [agent])


def test_a_cancelled_job_ends_wherever_it_is(tmp_path):
    with running(tmp_path / "s.db") as scheduler:
        requests = scheduler.requests
        submit(scheduler, {"steps": 10**7})
        assert ask(scheduler, lambda now: requests.cancel([0], "me", None, now)) == (
            [0],
            [],
        )  # before any server is there
        agent = PlayedAgent(scheduler, "a", gpus=1)
        submit(scheduler, {"steps": 10**7}, {"steps": 10**7})
        until(lambda: len(running_jobs(scheduler)) == 1, scheduler, [agent])

        ask(scheduler, lambda now: requests.cancel([1, 2], "me", None, now))
        until(all_over(scheduler), scheduler, [agent])

        assert {job.phase for job in jobs_of(scheduler).values()} == {"cancelled"}
        with pytest.raises(Refused, match="no job 7"):
            ask(scheduler, lambda now: requests.cancel([7], "me", None, now))
        with pytest.raises(Refused, match="no job 1"):
            ask(scheduler, lambda now: requests.cancel([1], "me", "another tenant", now))


def test_a_policy_that_is_late_never_delays_a_round(tmp_path):
    release = threading.Event()
    with running(tmp_path / "s.db", policy="max-min-fairness-perf", solve_budget_s=0.05) as scheduler:
        inner = scheduler._policy._policy.allocate

        def slow(view):
            release.wait(10)
            return inner(view)

        agent = PlayedAgent(scheduler, "a")
        submit(scheduler, {"steps": 10**6})
        until(lambda: running_jobs(scheduler), scheduler, [agent])
        scheduler._policy._policy = type("Slow", (), {"allocate": staticmethod(slow)})()
        submit(scheduler, {"steps": 10**6})
        rounds = scheduler.round_start
        until(lambda: scheduler.late_solves >= 3, scheduler, [agent])
        assert scheduler.round_start > rounds
        assert 0 in running_jobs(scheduler)  # goes on with the last shares

        release.set()
        until(lambda: 1 in running_jobs(scheduler), scheduler, [agent])


def test_a_journal_of_nonsense_is_refused_with_the_number_of_the_event(tmp_path):
    with running(tmp_path / "s.db") as scheduler:
        submit(scheduler, {})
    db = sqlite3.connect(tmp_path / "s.db")
    db.execute("""UPDATE events SET body = '{"event": "Surprise", "at": 0}', crc = NULL WHERE seq = 2""")
    db.commit()
    db.close()

    with pytest.raises(ConfigError, match="event 2 cannot be read"):
        a_scheduler(tmp_path / "s.db")


def test_profile_names_of_the_test_exist():
    from rota import profiles

    assert profiles.load("gavel").known(PROFILE)
