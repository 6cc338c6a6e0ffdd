"""Laws of all linear-programming policies: feasible, blind to names and order, calm about odd input, pure."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "opt"))

from laws import assert_feasible, speeds
from second_opinion import normal, random_view
from views import classes_of, view_of

from rota.core.errors import ConfigError
from rota.policies.registry import policies

PACKED = [
    "max-min-fairness-packed",
    "max-min-fairness-water-filling-packed",
    "finish-time-fairness-packed",
    "min-total-duration-packed",
    "max-sum-throughput-normalized-by-cost-packed-slos",
]
SINGLE = [
    "max-min-fairness",
    "max-min-fairness-perf",
    "max-min-fairness-water-filling",
    "max-min-fairness-water-filling-perf",
    "max-min-fairness-strategy-proof",
    "finish-time-fairness",
    "finish-time-fairness-perf",
    "min-total-duration",
    "min-total-duration-perf",
    "max-sum-throughput-perf",
    "max-sum-throughput-normalized-by-cost-perf",
    "max-sum-throughput-normalized-by-cost-perf-slos",
]
every_policy = pytest.mark.parametrize("name", [*SINGLE, *PACKED, "pop"])


def dated(view):
    """The same view with deadlines for a third of the jobs."""
    seconds = 3 * view.steps_left / view.throughput.max(axis=1)
    return replace(view, deadline=np.where(np.arange(len(view)) % 3 == 0, view.now + seconds, np.inf))


@every_policy
def test_it_is_registered_with_a_summary_and_says_what_it_is(name):
    entry = policies.entry(name)
    allocation = policies.create(name).allocate(random_view(np.random.default_rng(0)))

    assert entry.summary
    assert "\n" not in entry.summary
    assert allocation.traits.packs == (name in PACKED)
    blind = {"max-min-fairness", "max-min-fairness-water-filling", "finish-time-fairness", "min-total-duration"}
    assert allocation.traits.aware == (name not in blind)


@every_policy
@pytest.mark.parametrize("load", [0.5, 2.0])
def test_shares_are_feasible_and_the_same_view_gives_the_same_shares(name, load):
    view = dated(random_view(np.random.default_rng(7), jobs=14, load=load))
    policy = policies.create(name)

    first, second = policy.allocate(view), policies.create(name).allocate(view)

    assert_feasible(view, first)
    assert policy.allocate(view) == first == second


@every_policy
def test_a_view_without_jobs_gets_no_shares(name):
    view = random_view(np.random.default_rng(1))
    none = view.part(np.zeros(0, dtype=np.int64), view.capacity)

    allocation = policies.create(name).allocate(none)

    assert allocation.share.shape == (0, 3)
    assert len(allocation.extras) == 0


@every_policy
def test_a_job_that_runs_nowhere_gets_nothing_and_harms_nobody(name):
    if name == "pop":
        pytest.skip("an additional job changes who is in which part")
    rng = np.random.default_rng(5)
    rate, gpus = rng.uniform(1, 5, (4, 3)), [1, 2, 1, 1]
    rate[3] = 0.0
    classes = classes_of(rate, gpus)
    without = view_of(classes, [0, 1, 2, 0], (1, 1, 2))
    # isolated parts count all jobs, so the comparison is with a job that can run but has nothing to do
    view = view_of(classes, [0, 1, 2, 0, 3], (1, 1, 2))

    allocation = policies.create(name).allocate(view)

    assert_feasible(view, allocation)
    assert not allocation.share[4].any()
    if "finish-time" not in name:
        expected = policies.create(name).allocate(without)
        assert allocation.report.objective == pytest.approx(expected.report.objective, rel=1e-9)


@every_policy
def test_types_without_a_gpu_are_not_used(name):
    view = dated(random_view(np.random.default_rng(2), zeros=0.0))
    view = replace(view, capacity=np.array([3, 0, 2]))

    allocation = policies.create(name).allocate(view)

    assert_feasible(view, allocation)
    assert not allocation.share[:, 1].any()
    assert allocation.share.any()


@every_policy
def test_a_cluster_of_one_type_works(name):
    view = dated(random_view(np.random.default_rng(2), types=1, zeros=0.0))

    assert_feasible(view, policies.create(name).allocate(view))


@pytest.mark.parametrize("name", [*SINGLE, *PACKED])
def test_the_order_of_jobs_does_not_matter(name):
    view = dated(random_view(np.random.default_rng(11), jobs=10))
    shuffled = np.random.default_rng(0).permutation(len(view))
    other = replace(view.part(shuffled, view.capacity), jobs=view.jobs)

    here, there = policies.create(name).allocate(view), policies.create(name).allocate(other)

    assert there.report.objective == pytest.approx(here.report.objective, rel=1e-7)


@pytest.mark.parametrize("name", [*SINGLE, *PACKED])
def test_jobs_of_one_class_solved_together_or_apart_have_the_same_optimum(name):
    view = dated(random_view(np.random.default_rng(4), jobs=10))
    own = classes_of(
        view.throughput,
        view.gpus,
        view.weight,
        view.classes.pair[view.job_class[:, None], view.job_class[None, :]],
    )
    apart = replace(view, classes=own, job_class=np.arange(len(view)))

    together = policies.create(name).allocate(view).report.objective

    assert policies.create(name).allocate(apart).report.objective == pytest.approx(together, rel=1e-6)


@pytest.mark.parametrize("name", [*SINGLE, *PACKED])
@pytest.mark.parametrize("seed", range(3))
def test_starting_from_the_last_allocation_changes_no_optimum(name, seed):
    rng = np.random.default_rng(seed)
    view = dated(random_view(rng, jobs=16, load=2))
    policy = policies.create(name)
    before = policy.allocate(view)
    keep = np.flatnonzero(rng.random(len(view)) > 0.3)
    later = view.part(keep, np.maximum(view.capacity - [0, 1, 0], 1))
    forget = {k: v for k, v in before.state.items() if k.startswith("isolated")}

    warm = policy.allocate(replace(later, previous=before))
    cold = policy.allocate(replace(later, previous=replace(before, state=forget)))

    assert_feasible(later, warm)
    assert warm.report.objective == pytest.approx(cold.report.objective, rel=1e-7)


def test_the_second_stage_leaves_no_gpu_idle_that_somebody_could_use():
    view = random_view(np.random.default_rng(3), jobs=12, load=1.0, zeros=0.0, sizes=(1,))

    for name in ("max-min-fairness-perf", "min-total-duration-perf", "finish-time-fairness-perf"):
        share = policies.create(name).allocate(view).share
        assert share.sum() == pytest.approx(min(len(view), view.capacity.sum()), rel=1e-6)


def test_a_weight_of_two_asks_for_twice_the_normalised_throughput():
    classes = classes_of([[1.0, 2.0], [1.0, 2.0]], weight=[1.0, 2.0])
    view = view_of(classes, [0, 1, 0, 1], (1, 1))

    allocation = policies.create("max-min-fairness-perf").allocate(view)

    speed = speeds(view, allocation)
    assert speed[1] == pytest.approx(2 * speed[0], rel=1e-6)
    assert normal(view, view.throughput) @ speed == pytest.approx(4 * allocation.report.objective, rel=1e-6)


def test_finish_time_fairness_remembers_the_time_that_steps_took_in_isolation():
    classes = classes_of([[1.0, 2.0], [2.0, 1.0]])
    first = view_of(classes, [0, 1], (1, 1), steps_left=[1000.0, 1000.0])
    policy = policies.create("finish-time-fairness-perf")
    before = policy.allocate(first)
    later = replace(first, previous=before, now=100.0, steps_done=np.array([300.0, 0.0]))

    after = policy.allocate(later)

    isolated = before.state["isolated_rate"]
    assert after.state["isolated_time"] == pytest.approx([300.0 / isolated[0], 0.0])


def test_reference_type_is_the_fastest_where_there_is_no_v100():
    classes = classes_of([[1.0, 2.0]])
    view = view_of(classes, [0, 0], (1, 1), types=("k80", "p100"), steps_left=[100.0, 100.0])

    allocation = policies.create("min-total-duration").allocate(view)

    assert allocation.report.objective == pytest.approx(50.0)


def test_pop_divides_all_gpus_and_keeps_parts_apart():
    view = random_view(np.random.default_rng(6), jobs=13, load=1.0, sizes=(1,))

    allocation = policies.create("pop", inner="max-min-fairness-packed", parts="3").allocate(view)

    assert_feasible(view, allocation)
    assert allocation.traits.packs
    assert (allocation.extras.first % 3 == allocation.extras.second % 3).all()


def test_pop_with_one_part_is_the_inner_policy():
    view = random_view(np.random.default_rng(6))

    alone = policies.create("max-min-fairness-perf").allocate(view)

    assert policies.create("pop", parts=1).allocate(view) == alone


@pytest.mark.parametrize("parameters", [{"parts": 0}, {"inner": "pop"}, {"inner": "no-such-policy"}])
def test_pop_refuses_nonsense(parameters):
    with pytest.raises(ConfigError):
        policies.create("pop", **parameters)


@pytest.mark.parametrize("text", ["a", "a=x", "a=-1", "=2", "a=2:lottery", "a=1,,b=2"])
def test_entities_that_cannot_be_read_are_refused(text):
    policy = policies.create("max-min-fairness-water-filling-perf", entities=text)

    with pytest.raises(ConfigError, match="entit"):
        policy.allocate(random_view(np.random.default_rng(0)))
