"""Rounds on a fixed grid, progress is rate x time."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from stepping import one_by_one, tasks_of

from builders import FAST, SLOW, Speeds, a_cluster, some_jobs
from rota.core.errors import ConfigError
from rota.core.rules import Rules
from rota.sim.grid import Grid

K80, V100 = 0, 1


def a_grid(**rules):
    return Grid(Rules(**rules))


def test_a_job_finishes_inside_a_round_at_its_exact_time_and_the_round_goes_on():
    tasks = tasks_of(some_jobs(1, steps=100.0), (0, -1, V100, 1))

    done = a_grid().run(tasks, 0.0, math.inf, 0.0)

    assert done.finished.tolist() == [0]
    assert done.finished_at.tolist() == [25.0]
    assert (done.end, done.rounds) == (360.0, 1)
    assert done.steps.tolist() == [100.0]
    assert done.seconds.tolist() == [25.0]


def test_a_job_that_ends_with_the_round_ends_in_it():
    tasks = tasks_of(some_jobs(1, steps=4.0 * 360), (0, -1, V100, 1))

    done = a_grid().run(tasks, 720.0, math.inf, 720.0)

    assert done.finished_at.tolist() == [1080.0]
    assert (done.end, done.rounds) == (1080.0, 1)


def test_a_placement_that_may_change_runs_one_round():
    tasks = tasks_of(some_jobs(1, steps=1e6), (0, -1, V100, 1))

    done = a_grid().run(tasks, 0.0, -math.inf, 0.0)

    assert (done.end, done.rounds) == (360.0, 1)
    assert done.steps.tolist() == [1440.0]
    assert len(done.finished) == 0


def test_a_steady_placement_runs_to_the_round_in_which_somebody_is_through():
    tasks = tasks_of(
        some_jobs(2, steps=[1e6, 4.0 * 1000]), (0, -1, V100, 1), (1, -1, V100, 1), servers=[[(2, 1)], [(3, 1)]]
    )

    done = a_grid().run(tasks, 0.0, math.inf, 0.0)

    assert (done.end, done.rounds) == (1080.0, 3)
    assert done.finished.tolist() == [1]
    assert done.finished_at.tolist() == [1000.0]


@pytest.mark.parametrize(("stop", "end"), [(0.0, 360.0), (1.0, 360.0), (360.0, 360.0), (361.0, 720.0), (720.0, 720.0)])
def test_it_stops_at_the_first_round_at_or_after_the_moment_that_was_asked(stop, end):
    tasks = tasks_of(some_jobs(1, steps=1e6), (0, -1, V100, 1))

    assert a_grid().run(tasks, 0.0, stop, 0.0).end == end


@given(
    steps=st.lists(st.floats(1.0, 1e5), min_size=1, max_size=4),
    kinds=st.lists(st.sampled_from([K80, V100]), min_size=4, max_size=4),
    restart=st.sampled_from([0.0, 30.0]),
    first=st.integers(0, 1000),
)
def test_several_rounds_in_one_go_are_the_same_rounds_one_by_one(steps, kinds, restart, first):
    jobs = some_jobs(len(steps), steps=steps)
    placed = [(job, -1, kinds[job], 1) for job in range(len(steps))]
    grid, now = a_grid(restart_s=restart), first * 360.0

    jump = grid.run(tasks_of(jobs, *placed), now, math.inf, now)
    single = one_by_one(grid, tasks_of(jobs, *placed), now=now, last_end=now)

    assert jump.rounds == len(single)
    assert jump.end == single[-1].end
    assert jump.finished.tolist() == single[-1].finished.tolist()
    assert jump.finished_at == pytest.approx(single[-1].finished_at, rel=1e-12)
    assert jump.steps == pytest.approx(sum(s.steps for s in single), rel=1e-9)
    assert jump.seconds == pytest.approx(sum(s.seconds for s in single), rel=1e-9)


def test_who_starts_pays_for_it_once_and_who_stays_does_not():
    jobs = some_jobs(2, steps=4.0 * 1000)

    fresh, kept = (
        a_grid(restart_s=60.0).run(tasks_of(jobs, (0, -1, V100, 1), kept=k), 0.0, math.inf, 0.0) for k in (False, True)
    )

    assert fresh.finished_at.tolist() == [1060.0]
    assert kept.finished_at.tolist() == [1000.0]


def test_a_start_costs_gpu_time_but_makes_no_steps():
    done = a_grid(restart_s=60.0).run(tasks_of(some_jobs(1, steps=1e6), (0, -1, V100, 1)), 0.0, 0.0, 0.0)

    assert done.steps.tolist() == [300.0 * 4]
    assert done.seconds.tolist() == [360.0]


def test_a_start_that_takes_a_whole_round_is_refused():
    with pytest.raises(ConfigError, match="leaves nothing of a round"):
        a_grid(restart_s=500.0)


def test_of_two_who_share_one_ends_and_the_other_goes_on_at_its_speed_alone():
    jobs = some_jobs(2, profiles=[FAST, SLOW], steps=[300.0, 60.0])

    done = a_grid().run(tasks_of(jobs, (0, 1, V100, 1)), 0.0, math.inf, 0.0)

    # Together 3 and 0.3 steps/s: the first is through after 100 s, the other has 30 steps left, at 0.4 steps/s alone.
    assert dict(zip(done.finished.tolist(), done.finished_at.tolist(), strict=True)) == {
        0: pytest.approx(100.0),
        1: pytest.approx(175.0),
    }
    assert done.seconds == pytest.approx([175.0])
    assert done.alone == pytest.approx([-75.0])
    assert done.steps.tolist() == [300.0]
    assert done.partner_steps.tolist() == [60.0]


def test_who_is_left_of_a_pair_does_the_rest_of_the_round_alone():
    jobs = some_jobs(2, profiles=[FAST, SLOW], steps=[1e5, 30.0])

    done = a_grid().run(tasks_of(jobs, (0, 1, V100, 1)), 0.0, math.inf, 0.0)

    assert done.finished.tolist() == [1]
    assert done.finished_at.tolist() == [pytest.approx(100.0)]
    assert done.alone == pytest.approx([260.0])
    assert done.steps == pytest.approx([3.0 * 100 + 4.0 * 260])


@given(
    steps=st.lists(st.floats(1.0, 3000.0), min_size=4, max_size=4),
    cuts=st.lists(st.floats(0.5, 1500.0), min_size=1, max_size=4),
    restart=st.sampled_from([0.0, 90.0]),
)
def test_tasks_that_are_interrupted_get_as_far_as_if_they_were_not(steps, cuts, restart):
    jobs = some_jobs(4, profiles=[FAST, SLOW, FAST, SLOW], steps=steps)
    placed = ((0, 1, V100, 1), (2, -1, V100, 1), (3, -1, K80, 1))
    servers = [[(2, 1)], [(3, 1)], [(0, 1)]]
    whole = a_grid(restart_s=restart).run(tasks_of(jobs, *placed, servers=servers), 0.0, math.inf, 0.0)
    tasks = tasks_of(jobs, *placed, servers=servers)

    grid = a_grid(restart_s=restart)
    now = 0.0
    parts = []
    for limit in [*sorted({c for c in cuts if c < whole.end}), math.inf]:
        parts.append(grid.run(tasks, now, math.inf, 0.0, limit))
        now = parts[-1].end

    assert [part.cut for part in parts] == [True] * (len(parts) - 1) + [False]
    assert (now, sum(part.rounds for part in parts)) == (whole.end, whole.rounds)
    assert sum(part.steps for part in parts) == pytest.approx(whole.steps)
    assert sum(part.partner_steps for part in parts) == pytest.approx(whole.partner_steps)
    assert sum(part.seconds for part in parts) == pytest.approx(whole.seconds, abs=1e-6)
    assert sorted(parts[-1].finished.tolist()) == sorted(whole.finished.tolist())


def test_a_gang_over_several_servers_runs_at_its_spread_rate_where_that_counts():
    jobs, cluster = some_jobs(1, gpus=2, steps=400.0), a_cluster(v100=2)

    apart, together, ignored = (
        a_grid().run(
            tasks_of(
                jobs, (0, -1, 0, 2), cluster=cluster, servers=slots, spread_costs=costs, speeds=Speeds(spread=0.5)
            ),
            0.0,
            math.inf,
            0.0,
        )
        for slots, costs in (([[(0, 1), (1, 1)]], True), ([[(0, 2)]], True), ([[(0, 1), (1, 1)]], False))
    )

    assert apart.finished_at.tolist() == [200.0]
    assert together.finished_at.tolist() == ignored.finished_at.tolist() == [100.0]


@pytest.mark.parametrize(("arrival", "wake"), [(0.0, 0.0), (0.1, 360.0), (360.0, 360.0), (1e9 + 1, 2777778 * 360.0)])
def test_an_idle_cluster_wakes_with_the_next_round(arrival, wake):
    assert a_grid(at_once=False).wake(arrival) == wake
    assert a_grid().wake(arrival) == arrival  # whoever arrives is looked at at once


def test_the_grid_does_not_drift():
    grid, now = a_grid(round_s=0.1), 0.0
    tasks = tasks_of(some_jobs(1, steps=1e9), (0, -1, V100, 1))

    for _ in range(1000):
        now = grid.run(tasks, now, -math.inf, now).end

    assert now == pytest.approx(100.0, rel=1e-12)
    assert np.isclose(1e9 - tasks.left[0], 400.0)
