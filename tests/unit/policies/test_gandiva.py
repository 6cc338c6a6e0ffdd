"""Random packing under pressure."""

from dataclasses import replace

import numpy as np

from builders import FAST, SLOW, Speeds, a_cluster, a_run, a_view, assert_feasible, some_jobs
from rota.policies.registry import policies


def allocate(view, seed=0):
    return policies.create("gandiva", seed=seed).allocate(view)


def pairs_of(allocation):
    return sorted(zip(allocation.extras.first.tolist(), allocation.extras.second.tolist(), strict=True))


def test_while_all_fit_nobody_shares():
    allocation = allocate(a_view(4, cluster=a_cluster(v100=2, k80=2)))

    assert pairs_of(allocation) == []
    assert allocation.share.tolist() == [[0.5, 0.5]] * 4


def test_under_pressure_jobs_are_paired():
    view = a_view(6, cluster=a_cluster(v100=2))

    allocation = allocate(view)

    assert len(pairs_of(allocation)) == 3
    assert not allocation.share[:6].any()
    assert np.allclose(allocation.share[6:], 2 / 3)
    assert_feasible(allocation, view)


def test_who_finds_no_partner_has_a_share_alone():
    view = a_view(5, cluster=a_cluster(v100=2))

    allocation = allocate(view)

    assert len(pairs_of(allocation)) == 2
    assert (allocation.share[:5].sum(axis=1) > 0).sum() == 1


def test_jobs_of_unequal_sizes_are_not_paired():
    view = a_view(some_jobs(6, gpus=[1, 2, 1, 2, 1, 2]), cluster=a_cluster(v100=2))

    for seed in range(10):
        assert all(view.gpus[a] == view.gpus[b] for a, b in pairs_of(allocate(view, seed)))


def test_pairs_depend_on_the_seed_only():
    view = a_view(12, cluster=a_cluster(v100=2))

    assert pairs_of(allocate(view, 1)) == pairs_of(allocate(view, 1))
    assert len({tuple(pairs_of(allocate(view, seed))) for seed in range(10)}) > 1


def test_a_pair_that_gains_stays():
    view = a_view(6, cluster=a_cluster(v100=2))
    first = allocate(view)

    assert pairs_of(allocate(replace(view, previous=first))) == pairs_of(first)


def test_pairs_that_lose_are_parted_and_drawn_again():
    view = a_view(6, cluster=a_cluster(v100=2), speeds=Speeds(pairs={(FAST, FAST, "v100"): 1.0}))

    seen, last = set(), None
    for _ in range(10):
        last = allocate(replace(view, previous=last))
        seen.add(tuple(pairs_of(last)))

    assert len(seen) > 1


def test_a_pair_ends_when_a_member_leaves():
    view = a_view(4, cluster=a_cluster(v100=2))
    first = allocate(view)
    left = view.part(np.array([0, 1, 2]), view.capacity)

    again = pairs_of(allocate(replace(left, previous=first)))

    assert all({a, b} <= {0, 1, 2} for a, b in again)


def test_who_stays_together_is_settled_pair_by_pair():
    gains = {(FAST, FAST, "v100"): 2.0, (SLOW, SLOW, "v100"): 0.1, (FAST, SLOW, "v100"): 3.0, (SLOW, FAST, "v100"): 0.2}
    profiles = [FAST, FAST, SLOW, SLOW, FAST, SLOW, FAST]
    view = a_view(some_jobs(7, profiles=profiles), cluster=a_cluster(v100=4), speeds=Speeds(pairs=gains))
    first = replace(allocate(view), state={**allocate(view).state, "pairs": [(0, 1), (2, 3), (4, 5), (6, 7)]})

    kept = allocate(replace(view, capacity=np.array([9]), previous=first)).state["pairs"]

    assert kept == [(0, 1), (4, 5)], "of the others one pair loses and one has lost a member"


def test_pairs_of_which_nobody_is_left_are_forgotten():
    view = a_view(6, cluster=a_cluster(v100=2))
    first = allocate(view)
    left = view.part(np.array([], dtype=np.int64), view.capacity)

    assert allocate(replace(left, previous=first)).state["pairs"] == []


def test_when_pressure_goes_away_nobody_shares_but_pairs_are_remembered():
    crowded = a_view(4, cluster=a_cluster(v100=2))
    first = allocate(crowded)

    calm = allocate(replace(a_view(4, cluster=a_cluster(v100=4)), previous=first))

    assert pairs_of(calm) == []
    assert sorted(calm.state["pairs"]) == pairs_of(first)


def test_a_run_under_pressure_finishes_everybody():
    run = a_run(
        some_jobs(7, profiles=[FAST, SLOW, FAST, SLOW, FAST, SLOW, FAST]), policy="gandiva", cluster=a_cluster(v100=2)
    )

    assert set(run.finished) == set(range(7))
    assert any((p.second >= 0).any() for p in run.placements)


def test_jobs_that_never_fit_together_come_to_their_end_without_rounds_too():
    """Nothing but an arrival or a completion asks the policy again there: a share of nothing would be for ever."""
    speeds = Speeds(pairs={(FAST, FAST, "v100"): 0.0})

    run = a_run(7, policy="gandiva", mechanism="ideal", cluster=a_cluster(v100=2), speeds=speeds)

    assert set(run.finished) == set(range(7))
