"""First in, first out, each job on the fastest type that is free; packed, the rest shares."""

import pytest

from builders import FAST, SLOW, Speeds, a_cluster, a_view, some_jobs
from rota.policies.registry import policies

K80, V100 = 0, 1


def allocate(view, name="fifo-perf", **parameters):
    return policies.create(name, **parameters).allocate(view)


def pairs_of(allocation):
    return list(zip(allocation.extras.first.tolist(), allocation.extras.second.tolist(), strict=True))


def test_the_first_come_get_the_fastest_free_type():
    allocation = allocate(a_view(4, cluster=a_cluster(v100=2, k80=1)))

    assert allocation.share.tolist() == [[0, 1], [0, 1], [1, 0], [0, 0]]


def test_each_job_has_its_own_fastest_type():
    speeds = Speeds(rates={FAST: {"k80": 1.0, "v100": 2.0}, SLOW: {"k80": 2.0, "v100": 1.0}})

    allocation = allocate(a_view(some_jobs(2, profiles=[SLOW, FAST]), speeds=speeds, cluster=a_cluster(v100=1, k80=1)))

    assert allocation.share.tolist() == [[1, 0], [0, 1]]


def test_the_first_that_does_not_fit_blocks_all_behind_it():
    view = a_view(some_jobs(3, gpus=[1, 2, 1]), cluster=a_cluster(v100=2))

    assert allocate(view).share.tolist() == [[1], [0], [0]]


def test_left_over_gpus_stay_idle():
    assert not allocate(a_view(1)).traits.fills


def test_a_job_is_not_placed_where_it_has_no_speed():
    speeds = Speeds(rates={FAST: {"k80": 0.0, "v100": 1.0}})

    allocation = allocate(a_view(2, speeds=speeds, cluster=a_cluster(v100=1, k80=1)))

    assert allocation.share.tolist() == [[0, 1], [0, 0]]


def test_plain_fifo_does_not_share():
    allocation = allocate(a_view(4, cluster=a_cluster(v100=1)))

    assert len(allocation.extras) == 0
    assert not allocation.traits.packs


def test_who_waits_shares_with_whom_it_goes_best():
    pairs = {
        (FAST, FAST, "v100"): 2.4,
        (FAST, SLOW, "v100"): 3.8,
        (SLOW, FAST, "v100"): 0.38,
        (SLOW, SLOW, "v100"): 0.3,
    }
    view = a_view(some_jobs(3, profiles=[FAST, SLOW, FAST]), speeds=Speeds(pairs=pairs), cluster=a_cluster(v100=2))

    allocation = allocate(view, "fifo-packed")

    assert pairs_of(allocation) == [(1, 2)]
    assert allocation.share.tolist() == [[1], [0], [0], [1]]
    assert allocation.traits.packs


def test_below_the_threshold_nobody_shares():
    view = a_view(2, cluster=a_cluster(v100=1))

    assert pairs_of(allocate(view, "fifo-packed", threshold=1.4)) == [(0, 1)]
    assert pairs_of(allocate(view, "fifo-packed", threshold="1.5")) == []


def test_jobs_of_unequal_sizes_do_not_share():
    view = a_view(some_jobs(2, gpus=[2, 1]), cluster=a_cluster(v100=2))

    assert pairs_of(allocate(view, "fifo-packed", threshold=0)) == []


def test_a_job_shares_with_one_partner_only():
    view = a_view(4, cluster=a_cluster(v100=1))

    assert pairs_of(allocate(view, "fifo-packed", threshold=1.0)) == [(0, 1)]


@pytest.mark.parametrize("name", ["fifo-perf", "fifo-packed"])
def test_whether_it_packs_follows_from_the_name(name):
    assert "packed" not in policies.entry(name).parameters()


@pytest.mark.parametrize(("shares", "pairs"), [(True, []), (False, [(0, 3)])])
def test_in_the_artifact_the_job_that_blocks_while_gpus_are_left_is_passed_over(shares, pairs):
    view = a_view(some_jobs(4, gpus=[1, 1, 2, 1]), cluster=a_cluster(v100=3))

    assert pairs_of(allocate(view, "fifo-packed", threshold=1.0, blocked_shares=shares)) == pairs


def test_in_the_artifact_too_the_first_job_that_finds_no_gpu_at_all_may_share():
    view = a_view(3, cluster=a_cluster(v100=2))

    assert pairs_of(allocate(view, "fifo-packed", threshold=1.0, blocked_shares=False)) == [(0, 2)]
