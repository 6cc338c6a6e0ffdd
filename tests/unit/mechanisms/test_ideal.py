"""Shares taken literally."""

import pytest
from rounds import promised

from builders import FAST, Speeds, a_cluster, a_run, assert_fits, some_jobs
from rota.core.allocation import Traits
from rota.core.horizon import UNTIL_JOBS_CHANGE
from rota.core.rules import Rules
from rota.mechanisms.registry import build

K80, V100 = 0, 1


def place(state):
    view = state.view(0.0)
    placement = build("ideal", Rules(), 0).place(view, state.allocation)
    assert_fits(placement, view)
    return placement


def tasks(placement):
    return sorted(
        zip(
            placement.first.tolist(),
            placement.second.tolist(),
            placement.type.tolist(),
            placement.fraction.tolist(),
            strict=True,
        )
    )


def test_every_share_is_a_task_without_slots():
    placement = place(promised([[0.25, 0.75], [0.0, 0.5]]))

    assert tasks(placement) == [(0, -1, K80, 0.25), (0, -1, V100, 0.75), (1, -1, V100, 0.5)]
    assert len(placement.slot_server) == 0
    assert placement.horizon is UNTIL_JOBS_CHANGE


def test_a_share_where_a_job_cannot_run_is_lost():
    speeds = Speeds(rates={FAST: {"k80": 0.0, "v100": 1.0}})

    assert tasks(place(promised([[0.5, 0.5]], speeds=speeds))) == [(0, -1, V100, 0.5)]


def test_pairs_run_together_where_they_fit():
    speeds = Speeds(pairs={(FAST, FAST, "v100"): 1.0})
    state = promised([[0.0, 0.5], [0.0, 0.0]], pairs=[(0, 1, [0.25, 0.25])], speeds=speeds, traits=Traits(packs=True))

    assert tasks(place(state)) == [(0, -1, V100, 0.5), (0, 1, V100, 0.25)]


def test_two_that_fit_together_nowhere_take_turns():
    speeds = Speeds(pairs={(FAST, FAST, "v100"): 0.0, (FAST, FAST, "k80"): 0.0})
    state = promised([[0.0, 0.0], [0.0, 0.0]], pairs=[(0, 1, [0.0, 0.5])], speeds=speeds, traits=Traits(packs=True))

    assert tasks(place(state)) == [(0, -1, V100, 0.25), (1, -1, V100, 0.25)]


def test_a_run_without_rounds_is_exact():
    run = a_run(some_jobs(2, steps=400.0), policy="isolated", mechanism="ideal", cluster=a_cluster(v100=1))

    assert run.finished == {0: pytest.approx(200.0), 1: pytest.approx(200.0)}


def test_arrivals_are_seen_at_once():
    jobs = some_jobs(2, steps=400.0, arrivals=[0.0, 50.0])

    run = a_run(jobs, policy="isolated", mechanism="ideal", cluster=a_cluster(v100=1))

    assert run.finished == {0: pytest.approx(150.0), 1: pytest.approx(200.0)}


def test_a_ranking_runs_without_rounds_too():
    run = a_run(some_jobs(2, steps=400.0), policy="fifo", mechanism="ideal", cluster=a_cluster(v100=1))

    assert run.finished == {0: pytest.approx(100.0), 1: pytest.approx(200.0)}


def test_two_who_share_go_at_their_shared_rates():
    state = promised([[0.0], [0.0]], pairs=[(0, 1, [1.0])], cluster=a_cluster(v100=1), jobs=some_jobs(2, steps=300.0))

    placement = place(state)

    assert tasks(placement) == [(0, 1, 0, 1.0)]
    assert a_run(2, policy="gandiva", mechanism="ideal", cluster=a_cluster(v100=1)).finished == {
        0: pytest.approx(1000 / 3.0),
        1: pytest.approx(1000 / 3.0),
    }
