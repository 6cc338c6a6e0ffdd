"""No rounds: every task runs its fraction of the time."""

import math

import pytest
from stepping import tasks_of

from builders import FAST, SLOW, some_jobs
from rota.sim.steppers import Fluid

K80, V100 = 0, 1


def test_a_job_runs_on_several_types_at_once():
    tasks = tasks_of(some_jobs(1, steps=450.0), (0, -1, K80, 1), (0, -1, V100, 1), fraction=[0.5, 0.5])

    done = Fluid().run(tasks, 100.0, math.inf, 100.0)

    assert done.finished.tolist() == [0]
    assert done.finished_at == pytest.approx([100.0 + 450 / 2.5])
    assert done.steps == pytest.approx([90.0, 360.0])
    assert done.seconds == pytest.approx([90.0, 90.0])


def test_it_goes_to_the_first_completion():
    tasks = tasks_of(some_jobs(2, steps=[400.0, 200.0]), (0, -1, V100, 1), (1, -1, V100, 1), fraction=[1.0, 0.25])

    done = Fluid().run(tasks, 0.0, math.inf, 0.0)

    assert done.finished.tolist() == [0]
    assert done.end == pytest.approx(100.0)
    assert done.steps == pytest.approx([400.0, 100.0])


def test_it_stops_exactly_where_it_is_asked_to():
    done = Fluid().run(tasks_of(some_jobs(1, steps=1e6), (0, -1, V100, 1), fraction=[0.5]), 10.0, 12.5, 10.0)

    assert done.end == 12.5
    assert done.steps.tolist() == [5.0]
    assert len(done.finished) == 0


def test_jobs_that_end_at_the_same_time_end_together():
    tasks = tasks_of(some_jobs(3, steps=100.0), *((job, -1, V100, 1) for job in range(3)), fraction=[0.5] * 3)

    done = Fluid().run(tasks, 0.0, math.inf, 0.0)

    assert done.finished.tolist() == [0, 1, 2]
    assert done.finished_at.tolist() == [50.0] * 3


def test_a_remainder_too_small_to_move_the_clock_ends_the_job():
    tasks = tasks_of(some_jobs(2, steps=[1e-9, 1e6]), *((job, -1, V100, 1) for job in range(2)), fraction=[0.5] * 2)

    done = Fluid().run(tasks, 1e7, math.inf, 1e7)

    assert done.end == 1e7
    assert done.finished.tolist() == [0]
    assert done.steps.tolist() == [1e-9, 0.0]


def test_a_job_may_run_alone_and_in_a_pair():
    jobs = some_jobs(2, profiles=[FAST, SLOW], steps=[1000.0, 1e6])
    tasks = tasks_of(jobs, (0, -1, V100, 1), (0, 1, V100, 1), fraction=[0.5, 0.5])

    done = Fluid().run(tasks, 0.0, 100.0, 0.0)

    assert done.steps == pytest.approx([200.0, 150.0])
    assert done.partner_steps == pytest.approx([0.0, 15.0])


def test_an_arrival_is_seen_at_once():
    assert Fluid().wake(77.0) == 77.0
