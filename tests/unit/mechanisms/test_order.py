"""A ranking, walked from its head."""

import numpy as np
import pytest

from builders import FAST, Speeds, a_cluster, a_placement, a_state, ids, shares, some_jobs
from rota.core.allocation import Allocation, Traits
from rota.core.events import JobsFinished, JobsSubmitted, Planned
from rota.core.horizon import EVERY_ROUND, UNTIL_JOBS_CHANGE, WITH_RANKING
from rota.core.placement import Plan
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


def test_a_policy_that_sees_no_types_takes_the_emptiest():
    state = a_state(3, cluster=a_cluster(v100=1, k80=4))

    chosen, _ = choose(state, ranking(state.view(0.0), [0, 1, 2], aware=False))

    assert chosen == {0: K80, 1: V100, 2: K80}


def test_a_job_stays_on_the_type_it_ran_on():
    state = a_state(2, cluster=a_cluster(v100=2, k80=2))
    state.apply(Planned(at=0.0, plan=Plan(round=0, start=0.0, placement=a_placement((1, -1, K80, 1)))))

    chosen, _ = choose(state, ranking(state.view(0.0), [0, 1]))

    assert chosen == {0: V100, 1: K80}


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
