"""Chains of types: hulls, times and usage against brute force."""

from __future__ import annotations

import numpy as np
import pytest

from rota.opt.chains import climb, ladder


def on_ladder(jobs, rate):
    return np.clip(jobs.heights(rate[jobs.sort]), 0.0, 1.0)


def cheapest(rates, costs, need):
    """Least cost of rate `need` with time 1, over all pairs of points of the hull, idle included."""
    points = [(0.0, 0.0), *zip(rates, costs, strict=True)]
    best = min((c for r, c in points if r >= need), default=np.inf)
    for a, c in points:
        for b, d in points:
            if a <= need <= b and b > a:
                best = min(best, c + (d - c) * (need - a) / (b - a))
    return best


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("types", [1, 2, 3, 4])
def test_the_cost_along_the_hull_is_the_least_possible(seed, types):
    rng = np.random.default_rng(seed)
    rate = rng.uniform(0.5, 5, (3, types)) * (rng.random((3, types)) > 0.2)
    rate[:, 0] = np.maximum(rate[:, 0], 0.3)
    gpus, capacity = np.array([1.0, 2.0, 4.0]), rng.integers(1, 9, types).astype(float)
    kind = rng.integers(0, 3, 10)
    need = rng.uniform(0, 1, 10) * rate.max(axis=1)[kind]
    price = rng.choice([0.0, 0.2, 1.0], types) * rng.random(types)

    jobs = climb(rate, kind, gpus, capacity)
    cost = (jobs.prices(price) * on_ladder(jobs, need)).sum(axis=0)

    for place, job in enumerate(jobs.sort):
        able = rate[kind[job]] > 0
        points = (price * gpus[kind[job]] / capacity)[able]
        assert cost[place] == pytest.approx(cheapest(rate[kind[job]][able], points, need[job]), abs=1e-12)


@pytest.mark.parametrize("seed", range(10))
def test_usage_is_the_sum_of_the_times_that_jobs_get(seed):
    rng = np.random.default_rng(seed)
    rate = rng.uniform(0.5, 5, (4, 3))
    kind = rng.integers(0, 4, 30)
    need = rng.uniform(0, 1, 30) * rate.max(axis=1)[kind]
    jobs = climb(rate, kind, np.ones(4), np.ones(3))
    f = on_ladder(jobs, need)
    usage = jobs.usage(f)

    for chain in np.flatnonzero(jobs.ladder.sound.all(axis=1) & (jobs.ladder.top >= jobs.ladder.fastest).all(axis=1)):
        mix = np.zeros(jobs.ladder.sound.shape)
        mix[chain] = 1.0
        share = jobs.share(f, mix)
        assert (share.sum(axis=1) <= 1 + 1e-12).all()
        assert ((rate[kind] * share).sum(axis=1) >= need * (1 - 1e-12)).all()
        for c in range(4):
            by_position = share[kind == c].sum(axis=0)[jobs.ladder.order[c]]
            assert usage[chain, c] == pytest.approx(by_position)


def test_there_are_as_many_chains_as_sets_of_types_with_and_without_idling():
    assert [len(ladder(np.ones((1, t))).sound) for t in (1, 2, 3, 4)] == [3, 7, 15, 31]


def test_types_of_equal_rate_do_not_follow_each_other_in_a_chain():
    same = ladder(np.array([[2.0, 2.0, 5.0]]))

    assert not (
        same.shape.chain_uses[:, (same.shape.low == 0) & (same.shape.high == 1)].any(axis=1) & same.sound[:, 0]
    ).any()
