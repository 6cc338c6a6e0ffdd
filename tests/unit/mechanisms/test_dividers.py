"""Where the chosen options run: who stays, and how gangs are put together."""

from functools import partial

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rounds import turn

import rota
from builders import a_cluster, a_state, assert_fits, ids, some_jobs
from rota.core.events import JobsFinished
from rota.core.horizon import EVERY_ROUND, UNTIL_JOBS_CHANGE
from rota.mechanisms.choice import Choice
from rota.mechanisms.registry import mechanisms

DIVIDERS = ["proportional", "strided"]
every_divider = pytest.mark.parametrize("name", DIVIDERS)


def choice_of(*rows, kinds=None, second=None, wasted=None, horizon=EVERY_ROUND):
    kinds = ids(*kinds) if kinds is not None else np.zeros(len(rows), dtype=np.int64)
    return Choice(
        first=ids(*rows),
        type=kinds,
        second=None if second is None else ids(*second),
        wasted=None if wasted is None else np.array(wasted),
        horizon=horizon,
    )


def divide(name, state, choice):
    view = state.view(0.0)
    placement = mechanisms.create(name).divide(view, choice)
    assert_fits(placement, view)
    return placement


def slots(placement):
    """Server to GPUs, by job."""
    start = placement.slot_start.tolist()
    return {
        int(job): dict(
            zip(
                placement.slot_server[start[k] : start[k + 1]].tolist(),
                placement.slot_gpus[start[k] : start[k + 1]].tolist(),
                strict=True,
            )
        )
        for k, job in enumerate(placement.first)
    }


def a_fleet(gpus, *, servers=3, per_server=4):
    return a_state(some_jobs(len(gpus), gpus=gpus), cluster=a_cluster(v100=servers * per_server, per_server=per_server))


@every_divider
def test_who_goes_on_keeps_its_very_slots(name):
    state = a_fleet([2, 1, 4, 1])
    before = divide(name, state, choice_of(0, 1, 2))
    turn(state, before, 0.0)

    after = divide(name, state, choice_of(2, 3, 1))

    assert after.kept.tolist() == [True, False, True]
    assert slots(after)[2] == slots(before)[2]
    assert slots(after)[1] == slots(before)[1]


@every_divider
def test_the_same_choice_again_is_the_same_placement_with_all_leases_extended(name):
    state = a_fleet([2, 1, 4])
    before = divide(name, state, choice_of(0, 1, 2))
    turn(state, before, 0.0)

    after = divide(name, state, choice_of(0, 1, 2, horizon=UNTIL_JOBS_CHANGE))

    assert after == before
    assert after.kept.all()
    assert after.horizon is UNTIL_JOBS_CHANGE


@every_divider
def test_a_job_that_changes_its_type_is_placed_anew(name):
    state = a_state(1)
    turn(state, divide(name, state, choice_of(0, kinds=[0])), 0.0)

    after = divide(name, state, choice_of(0, kinds=[1]))

    assert after.kept.tolist() == [False]


@every_divider
def test_a_job_that_gets_a_partner_is_placed_anew(name):
    state = a_state(2)
    turn(state, divide(name, state, choice_of(0)), 0.0)

    after = divide(name, state, choice_of(0, second=[1]))

    assert after.kept.tolist() == [False]
    assert after.second.tolist() == [1]


@every_divider
def test_leases_survive_the_departure_of_others(name):
    state = a_fleet([1, 1, 1])
    before = divide(name, state, choice_of(0, 1, 2))
    turn(state, before, 0.0)
    state.apply(JobsFinished(at=360.0, jobs=ids(0), finished_at=np.array([100.0])))

    after = divide(name, state, choice_of(0, 1))

    assert after.first.tolist() == [1, 2]
    assert after.kept.all()
    assert [slots(after)[j] for j in (1, 2)] == [slots(before)[j] for j in (1, 2)]


@every_divider
def test_wasted_choices_hold_no_slots(name):
    placement = divide(name, a_fleet([1, 1, 1]), choice_of(0, 1, 2, wasted=[False, True, False]))

    assert placement.first.tolist() == [0, 2]


@every_divider
def test_nothing_chosen_is_nothing_placed(name):
    assert len(divide(name, a_fleet([1]), choice_of())) == 0


def test_strided_takes_the_lowest_numbers_and_straddles_servers():
    placement = divide("strided", a_fleet([2, 4, 1]), choice_of(0, 1, 2))

    assert slots(placement) == {1: {0: 4}, 0: {1: 2}, 2: {1: 1}}


def test_strided_fills_the_holes_that_are_left():
    state = a_fleet([2, 2, 2, 4])
    turn(state, divide("strided", state, choice_of(0, 1, 2)), 0.0)

    after = divide("strided", state, choice_of(1, 2, 3))

    assert slots(after)[3] == {0: 2, 1: 2}


def test_proportional_keeps_a_gang_on_one_server_if_any_has_room():
    state = a_fleet([2, 2, 2, 4])
    turn(state, divide("proportional", state, choice_of(0, 1, 2)), 0.0)

    after = divide("proportional", state, choice_of(1, 2, 3))

    assert slots(after)[3] == {2: 4}


def test_proportional_packs_small_jobs_on_the_fullest_server():
    state = a_fleet([3, 2, 1])
    turn(state, divide("proportional", state, choice_of(0, 1)), 0.0)

    after = divide("proportional", state, choice_of(0, 1, 2))

    assert set(slots(after)[2]) == set(slots(after)[0])


def test_proportional_spreads_a_large_gang_over_the_emptiest_servers():
    placement = divide("proportional", a_fleet([1, 7]), choice_of(0, 1))

    assert len(slots(placement)[1]) == 2
    assert sum(slots(placement)[1].values()) == 7


def test_large_gangs_are_placed_before_small_ones():
    placement = divide("proportional", a_fleet([1, 1, 4, 4], servers=3), choice_of(0, 1, 2, 3))

    assert not placement.spans.any()


@every_divider
@given(data=st.data())
def test_whatever_is_chosen_within_the_capacity_fits(name, data):
    cluster = a_cluster(
        v100=data.draw(st.integers(1, 12)), k80=data.draw(st.integers(1, 6)), per_server=data.draw(st.integers(1, 4))
    )
    sizes = data.draw(st.lists(st.sampled_from([1, 1, 2, 4, 8]), min_size=1, max_size=10))
    state = a_state(some_jobs(len(sizes), gpus=sizes), cluster=cluster)
    for number in range(3):
        free, rows, kinds = cluster.capacity.copy(), [], []
        for job in data.draw(st.permutations(range(len(sizes)))):
            kind = data.draw(st.integers(0, 1))
            if sizes[job] <= free[kind]:
                free[kind] -= sizes[job]
                rows.append(job)
                kinds.append(kind)

        placement = divide(name, state, choice_of(*rows, kinds=kinds))

        assert placement.first.tolist() == rows
        turn(state, placement, number * 360.0)


def test_tune_is_no_worse_than_proportional_where_only_servers_matter():
    run = partial(
        rota.simulate, workload="gavel-continuous", cluster="v100=16/4,p100=16/4", policy="max-min-fairness-perf",
        settings={"interarrival_s": 3000, "multi_gpu": True, "jobs": 60}, seed=1,
    )  # fmt: skip

    plain, tuned, cut = (
        run(mechanism=mechanism, mechanism_settings=how).summary["mean_jct_s"]
        for mechanism, how in (("proportional", {}), ("tune", {}), ("tune", {"consolidate": False}))
    )

    assert tuned == plain < cut
