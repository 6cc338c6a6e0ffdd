"""A ranking, walked from its head."""

import numpy as np
import pytest
from scipy.optimize import linear_sum_assignment

from builders import FAST, SLOW, Speeds, a_cluster, a_placement, a_state, ids, shares, some_jobs
from rota.core.allocation import Allocation, Traits
from rota.core.events import JobsFinished, JobsSubmitted, Planned
from rota.core.horizon import EVERY_ROUND, UNTIL_JOBS_CHANGE, WITH_RANKING
from rota.core.placement import Plan
from rota.core.rules import Rules
from rota.mechanisms.select.order import Order

K80, V100 = 0, 1


def ranking(view, order, *, aware=True, static=False):
    zero = np.zeros((len(view), len(view.types)))
    return Allocation(
        jobs=view.jobs,
        types=view.types,
        share=zero,
        order=ids(*order),
        horizon=UNTIL_JOBS_CHANGE if static else EVERY_ROUND,
        traits=Traits(aware=aware),
    )


def choose(state, allocation, now=0.0):
    choice = Order().choose(state.view(now), allocation)
    return dict(zip(choice.first.tolist(), choice.type.tolist(), strict=True)), choice


def test_the_head_of_the_queue_gets_its_fastest_type():
    state = a_state(3, cluster=a_cluster(v100=1, k80=1))

    chosen, _ = choose(state, ranking(state.view(0.0), [2, 0, 1]))

    assert chosen == {2: V100, 0: K80}


def test_a_policy_that_sees_no_types_takes_any_free_gpu():
    starts = [0, 0]
    for seed in range(300):
        state = a_state(1, cluster=a_cluster(v100=1, k80=4))
        choice = Order(seed=seed).choose(state.view(0.0), ranking(state.view(0.0), [0], aware=False))
        starts[choice.type[0]] += 1

    assert 0.74 < starts[K80] / sum(starts) < 0.86  # four of five GPUs


def test_without_types_a_job_stays_where_it_ran_and_whoever_comes_before_it_goes_elsewhere():
    state = a_state(2, cluster=a_cluster(v100=1, k80=1))
    state.apply(Planned(at=0.0, plan=Plan(round=0, start=0.0, placement=a_placement((1, -1, K80, 1)))))

    chosen, _ = choose(state, ranking(state.view(0.0), [0, 1], aware=False))

    assert chosen == {0: V100, 1: K80}


def running(jobs, where, **parts):
    """A state in which the last job runs on `where`."""
    state = a_state(jobs, **parts)
    last = len(state.view(0.0)) - 1
    state.apply(Planned(at=0.0, plan=Plan(round=0, start=0.0, placement=a_placement((last, -1, where, 1)))))
    return state


def test_with_types_a_job_moves_to_a_faster_one_that_is_idle():
    state = running(2, K80, cluster=a_cluster(v100=2, k80=2))

    chosen, _ = choose(state, ranking(state.view(0.0), [0, 1]))

    assert chosen == {0: V100, 1: V100}


@pytest.mark.parametrize(("steps", "where"), [(250.0, K80), (40_000.0, V100)])
def test_a_job_does_not_move_for_less_than_the_move_costs(steps, where):
    """4 times as fast, but the restart takes 300 of 360 s: not within the round, and only a long job ends sooner."""
    rules = Rules(restart_s=300.0)
    state = running(some_jobs(1, steps=steps), K80, cluster=a_cluster(v100=2, k80=2), rules=rules)

    choice = Order(rules).choose(state.view(0.0), ranking(state.view(0.0), [0]))

    assert choice.type.tolist() == [where]


def test_a_fast_type_goes_to_who_loses_most_without_it():
    jobs = some_jobs(2, profiles=[SLOW, FAST])  # half as fast on a K80, and a quarter
    state = a_state(jobs, cluster=a_cluster(v100=1, k80=1))

    chosen, _ = choose(state, ranking(state.view(0.0), [0, 1]))

    assert chosen == {0: K80, 1: V100}


@pytest.mark.parametrize("seed", range(60))
def test_types_are_given_so_that_the_sum_of_relative_speeds_is_largest(seed):
    rng = np.random.default_rng(seed)
    types = ["a100", "k80", "p100", "t4", "v100"][: int(rng.integers(2, 6))]
    profiles = [f"p{i}" for i in range(int(rng.integers(1, 7)))]
    rates = {p: {t: float(r) for t, r in zip(types, rng.uniform(0.1, 9.0, len(types)), strict=True)} for p in profiles}
    rates = {p: {t: r * float(rng.random() > 0.2) for t, r in row.items()} for p, row in rates.items()}
    rates = {p: {**row, types[0]: max(row[types[0]], 1.0)} for p, row in rates.items()}
    cluster = a_cluster(**{t: int(rng.integers(1, 9)) for t in types})
    count = int(rng.integers(1, 30))
    jobs = some_jobs(count, profiles=[str(p) for p in rng.choice(profiles, count)])
    view = a_state(jobs, cluster=cluster, speeds=Speeds(rates=rates)).view(0.0)

    choice = Order().choose(view, ranking(view, rng.permutation(count)))

    rate = view.throughput
    relative = rate / rate.max(axis=1, keepdims=True)
    got = relative[choice.first, choice.type].sum()
    slots = np.repeat(np.arange(len(types)), view.capacity)
    worth = np.where(rate > 0, relative, -1e6)[choice.first][:, slots]
    rows, columns = linear_sum_assignment(-worth)
    assert got == pytest.approx(worth[rows, columns].sum(), abs=1e-5)


def test_a_smaller_job_overtakes_one_that_does_not_fit():
    state = a_state(some_jobs(3, gpus=[2, 2, 1]), cluster=a_cluster(v100=3, per_server=3))

    chosen, _ = choose(state, ranking(state.view(0.0), [0, 1, 2]))

    assert chosen == {0: 0, 2: 0}


def test_a_type_without_speed_is_passed_over():
    state = a_state(2, cluster=a_cluster(v100=2, k80=2), speeds=Speeds(rates={FAST: {"k80": 1.0, "v100": 0.0}}))

    chosen, _ = choose(state, ranking(state.view(0.0), [0, 1]))

    assert chosen == {0: K80, 1: K80}


def test_an_order_from_before_a_job_left_or_came_still_names_the_same_jobs():
    state = a_state(3, cluster=a_cluster(v100=1))
    allocation = ranking(state.view(0.0), [0, 2, 1])
    state.apply(JobsFinished(at=1.0, jobs=ids(0), finished_at=np.ones(1)))
    state.apply(JobsSubmitted(at=1.0, first_id=3, jobs=some_jobs(1)))

    chosen, choice = choose(state, allocation, 1.0)

    assert state.view(1.0).jobs[choice.first].tolist() == [2]
    assert chosen == {1: 0}


@pytest.mark.parametrize(("jobs", "static", "steady"), [(1, False, True), (3, False, False), (3, True, True)])
def test_the_choice_is_steady_if_everybody_runs_or_the_order_stays(jobs, static, steady):
    state = a_state(jobs, cluster=a_cluster(v100=1))

    _, choice = choose(state, ranking(state.view(0.0), range(jobs), static=static))

    assert choice.horizon is (UNTIL_JOBS_CHANGE if steady else WITH_RANKING)


def test_it_needs_a_ranking():
    state = a_state(1)

    with pytest.raises(ValueError, match="ranking"):
        choose(state, shares(state.view(0.0), [[1.0, 0.0]]))
