"""The picture is kept up to date: everything once, then what events name, and anew after a scheduler was away."""

import json

import pytest

from live import until
from rota.core.errors import ConfigError, RotaError
from rota.dashboard.watching import Pace, Watcher
from rota.rpc import rota_pb2 as pb


class FakeScheduler:
    """Answers from a table of jobs; counts what is asked."""

    def __init__(self, jobs):
        self.table = {number: self._info(number, "queued") for number in range(jobs)}
        self.asked, self.problem, self.refuses = [], None, None

    def _info(self, number, phase, **fields):
        return pb.JobInfo(job=number, phase=phase, spec=pb.JobSpec(name=f"j{number}", gpus=1), **fields)

    def set_phase(self, number, phase, **fields):
        self.table[number] = self._info(number, phase, **fields)

    def _answer(self):
        if self.problem is not None:
            raise self.problem

    def status(self):
        self._answer()
        return pb.StatusReply(policy="las", round_s=60.0, time_scale=1.0, tenant="t", decisions=[pb.Decision(at_s=1.0)])

    def nodes(self):
        return [pb.NodeInfo(node="n0", type="v100", gpus=4, state="up")]

    def page(self, phases=(), *, limit=0):
        wanted = set(phases)
        jobs = [info for info in self.table.values() if info.phase in wanted]
        return pb.JobList(jobs=jobs[:limit] if limit else jobs)

    def some_jobs(self, numbers):
        self.asked.append(list(numbers))
        return [self.table[number] for number in numbers if number in self.table]

    def usage(self, last_s, **_):
        assert last_s == 86_400.0
        if self.refuses is not None:
            raise self.refuses
        return {"tenants": [], "cpu_s": 1.0}

    def eta(self, *_, **__):
        return {"time_scale": 1.0, "cpu_s": 2.0, "jobs": []}


class Clock:
    def __init__(self):
        self.now = 100.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    return Clock()


def a_watcher(scheduler, clock, **pace):
    return Watcher(scheduler, Pace(**{"in_turn": 10, **pace}), clock)


def test_everything_is_read_once_and_then_some_in_turn(clock):
    scheduler = FakeScheduler(35)
    watcher = a_watcher(scheduler, clock)
    for _ in range(5):
        watcher.refresh()

    assert len(watcher.picture.jobs) == 35
    assert max(map(len, scheduler.asked)) == 10
    assert {job for asked in scheduler.asked for job in asked} == set(range(35))


def test_a_job_that_an_event_names_is_looked_at_now_and_once_more(clock):
    scheduler = FakeScheduler(200)
    watcher = a_watcher(scheduler, clock, in_turn=1)
    watcher.refresh()
    scheduler.set_phase(150, "running", step=1)
    watcher._note({"event": "AttemptStarted", "job": 150})
    watcher.refresh()
    assert watcher.picture.jobs[150].phase == "running"

    scheduler.set_phase(150, "finished", ended_at=9.0)
    clock.now += 5
    watcher.refresh()
    assert watcher.picture.jobs[150].phase == "finished"


@pytest.mark.parametrize(
    "event",
    [
        {"event": "JobsFinished", "jobs": [3, 4]},
        {"event": "JobAccepted", "job": 3, "jobs": [4]},
    ],
)
def test_events_about_several_jobs_name_them_all(clock, event):
    watcher = a_watcher(FakeScheduler(5), clock)
    watcher._note(json.loads(json.dumps(event)))

    assert set(watcher._named) == {3, 4}


@pytest.mark.parametrize("event", [{}, {"event": "X", "job": "3"}, {"event": "LeasesExtended", "job": 3}, {"jobs": 5}])
def test_events_that_name_no_job_are_passed_over(clock, event):
    watcher = a_watcher(FakeScheduler(5), clock)
    watcher._note(event)

    assert watcher._named == {}


def test_a_scheduler_that_is_away_is_said_and_everything_is_read_anew_when_it_is_back(clock):
    scheduler = FakeScheduler(3)
    watcher = a_watcher(scheduler, clock)
    watcher.refresh()
    scheduler.problem = RotaError("nothing listens\nmore")
    with pytest.raises(RotaError):
        watcher.refresh()
    watcher._lost(str(scheduler.problem))
    assert watcher.picture.away == "nothing listens"
    assert len(watcher.picture.jobs) == 3

    scheduler.problem = None
    scheduler.table = {7: scheduler._info(7, "queued")}
    watcher.refresh()
    assert watcher.picture.away == ""
    assert list(watcher.picture.jobs) == [7]


def test_questions_rest_as_long_as_their_answers_cost_and_a_refusal_is_told(clock):
    scheduler = FakeScheduler(1)
    watcher = a_watcher(scheduler, clock, usage_s=20.0, part_of_cpu=0.01)
    watcher.refresh()
    watcher.ask_questions()
    assert watcher.picture.usage_number == 1
    clock.now += 50
    watcher.ask_questions()
    assert watcher.picture.usage_number == 1  # one CPU second at a hundredth of a CPU: 100 s
    clock.now += 60
    scheduler.refuses = ConfigError("60 questions a minute are answered per tenant")
    watcher.ask_questions()
    assert "60 questions" in watcher.picture.usage_problem
    assert watcher.picture.usage is not None
    scheduler.refuses = None
    clock.now += 60
    watcher.ask_questions()
    assert watcher.picture.usage_problem  # it was refused: not so soon again
    clock.now += 61
    watcher.ask_questions()
    assert watcher.picture.usage_problem == ""


def test_jobs_that_are_over_are_forgotten_when_there_are_too_many(clock, monkeypatch):
    monkeypatch.setattr("rota.dashboard.watching._MOST_ENDED", 5)
    scheduler = FakeScheduler(20)
    watcher = a_watcher(scheduler, clock, in_turn=50)
    watcher.refresh()
    for number in range(12):
        scheduler.set_phase(number, "finished", ended_at=100.0 + number)
    watcher.refresh()

    assert sorted(watcher.picture.jobs) == [*range(7, 12), *range(12, 20)]


def test_nothing_is_asked_while_nobody_looks_and_everything_is_read_anew_afterwards(clock):
    scheduler = FakeScheduler(3)
    watcher = a_watcher(scheduler, clock, refresh_s=0.01, idle_after_s=5.0, usage_s=0.0, eta_s=0.0)
    scheduler.event_lines = lambda *_, **__: iter(())
    watcher.look()
    watcher.start()
    try:
        until(lambda: len(watcher.picture.jobs) == 3)
        clock.now += 60
        until(lambda: not watcher._whole)
        asked = len(scheduler.asked)
        scheduler.table = {9: scheduler._info(9, "queued")}
        assert len(scheduler.asked) == asked
        watcher.look()
        until(lambda: list(watcher.picture.jobs) == [9])
    finally:
        watcher.stop()
