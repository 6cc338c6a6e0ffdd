"""Rounds of the published simulator: whole steps, and everybody waits for the slowest."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from stepping import one_by_one, tasks_of

from builders import FAST, SLOW, Speeds, a_cluster, some_jobs
from rota.core.rules import preset
from rota.sim.slowest_task import SlowestTask

K80, V100 = 0, 1
RATES = {FAST: {"k80": 1.7, "p100": 3.1, "v100": 7.3}, SLOW: {"k80": 0.013, "p100": 0.04, "v100": 0.11}}
ODD = Speeds(rates=RATES)


def a_stepper():
    return SlowestTask(preset("gavel-artifact"))


def test_a_round_does_whole_steps_and_lasts_as_long_as_they_take():
    tasks = tasks_of(some_jobs(1, profiles=SLOW, steps=1e6), (0, -1, V100, 1), speeds=ODD)

    done = a_stepper().run(tasks, 0.0, -math.inf, 0.0)

    assert done.steps.tolist() == [39.0]
    assert done.end == 39.0 / 0.11


def test_a_round_ends_when_its_slowest_task_does():
    jobs = some_jobs(2, profiles=[FAST, SLOW], steps=[73.0, 1e6])
    tasks = tasks_of(jobs, (0, -1, V100, 1), (1, -1, V100, 1), servers=[[(2, 1)], [(3, 1)]], speeds=ODD)

    done = a_stepper().run(tasks, 100.0, math.inf, 100.0)

    assert done.finished.tolist() == [0]
    assert done.finished_at.tolist() == [100.0 + 73.0 / 7.3]
    assert done.end == 100.0 + 39.0 / 0.11
    assert done.seconds.tolist() == [100.0 + 73.0 / 7.3 - 100.0, 100.0 + 39.0 / 0.11 - 100.0]


def test_the_last_chunk_of_a_job_may_be_part_of_a_step():
    done = a_stepper().run(tasks_of(some_jobs(1, steps=0.5), (0, -1, V100, 1), speeds=ODD), 0.0, math.inf, 0.0)

    assert done.finished_at.tolist() == [0.5 / 7.3]


@given(
    steps=st.lists(st.floats(1.0, 5e4), min_size=1, max_size=4),
    kinds=st.lists(st.sampled_from([K80, V100]), min_size=4, max_size=4),
    now=st.floats(0.0, 1e7),
    gap=st.sampled_from([0.0, 500.0]),
    stop=st.sampled_from([0.0, 1000.0, 5000.0, math.inf]),
)
def test_several_rounds_in_one_go_are_the_same_rounds_to_the_last_bit(steps, kinds, now, gap, stop):
    jobs = some_jobs(len(steps), steps=steps)
    placed = [(job, -1, kinds[job], 1) for job in range(len(steps))]

    jump = a_stepper().run(tasks_of(jobs, *placed, speeds=ODD), now, now + stop, now - gap)
    single = one_by_one(a_stepper(), tasks_of(jobs, *placed, speeds=ODD), now=now, last_end=now - gap, stop=now + stop)

    each = np.stack([s.seconds for s in single])
    assert jump.rounds == len(single)
    assert (jump.start, jump.end) == (single[0].start, single[-1].end)
    assert jump.finished.tolist() == single[-1].finished.tolist()
    assert jump.finished_at.tolist() == single[-1].finished_at.tolist()
    assert jump.steps == pytest.approx(sum(s.steps for s in single), rel=1e-12)
    assert np.array_equal(jump.each if jump.each is not None else jump.seconds[None, :], each)


def test_pairs_jump_as_they_go_one_by_one():
    jobs = some_jobs(2, profiles=[FAST, SLOW], steps=[1e4, 300.0])

    jump = a_stepper().run(tasks_of(jobs, (0, 1, V100, 1), speeds=ODD), 0.0, math.inf, 0.0)
    single = one_by_one(a_stepper(), tasks_of(jobs, (0, 1, V100, 1), speeds=ODD))

    assert jump.rounds == len(single) > 1
    assert jump.end == single[-1].end
    assert jump.partner_steps.tolist() == sum(s.partner_steps for s in single).tolist()
    assert jump.each.tolist() == [s.seconds.tolist() for s in single]


def test_two_who_share_finish_together():
    jobs = some_jobs(2, profiles=[FAST, SLOW], steps=[10.0, 1e4])

    done = a_stepper().run(tasks_of(jobs, (0, 1, V100, 1), speeds=ODD), 0.0, math.inf, 0.0)

    assert done.finished.tolist() == [0]
    assert done.finished_at.tolist() == [done.end]


def test_an_idle_gap_before_a_round_is_accounted_with_it():
    tasks = tasks_of(some_jobs(1, steps=73.0), (0, -1, V100, 1), speeds=ODD)

    done = a_stepper().run(tasks, 90000.0, math.inf, 21.0)

    assert done.start == 21.0
    assert done.seconds.tolist() == [90000.0 + 73.0 / 7.3 - 21.0]


@pytest.mark.parametrize(("left", "fails"), [(0.5, True), (1.99, True), (2.0, False), (3.0, False)])
def test_a_gang_with_fewer_steps_left_than_gpus_fails(left, fails):
    tasks = tasks_of(some_jobs(1, gpus=2, steps=left), (0, -1, 0, 2), cluster=a_cluster(v100=2, per_server=2))

    done = a_stepper().run(tasks, 0.0, math.inf, 0.0)

    assert done.lost.tolist() == ([0] if fails else [])
    assert done.finished.tolist() == ([] if fails else [0])
    assert done.steps.tolist() == [0.0 if fails else left]
    assert (done.seconds[0] == 0.0) == fails


def test_a_job_too_slow_for_one_step_per_round_fails():
    slow = Speeds(rates={FAST: {"v100": 0.001, "k80": 0.001}})

    done = a_stepper().run(tasks_of(some_jobs(1, steps=10.0), (0, -1, V100, 1), speeds=slow), 0.0, math.inf, 0.0)

    assert done.lost.tolist() == [0]


def test_an_arrival_is_seen_at_once():
    assert a_stepper().wake(123.4) == 123.4
