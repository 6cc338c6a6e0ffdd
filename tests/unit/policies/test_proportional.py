"""Time on each type in proportion to its GPUs."""

import pytest

from builders import a_cluster, a_view, some_jobs
from rota.policies.registry import policies


def test_everybody_has_the_same_row_in_proportion_to_the_types():
    allocation = policies.create("proportional").allocate(a_view(2, cluster=a_cluster(v100=6, k80=2)))

    assert allocation.share.tolist() == [[0.25, 0.75]] * 2


def test_when_gpus_are_short_everybody_gets_less():
    view = a_view(some_jobs(4, gpus=[1, 1, 2, 4]), cluster=a_cluster(v100=3, k80=1))

    allocation = policies.create("proportional").allocate(view)

    assert allocation.share.sum(axis=1).tolist() == [0.5] * 4
    assert view.gpus @ allocation.share == pytest.approx([1.0, 3.0])


def test_no_type_is_preferred():
    assert not policies.create("proportional").allocate(a_view(1)).traits.aware
