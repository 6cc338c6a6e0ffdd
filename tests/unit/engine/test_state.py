"""State changes only through events."""

import numpy as np
import pytest

from builders import FAST, SLOW, a_placement, a_state, accounts_of, ids, shares, some_jobs
from rota.core.errors import RotaError
from rota.core.events import (
    Allocated,
    JobsDropped,
    JobsFinished,
    JobsRejected,
    JobsSubmitted,
    Planned,
    RoundsRan,
    RunEnded,
)
from rota.core.placement import Plan
from rota.core.rules import Rules

K80, V100 = 0, 1


def plan(state, placement, at=0.0):
    state.apply(Planned(at=at, plan=Plan(round=0, start=at, placement=placement)))


def run(state, steps, seconds, *, partner=None, lost=(), rounds=1, at=360.0):
    steps, seconds = np.array(steps, dtype=float), np.array(seconds, dtype=float)
    partner = np.zeros(len(steps)) if partner is None else np.array(partner, dtype=float)
    state.apply(
        RoundsRan(at=at, start=0.0, rounds=rounds, steps=steps, partner_steps=partner, seconds=seconds, lost=ids(*lost))
    )


def allocate(state, rows, at=0.0, **options):
    state.apply(Allocated(at=at, allocation=shares(state.view(at), rows, **options)))


def test_arrivals_are_appended_with_ascending_ids():
    state = a_state(2)

    state.apply(JobsSubmitted(at=50.0, first_id=2, jobs=some_jobs(2, profiles=SLOW, gpus=2, arrivals=[40.0, 50.0])))
    view = state.view(60.0)

    assert view.jobs.tolist() == [0, 1, 2, 3]
    assert view.gpus.tolist() == [1, 1, 2, 2]
    assert view.submitted.tolist() == [0.0, 0.0, 40.0, 50.0]
    assert view.job_class.tolist() == [0, 0, 1, 1]


def test_jobs_of_the_same_kind_and_weight_share_a_class():
    state = a_state(some_jobs(4, profiles=[FAST, SLOW, FAST, FAST], weight=[1.0, 1.0, 2.0, 1.0]))

    assert state.view(0.0).job_class.tolist() == [0, 1, 2, 0]


def test_tenants_keep_their_numbers_over_several_arrivals():
    state = a_state(some_jobs(2, tenant_names=["b", "a"]))

    state.apply(JobsSubmitted(at=1.0, first_id=2, jobs=some_jobs(3, tenant_names=["c", "a", "b"])))
    view = state.view(1.0)

    assert [view.tenants[t] for t in view.tenant] == ["b", "a", "c", "a", "b"]


@pytest.mark.parametrize(
    "event",
    [
        JobsFinished(at=1.0, jobs=ids(1, 2), finished_at=np.array([1.0, 1.0])),
        JobsDropped(at=1.0, jobs=ids(1, 2), reason="x"),
        JobsRejected(at=1.0, jobs=ids(1, 2), reason="x"),
    ],
)
def test_who_leaves_is_gone_and_the_others_keep_what_they_have(event):
    state = a_state(4)
    allocate(state, [[0.1, 0], [0.2, 0], [0.3, 0], [0.4, 0]])

    state.apply(event)
    view = state.view(1.0)

    assert view.jobs.tolist() == [0, 3]
    assert accounts_of(state).share[K80].tolist() == [0.1, 0.4]
    assert len(state) == 2


def test_steps_and_gpu_seconds_are_credited():
    state = a_state(some_jobs(3, gpus=[1, 2, 1]))
    plan(state, a_placement((1, -1, V100, 2), (0, -1, K80, 1)))

    run(state, [10.0, 5.0], [360.0, 300.0])
    view = state.view(360.0)

    assert view.steps_done.tolist() == [5.0, 10.0, 0.0]
    assert view.attained.tolist() == [300.0, 720.0, 0.0]
    assert view.round == 1


def test_both_members_of_a_pair_are_credited():
    state = a_state(3)
    plan(state, a_placement((0, 2, V100, 1)))

    run(state, [10.0], [360.0], partner=[7.0])
    view = state.view(360.0)

    assert view.steps_done.tolist() == [10.0, 0.0, 7.0]
    assert view.attained.tolist() == [360.0, 0.0, 360.0]


