"""What every policy promises, whatever its name: found in the registry, tried on generated situations."""

from __future__ import annotations

from dataclasses import fields, replace

import numpy as np
import pytest
from hypothesis import example, given
from situations import CATALOGUE, NO_SPEED, POLICIES, clusters, largest_job, some_rows, view_from

from builders import a_cluster, a_view, assert_feasible, assert_same_allocation, some_jobs
from rota.policies.registry import policies

every_policy = pytest.mark.parametrize("name", POLICIES)

MIXED = [
    {"profile": p, "gpus": g, "seconds": s, "arrival": a, "weight": w, "tenant": t, "slo": o}
    for p, g, s, a, w, t, o in [
        (NO_SPEED, 2, 3600.0, 0.0, 1.0, "a", np.nan),
        ("A3C", 1, 500.0, 0.0, 5.0, "b", 1.2),
        ("CycleGAN", 1, 20000.0, 100.0, 1.0, "a", np.nan),
        ("ResNet-18 (batch size 64)", 4, 3600.0, 1000.0, 2.0, "b", 10.0),
        ("LM (batch size 20)", 1, 60.0, 1000.0, 1.0, "a", np.nan),
        ("LM (batch size 20)", 1, 3600.0, 1000.0, 1.0, "b", np.nan),
    ]
]
SMALL = a_cluster(v100=4, k80=3)


def frozen(view):
    """The same view with arrays that nobody can write to."""
    view.classes.pair.setflags(write=False)
    for owner in (view, view.classes):
        names = [f.name for f in fields(owner)] if owner is view else ["gpus", "weight", "throughput", "runs_on"]
        for name in names:
            value = getattr(owner, name)
            if isinstance(value, np.ndarray):
                value.setflags(write=False)
    return view


def arrays(view):
    return {f.name: v.copy() for f in fields(view) if isinstance(v := getattr(view, f.name), np.ndarray)}


@every_policy
@given(rows=some_rows, cluster=clusters)
@example(rows=MIXED, cluster=SMALL)
def test_it_hands_out_no_more_than_there_is(name, rows, cluster):
    view = view_from(rows, cluster, largest=largest_job(name))

    allocation = policies.create(name).allocate(view)

    assert allocation.types == view.types
    assert allocation.jobs.tolist() == view.jobs.tolist()
    assert_feasible(allocation, view)


@every_policy
@given(rows=some_rows, cluster=clusters)
@example(rows=MIXED, cluster=SMALL)
def test_it_answers_the_same_to_the_same_view_and_touches_nothing(name, rows, cluster):
    view = frozen(view_from(rows, cluster, largest=largest_job(name)))
    before = arrays(view)
    policy = policies.create(name)

    first = policy.allocate(view)
    later = replace(view, previous=first, now=view.now + 360)
    once = policy.allocate(later)

    assert_same_allocation(policy.allocate(view), first)
    assert_same_allocation(policies.create(name).allocate(view), first)
    assert_same_allocation(policies.create(name).allocate(later), once)
    assert_feasible(once, later)
    assert all(np.array_equal(before[k], v, equal_nan=True) for k, v in arrays(view).items())


@every_policy
@given(rows=some_rows, cluster=clusters)
@example(rows=MIXED, cluster=SMALL)
def test_it_does_not_care_which_numbers_jobs_have(name, rows, cluster):
    view = view_from(rows, cluster, largest=largest_job(name))
    renumbered = replace(view, jobs=view.jobs + 1000)

    one, other = (policies.create(name).allocate(v) for v in (view, renumbered))

    assert np.array_equal(one.share, other.share)
    assert one.order is None or np.array_equal(one.order, other.order)
    assert (one.extras.first + 1000).tolist() == other.extras.first.tolist()
    assert one.report.objective == other.report.objective or np.isnan(one.report.objective)


@every_policy
@given(rows=some_rows, cluster=clusters)
@example(rows=MIXED, cluster=SMALL)
def test_its_objective_does_not_depend_on_the_order_of_jobs(name, rows, cluster):
    view = view_from(rows, cluster, largest=largest_job(name))
    turned = np.arange(len(view))[::-1]
    backwards = replace(view.part(turned, view.capacity), jobs=view.jobs)

    one, other = (policies.create(name).allocate(v) for v in (view, backwards))

    if np.isfinite(one.report.objective):
        assert other.report.objective == pytest.approx(one.report.objective, rel=1e-6, abs=1e-9)
    else:
        assert not np.isfinite(other.report.objective)


@every_policy
def test_without_jobs_there_is_nothing_to_hand_out(name):
    view = a_view(some_jobs(0), speeds=CATALOGUE)

    allocation = policies.create(name).allocate(view)

    assert len(allocation.jobs) == len(allocation.extras) == 0
    assert allocation.share.shape == (0, len(view.types))
    assert_feasible(allocation, view)


@every_policy
def test_a_lone_job_that_fits_gets_something_it_can_use(name):
    view = a_view(some_jobs(1, profiles=["A3C"]), speeds=CATALOGUE, cluster=a_cluster(v100=1, k80=1))

    allocation = policies.create(name).allocate(view)

    usable = allocation.share[0] * (view.throughput[0] > 0)
    assert allocation.order is not None or usable.sum() > 0
