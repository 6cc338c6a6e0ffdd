"""Pairs: pruning does not lose anything, and jobs get equal parts of what their group gets."""

from __future__ import annotations

import numpy as np
import pytest
import second_opinion
from views import classes_of, view_of

from rota.opt.columns import pair_source
from rota.opt.groups import by_class, by_job
from rota.opt.pairs import Pairs, spread, useful_pairs
from rota.policies.registry import policies


@pytest.mark.parametrize("seed", range(8))
def test_pairs_that_time_slicing_dominates_do_not_change_the_optimum(seed):
    rng = np.random.default_rng(seed)
    rate = rng.uniform(1, 4, (4, 3))
    slow = rng.uniform(0.1, 0.8, (4, 4, 3))
    view = view_of(classes_of(rate, pair=slow * rate[:, None, :]), rng.integers(0, 4, 8), (1, 1, 1))
    kept = useful_pairs(view, by_class(view))
    assert len(kept) < 10 * 3

    pruned = policies.create("max-min-fairness-packed").allocate(view).report.objective

    assert pruned == pytest.approx(second_opinion.max_min(view, packed=True), rel=1e-6)


@pytest.mark.parametrize("sizes", [(1, 1), (2, 3), (5, 5), (4, 6), (7, 1)])
def test_two_groups_meet_with_equal_parts_and_few_pairs(sizes):
    classes = classes_of(np.ones((2, 2)), pair=np.full((2, 2, 2), 0.9))
    view = view_of(classes, [0] * sizes[0] + [1] * sizes[1], (4, 4))
    pairs = Pairs(*(np.array([v]) for v in (0, 1, 1)), np.array([0.9]), np.array([0.9]), np.array([1.0]))

    extras, share = spread(view, by_class(view), pairs, np.array([0.6]))

    assert len(extras) <= sum(sizes) - 1
    assert not share[:, 0].any()
    for group, (jobs, size) in enumerate(zip((extras.first, extras.second), sizes, strict=True)):
        mine = np.bincount(jobs, weights=share[:, 1], minlength=len(view))[view.job_class == group]
        assert mine == pytest.approx(np.full(size, 0.6 / size))


@pytest.mark.parametrize("size", [2, 3, 4, 7])
def test_a_group_that_pairs_with_itself_forms_a_ring(size):
    classes = classes_of(np.ones((1, 1)), pair=np.full((1, 1, 1), 0.9))
    view = view_of(classes, [0] * size, (size,))
    pairs = Pairs(*(np.array([0]) for _ in range(3)), np.array([0.9]), np.array([0.9]), np.array([1.0]))

    extras, share = spread(view, by_class(view), pairs, np.array([1.0]))

    total = np.bincount(extras.first, weights=share[:, 0], minlength=size)
    total += np.bincount(extras.second, weights=share[:, 0], minlength=size)
    assert total == pytest.approx(np.full(size, 2 / size))
    assert (extras.first < extras.second).all()


def test_jobs_of_unequal_gpus_are_never_paired():
    classes = classes_of(np.ones((2, 1)), [1, 2], pair=np.full((2, 2, 1), 0.9))
    view = view_of(classes, [0, 0, 1, 1], (3,))

    kept = useful_pairs(view, by_class(view))

    assert list(zip(kept.first, kept.second, strict=True)) == [(0, 0), (1, 1)]


def test_a_job_is_not_paired_with_itself():
    classes = classes_of(np.ones((1, 1)), pair=np.full((1, 1, 1), 0.9))
    view = view_of(classes, [0], (1,))

    share = policies.create("max-min-fairness-packed").allocate(view)

    assert len(share.extras) == 0


def test_the_source_of_columns_knows_every_useful_pair():
    rng = np.random.default_rng(0)
    view = second_opinion.random_view(rng)
    groups = by_job(view)
    all_pairs = useful_pairs(view, groups)
    apart = all_pairs.rows(np.flatnonzero(all_pairs.first != all_pairs.second))

    found = pair_source(view, groups).between(apart.second, apart.first, apart.type)

    assert np.array_equal(found.first, apart.first)
    assert np.array_equal(found.rate_second, apart.rate_second)