def test_time_received_is_booked_on_the_type_where_it_was_spent():
    state = a_state(2)
    allocate(state, [[0.5, 0.5]] * 2)
    plan(state, a_placement((0, -1, K80, 1), (1, -1, V100, 1)))

    run(state, [1.0, 1.0], [360.0, 350.0])

    assert accounts_of(state).received.tolist() == [[360.0, 0.0], [0.0, 350.0]]
    assert accounts_of(state).type_time.tolist() == [360.0, 350.0]


def test_a_new_allocation_turns_what_was_missed_into_debt():
    state = a_state(2)
    allocate(state, [[0.5, 0.0], [0.5, 0.0]])
    plan(state, a_placement((0, -1, K80, 1)))
    run(state, [1.0], [360.0])

    allocate(state, [[1.0, 0.0], [0.0, 0.0]], at=360.0)

    assert accounts_of(state).owed[K80].tolist() == [-180.0, 180.0]
    assert accounts_of(state).received.tolist() == [[0.0, 0.0], [0.0, 0.0]]
    assert state.solved_at == 360.0


def test_an_opening_credit_counts_as_received_but_not_as_debt():
    state = a_state(2, rules=Rules(opening_credit=0.5))
    opening = accounts_of(state).received

    allocate(state, [[0.5, 0.0]] * 2)
    allocate(state, [[0.5, 0.0]] * 2, at=100.0)

    assert opening.tolist() == [[180.0] * 2] * 2
    assert accounts_of(state).received.tolist() == [[180.0] * 2] * 2
    assert accounts_of(state).owed[K80].tolist() == [50.0, 50.0]
    assert accounts_of(state).type_time.tolist() == [360.0, 360.0]


def test_jobs_that_came_after_the_allocation_are_not_promised_anything():
    state = a_state(1)
    allocate(state, [[1.0, 0.0]])

    state.apply(JobsSubmitted(at=1.0, first_id=1, jobs=some_jobs(1)))

    assert accounts_of(state).promised.tolist() == [1, 0]


def test_an_allocation_of_other_jobs_is_an_error():
    state = a_state(2)

    with pytest.raises(RotaError, match="allocation for 1 jobs while 2 are active"):
        state.apply(Allocated(at=0.0, allocation=shares(a_state(1).view(0.0), [[1.0, 0.0]])))


def test_a_round_that_was_never_planned_is_an_error():
    with pytest.raises(RotaError, match="never planned"):
        run(a_state(1), [1.0], [1.0])


def test_failures_in_a_row_are_counted_and_success_forgives_them():
    state = a_state(2, rules=Rules(max_failures=2))
    plan(state, a_placement((0, -1, K80, 1), (1, -1, K80, 1), servers=[[(0, 1)], [(1, 1)]]))

    run(state, [0.0, 0.0], [0.0, 0.0], lost=(0, 1))
    run(state, [0.0, 1.0], [0.0, 360.0], lost=(0,))
    twice_lost = state.given_up().tolist()
    run(state, [1.0, 0.0], [360.0, 0.0], lost=(1,))

    assert twice_lost == [0]
    assert state.given_up().tolist() == []


def test_the_row_of_each_job_in_the_last_placement_is_known():
    state = a_state(3)

    plan(state, a_placement((2, -1, K80, 1), (0, -1, V100, 1)))

    assert state.view(0.0).last_task.tolist() == [1, -1, 0]


def test_events_that_are_for_others_change_nothing():
    state = a_state(2)

    state.apply(RunEnded(at=1.0, reason="x"))

    assert len(state) == 2


@pytest.mark.parametrize(("jobs", "kinds"), [([0, 7], [0, 0]), ([0, 1], [0, 2]), ([0, 1], [-1, 0])])
def test_a_placement_of_nobody_or_nowhere_is_refused(jobs, kinds):
    state = a_state(2)

    with pytest.raises(RotaError, match="no such job or type"):
        plan(state, a_placement(*((job, -1, kind, 1) for job, kind in zip(jobs, kinds, strict=True))))
