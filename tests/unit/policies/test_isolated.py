"""Every job gets the same part of the cluster."""

import numpy as np
import pytest

from builders import a_cluster, a_view, ids, some_jobs
from rota.policies.isolated import equal_shares
from rota.policies.registry import policies


def test_everybody_gets_an_equal_part_of_each_type():
    allocation = policies.create("isolated").allocate(a_view(8, cluster=a_cluster(v100=2, k80=4)))

    assert np.array_equal(allocation.share, np.tile([0.5, 0.25], (8, 1)))


def test_a_gang_gets_the_same_gpu_time_and_so_less_time():
    view = a_view(some_jobs(4, gpus=[1, 2, 4, 1]), cluster=a_cluster(v100=2))

    assert policies.create("isolated").allocate(view).share[:, 0].tolist() == [0.5, 0.25, 0.125, 0.5]


def test_nobody_gets_more_than_all_of_the_time():
    share = equal_shares(ids(6, 2), ids(1, 2), 2)

    assert share.tolist() == [[0.75, 0.25], [0.75, 0.25]]


def test_no_type_is_preferred():
    assert not policies.create("isolated").allocate(a_view(2)).traits.aware


def test_without_jobs_there_is_no_division_by_zero():
    assert equal_shares(ids(4), ids(), 0).shape == (0, 1)


@pytest.mark.parametrize("count", [1, 3, 50])
def test_all_gpus_are_handed_out_once_there_are_enough_jobs(count):
    view = a_view(count, cluster=a_cluster(v100=2, k80=1))

    used = view.gpus @ policies.create("isolated").allocate(view).share

    assert used.sum() == pytest.approx(min(count, 3))
