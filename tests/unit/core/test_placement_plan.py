"""Who runs where, and the least change from one round to the next."""

from builders import a_placement, ids
from rota.core.horizon import UNTIL_JOBS_CHANGE
from rota.core.placement import Plan, nobody


def a_plan(placement, last=None):
    return Plan(round=3, start=0.0, placement=placement, last=last)


def test_a_first_plan_launches_everybody():
    plan = a_plan(a_placement((0, -1, 0, 1), (4, 7, 0, 1)))

    assert plan.launch == (0, 4, 7)
    assert plan.stop == ()


def test_who_keeps_its_slots_is_neither_stopped_nor_launched():
    before = a_placement((0, -1, 0, 1), (1, -1, 0, 1))
    after = a_placement((0, -1, 0, 1), (2, -1, 0, 1), kept=[True, False])

    plan = a_plan(after, before)

    assert plan.launch == (2,)
    assert plan.stop == (1,)


def test_who_moves_is_stopped_and_launched():
    before = a_placement((0, -1, 0, 1), servers=[[(0, 1)]])
    after = a_placement((0, -1, 1, 1), servers=[[(1, 1)]])

    plan = a_plan(after, before)

    assert plan.launch == plan.stop == (0,)


def test_a_pair_is_stopped_with_both_members():
    plan = a_plan(nobody(), a_placement((3, 5, 0, 1)))

    assert plan.stop == (3, 5)
    assert plan.launch == ()


def test_a_task_with_two_slots_spans_servers():
    placement = a_placement((0, -1, 0, 4), (1, -1, 0, 2), servers=[[(0, 2), (1, 2)], [(2, 2)]])

    assert placement.spans.tolist() == [True, False]


def test_equality_looks_at_tasks_and_slots_not_at_leases():
    one, other = a_placement((0, -1, 0, 1)), a_placement((0, -1, 0, 1), kept=True, horizon=UNTIL_JOBS_CHANGE)

    assert one == other
    assert one != a_placement((0, -1, 0, 1), servers=[[(1, 1)]])
    assert one != "a placement"


def test_nobody_is_a_placement_of_nothing():
    placement = nobody()

    assert len(placement) == 0
    assert placement.horizon is UNTIL_JOBS_CHANGE
    assert placement == nobody()
    assert ids().dtype == placement.first.dtype
