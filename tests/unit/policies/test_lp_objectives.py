"""Every linear-programming policy reaches the optimum that a second solver finds with a row per job."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "opt"))

import second_opinion
from laws import assert_feasible, speeds
from second_opinion import normal, proportional, random_view

from rota.policies.registry import policies

SEEDS = range(5)
FEW_SEEDS = range(2)


def solved(name, view, **parameters):
    allocation = policies.create(name, **parameters).allocate(view)
    assert_feasible(view, allocation)
    return allocation


def reference_rate(view):
    """The rate on the reference type, for all types."""
    at = view.types.index("v100")
    return np.repeat(view.throughput[:, [at]], len(view.types), axis=1)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("load", [0.8, 1.5, 4.0])
def test_max_min_fairness_is_optimal(seed, packed, load):
    view = random_view(np.random.default_rng(seed), load=load)

    allocation = solved("max-min-fairness-packed" if packed else "max-min-fairness-perf", view)

    assert allocation.report.objective == pytest.approx(second_opinion.max_min(view, packed=packed), rel=1e-6)
    worst = (speeds(view, allocation) * normal(view, view.throughput)).min()
    assert worst == pytest.approx(allocation.report.objective, rel=1e-8)


@pytest.mark.parametrize("seed", SEEDS)
def test_max_min_fairness_without_types_is_optimal(seed):
    view = random_view(np.random.default_rng(seed))
    ones = np.ones((len(view), 3))

    allocation = solved("max-min-fairness", view)

    assert not allocation.traits.aware
    assert allocation.report.objective == pytest.approx(second_opinion.max_min(view, ones), rel=1e-6)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("load", [0.8, 4.0])
def test_the_makespan_is_optimal(seed, packed, load):
    view = random_view(np.random.default_rng(seed), load=load)

    allocation = solved("min-total-duration-packed" if packed else "min-total-duration-perf", view)

    assert allocation.report.objective == pytest.approx(second_opinion.makespan(view, packed=packed), rel=1e-6)
    longest = (view.steps_left / speeds(view, allocation)).max()
    assert longest == pytest.approx(allocation.report.objective, rel=1e-8)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("load", [0.8, 4.0])
def test_the_worst_finish_time_ratio_is_optimal(seed, packed, load):
    view = random_view(np.random.default_rng(seed), load=load)

    allocation = solved("finish-time-fairness-packed" if packed else "finish-time-fairness-perf", view)

    optimum = second_opinion.finish_time_ratio(view, packed=packed)
    assert allocation.report.objective == pytest.approx(optimum, rel=1e-6)


@pytest.mark.parametrize("seed", SEEDS)
def test_variants_that_do_not_distinguish_types_use_the_reference_rate(seed):
    view = random_view(np.random.default_rng(seed), load=3)
    rate = reference_rate(view)

    duration = solved("min-total-duration", view)
    fairness = solved("finish-time-fairness", view)

    assert duration.report.objective == pytest.approx(second_opinion.makespan(view, rate), rel=1e-6)
    assert fairness.report.objective == pytest.approx(second_opinion.finish_time_ratio(view, rate), rel=1e-6)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("name", ["min-total-duration-perf", "finish-time-fairness-perf"])
def test_clusters_of_many_types_are_solved_too(seed, name):
    view = random_view(np.random.default_rng(seed), types=6, jobs=12, load=3)
    optimum = second_opinion.makespan if name.startswith("min") else second_opinion.finish_time_ratio

    allocation = solved(name, view)

    assert allocation.report.objective == pytest.approx(optimum(view), rel=1e-6)


@pytest.mark.parametrize("seed", FEW_SEEDS)
@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("load", [0.9, 2.5])
def test_water_filling_reaches_the_levels_of_the_published_procedure(seed, packed, load):
    view = random_view(np.random.default_rng(seed), jobs=7, load=load)
    name = "max-min-fairness-water-filling-packed" if packed else "max-min-fairness-water-filling-perf"

    allocation = solved(name, view)

    level = speeds(view, allocation) / proportional(view, view.throughput)
    expected = second_opinion.water_levels(view, view.throughput, lambda final: view.weight * ~final, packed=packed)
    assert level == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize("seed", FEW_SEEDS)
@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("inner", ["fairness", "fifo"])
def test_entities_divide_what_their_weight_gives_them(seed, packed, inner):
    rng = np.random.default_rng(seed)
    tenant = rng.integers(0, 3, 8)
    view = random_view(rng, jobs=8, load=1.6, tenants=("a", "b", "c"), tenant=tenant)
    name = "max-min-fairness-water-filling-packed" if packed else "max-min-fairness-water-filling-perf"
    strength = np.array([2.0, 1.0, 0.5])

    def weights(final):
        weight = np.zeros(len(view))
        for t in range(3):
            mine = np.flatnonzero((tenant == t) & ~final)
            if t == 1 and inner == "fifo":
                weight[mine[:1]] = strength[t]
            else:
                weight[mine] = strength[t] * view.weight[mine] / view.weight[mine].sum()
        return weight

    allocation = solved(name, view, entities=f"a=2:fairness,b=1:{inner},c=0.5:fairness")

    level = speeds(view, allocation) / proportional(view, view.throughput)
    expected = second_opinion.water_levels(view, view.throughput, weights, packed=packed)
    assert level == pytest.approx(expected, rel=1e-5, abs=1e-7)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("by_cost", [False, True])
def test_total_throughput_is_optimal(seed, by_cost):
    view = random_view(np.random.default_rng(seed), prices=(0.5, 1.0, 3.0))
    name = "max-sum-throughput-normalized-by-cost-perf" if by_cost else "max-sum-throughput-perf"
    value = 1 / view.prices if by_cost else np.ones(3)

    allocation = solved(name, view)

    assert allocation.report.objective == pytest.approx(second_opinion.total(view, value), rel=1e-6)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("types", [3, 5])
def test_deadlines_are_met_at_the_best_total(seed, types):
    view = random_view(np.random.default_rng(seed), types=types, load=1.2, prices=np.linspace(0.5, 3, types))
    fair = solved("max-min-fairness-perf", view)
    seconds = 1.3 * view.steps_left / speeds(view, fair)
    deadline = np.where(np.arange(len(view)) % 2, view.now + seconds, np.inf)
    view = random_view(
        np.random.default_rng(seed), types=types, load=1.2, prices=np.linspace(0.5, 3, types), deadline=deadline
    )
    need = np.where(np.isfinite(deadline), view.steps_left / seconds, 0.0)

    allocation = solved("max-sum-throughput-normalized-by-cost-perf-slos", view, deadlines="paced")

    assert (speeds(view, allocation) >= need * (1 - 1e-7)).all()
    assert allocation.report.objective == pytest.approx(second_opinion.total(view, 1 / view.prices, need), rel=1e-6)


@pytest.mark.parametrize("seed", SEEDS)
def test_deadlines_are_met_at_the_best_total_with_pairs(seed):
    view = random_view(np.random.default_rng(seed), load=2)
    fair = solved("max-min-fairness-packed", view)
    seconds = 1.3 * view.steps_left / speeds(view, fair)
    deadline = np.where(np.arange(len(view)) % 2, view.now + seconds, np.inf)
    view = random_view(np.random.default_rng(seed), load=2, deadline=deadline)
    need = np.where(np.isfinite(deadline), view.steps_left / seconds, 0.0)

    allocation = solved("max-sum-throughput-normalized-by-cost-packed-slos", view, deadlines="paced")

    assert (speeds(view, allocation) >= need * (1 - 1e-7)).all()
    optimum = second_opinion.total(view, np.ones(3), need, packed=True)
    assert allocation.report.objective == pytest.approx(optimum, rel=1e-6)


@pytest.mark.parametrize("seed", SEEDS)
def test_deadlines_that_only_jobs_sharing_gpus_can_keep_are_kept(seed):
    view = random_view(np.random.default_rng(seed), load=3)
    seconds = 1.01 * view.steps_left / speeds(view, solved("max-min-fairness-packed", view))
    view = random_view(np.random.default_rng(seed), load=3, deadline=view.now + seconds)
    need = view.steps_left / seconds
    assert second_opinion.total(view, np.ones(3), need) == -np.inf, "these deadlines can be kept without sharing"

    allocation = solved("max-sum-throughput-normalized-by-cost-packed-slos", view, deadlines="paced")

    assert (speeds(view, allocation) >= need * (1 - 1e-7)).all()
    optimum = second_opinion.total(view, np.ones(3), need, packed=True)
    assert allocation.report.objective == pytest.approx(optimum, rel=1e-6)


@pytest.mark.parametrize("name", ["perf-slos", "packed-slos"])
def test_deadlines_that_cannot_be_met_are_given_up(name):
    rng = np.random.default_rng(3)
    plain = random_view(rng, load=4)
    view = random_view(np.random.default_rng(3), load=4, deadline=np.full(9, plain.now + 1e-3))
    past = random_view(np.random.default_rng(3), load=4, deadline=np.full(9, plain.now - 1.0))
    together = plain.now + 1.001 * plain.steps_left / plain.throughput.max(axis=1)
    crowded = random_view(np.random.default_rng(3), load=4, deadline=together)
    policy = f"max-sum-throughput-normalized-by-cost-{name}"

    without = solved(policy, plain, deadlines="paced").report.objective

    for late in (view, past, crowded):
        assert solved(policy, late, deadlines="paced").report.objective == pytest.approx(without, rel=1e-8)


@pytest.mark.parametrize("seed", range(3))
def test_strategy_proof_shares_are_nash_welfare_times_discounts(seed):
    view = random_view(np.random.default_rng(seed), jobs=6, load=2, weights=(1.0,))

    allocation = solved("max-min-fairness-strategy-proof", view)

    value, utility = second_opinion.nash(view)
    assert allocation.report.objective == pytest.approx(value / len(view), abs=1e-7)
    for i in range(len(view)):
        others = [k for k in range(len(view)) if k != i]
        _, without = second_opinion.nash(view, others)
        discount = np.prod(utility[others] / without)
        assert allocation.state["discount"][i] == pytest.approx(discount, rel=1e-3)
        mine = (speeds(view, allocation) * normal(view, view.throughput))[i]
        assert mine == pytest.approx(utility[i] * discount, rel=1e-3)
