"""Every policy with every mechanism: what is placed fits, every job comes to its end, nothing is lost or made up."""

from __future__ import annotations

import functools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from situations import CATALOGUE, MECHANISMS, NO_SPEED, POLICIES, clusters, jobs_from, largest_job, some_rows

from builders import a_cluster, a_run, assert_fits
from rota.core.events import Planned
from rota.core.placement import Plan
from rota.core.rules import PRESETS

every_policy = pytest.mark.parametrize("policy", POLICIES)
every_mechanism = pytest.mark.parametrize("mechanism", MECHANISMS)
every_preset = pytest.mark.parametrize("rules", sorted(PRESETS))

CLUSTER = a_cluster(v100=4, p100=2, k80=3, per_server=2)
ROWS = [
    {"profile": p, "gpus": g, "seconds": s, "arrival": a, "weight": w, "tenant": t, "slo": o}
    for p, g, s, a, w, t, o in [
        ("A3C", 1, 500.0, 0.0, 5.0, "b", 1.2),
        ("CycleGAN", 1, 7000.0, 0.0, 1.0, "a", np.nan),
        ("Recommendation (batch size 512)", 1, 3600.0, 0.0, 1.0, "a", np.nan),
        (NO_SPEED, 2, 3600.0, 0.0, 1.0, "a", np.nan),
        ("ResNet-18 (batch size 64)", 4, 3600.0, 100.0, 2.0, "b", 10.0),
        ("LM (batch size 20)", 1, 60.0, 100.0, 1.0, "a", np.nan),
        ("LM (batch size 20)", 1, 3600.0, 2500.0, 1.0, "b", np.nan),
        ("Transformer (batch size 64)", 1, 9000.0, 2500.0, 1.0, "b", np.nan),
        ("Transformer (batch size 64)", 2, 900.0, 2500.0, 1.0, "b", np.nan),
        ("ResNet-50 (batch size 16)", 1, 4000.0, 2500.0, 1.0, "a", np.nan),
        (NO_SPEED, 1, 4000.0, 2600.0, 2.0, "a", np.nan),
        ("A3C", 1, 4000.0, 60000.0, 1.0, "a", np.nan),
    ]
]


def check_plan(event, run):
    if isinstance(event, Planned):
        assert_fits(event.plan.placement, run.state.view(event.at))
        assert isinstance(event.plan, Plan)


def whole_run(policy, mechanism, rules, rows=ROWS, cluster=CLUSTER):
    jobs = jobs_from(rows, cluster, largest=largest_job(policy))
    return jobs, a_run(
        jobs, cluster=cluster, policy=policy, mechanism=mechanism, rules=rules, speeds=CATALOGUE, observe=check_plan
    )


fixed_run = functools.cache(whole_run)


def assert_conserved(jobs, run):
    """Every job did its steps, no faster than it can, and nobody held GPUs that were not there."""
    assert run.reason == "all jobs are done"
    finished, given_up = run.finished, run.given_up
    assert set(finished) | set(given_up) == set(range(len(jobs)))
    assert set(finished) & set(given_up) == set()
    done = run.steps()
    through = np.array(sorted(finished), dtype=np.int64)
    assert done[through] == pytest.approx(jobs.total_steps[through], rel=1e-9)
    for job, finish in finished.items():
        assert finish >= jobs.submitted[job] + jobs.total_steps[job] / fastest(jobs, job, run) * (1 - 1e-9)
    makespan = run.events[-1].at
    assert max(finished.values(), default=0.0) <= makespan
    assert (run.gpu_seconds() <= run.cluster.capacity * makespan * (1 + 1e-9)).all()
    starts = [ran.start for _, ran in run.rounds]
    ends = [ran.at for _, ran in run.rounds]
    assert all(a <= b for a, b in zip(starts, ends, strict=True))
    assert all(end <= start + 1e-6 for end, start in zip(ends, starts[1:], strict=False))


def fastest(jobs, job, run):
    """Steps/s at best: alone, or beside the partner that hurts least."""
    group = run.state.classes.number(jobs.profiles[jobs.profile[job]], int(jobs.gpus[job]), float(jobs.weight[job]))
    classes = run.state.classes.value
    return max(table[group].max() for table in (classes.throughput, classes.spread, classes.pair))


@every_preset
@every_mechanism
@every_policy
def test_a_whole_run_finishes_every_job_and_adds_up(policy, mechanism, rules):
    jobs, run = fixed_run(policy, mechanism, rules)

    assert_conserved(jobs, run)
    assert run.given_up == {} or all("failed attempts" in reason for reason in run.given_up.values())
    assert all(jobs.gpus[job] > 1 for job in run.given_up)


@settings(max_examples=4)
@every_policy
@given(rows=some_rows, cluster=clusters)
def test_any_run_under_the_default_rules_finishes_every_job_and_adds_up(policy, rows, cluster):
    jobs, run = whole_run(policy, None, "default", rows, cluster)

    assert_conserved(jobs, run)
    assert run.given_up == {}


@every_mechanism
@every_policy
def test_the_same_run_again_is_the_same_to_the_last_bit(policy, mechanism):
    _, one = fixed_run(policy, mechanism, "default")
    _, other = whole_run(policy, mechanism, "default")

    assert one.finished == other.finished
    assert [e.at for e in one.events] == [e.at for e in other.events]
    assert all(a == b for a, b in zip(one.placements, other.placements, strict=True))


@every_policy
def test_rounds_lose_time_against_the_ideal_but_no_work(policy):
    _, ideal = fixed_run(policy, "ideal", "default")
    _, real = fixed_run(policy, "proportional", "default")

    assert ideal.steps() == pytest.approx(real.steps(), rel=1e-9)
    assert all(math.isfinite(t) for t in ideal.finished.values())
