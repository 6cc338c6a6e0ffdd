"""Least mean completion time: against brute force, against shortest first on one type, and blind to names and order."""

from __future__ import annotations

import sys
from dataclasses import replace
from itertools import permutations, product
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linear_sum_assignment

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "opt"))

from laws import assert_feasible
from second_opinion import PerJob, cp, random_view
from views import classes_of, view_of

from builders import Speeds, a_cluster, a_run, a_view, some_jobs
from rota import clusters, profiles
from rota.core.errors import ConfigError
from rota.core.rules import Rules
from rota.opt import delays
from rota.policies.registry import policies

BOTH = ["min-mean-jct", "min-mean-jct-unified"]
NAMES = ("a", "b", "c")
WORST = 1.03
MEAN = 1.0
"""Mean completion time of tiny static instances over that of the best schedule without preemption: each, on average."""


def delay(view, i):
    """Jobs that a second of work of job i delays, written out."""
    left = view.steps_left / view.throughput.max(axis=1)
    aged = left / (1 + (view.now - view.submitted) / left)
    left = aged * view.gpus / view.weight
    behind = sum(float(view.weight[k]) for k in range(len(view)) if left[k] > left[i])
    return float(view.weight[i]) + float(view.gpus[i]) / view.capacity.sum() * behind


def saved(view, share):
    """What a share saves, in jobs."""
    speed = (view.throughput * share).sum(axis=1) / view.throughput.max(axis=1)
    return sum(delay(view, i) * speed[i] for i in range(len(view)))


@pytest.mark.parametrize("seed", range(12))
def test_the_objective_is_the_one_of_a_program_written_plainly(seed):
    view = random_view(np.random.default_rng(seed), jobs=12, load=(0.6, 1.5, 4.0)[seed % 3])
    plain = PerJob(view)
    fastest = view.throughput.max(axis=1)
    goal = sum(delay(view, i) / fastest[i] * plain.speed[i] for i in range(len(view)))

    allocation = policies.create("min-mean-jct").allocate(view)

    assert_feasible(view, allocation)
    assert allocation.report.objective == pytest.approx(plain.best(cp.Maximize(goal)), rel=1e-6)
    assert saved(view, allocation.share) == pytest.approx(allocation.report.objective, rel=1e-7)


@pytest.mark.parametrize("seed", range(8))
def test_jobs_with_one_gpu_get_a_whole_type_or_nothing_and_the_best_assignment(seed):
    view = random_view(np.random.default_rng(seed), jobs=20, sizes=(1,), load=1.4)
    workers = np.repeat(np.arange(len(view.capacity)), view.capacity)
    speed = view.throughput / view.throughput.max(axis=1, keepdims=True)
    worth = np.array([delay(view, i) for i in range(len(view))])[:, None] * speed[:, workers]
    rows, columns = linear_sum_assignment(-worth)

    allocation = policies.create("min-mean-jct").allocate(view)

    assert allocation.report.objective == pytest.approx(worth[rows, columns].sum(), rel=1e-7)
    assert np.isin(allocation.share.round(6), [0.0, 1.0]).all()


def best_without_preemption(seconds, workers):
    """Least mean completion time of jobs that are all there, [jobs, types]: all assignments, each in its best order."""
    count = len(seconds)
    best = np.inf
    for at in product(range(len(workers)), repeat=count):
        total = 0.0
        for worker, gpu_type in enumerate(workers):
            mine = sorted(seconds[i, gpu_type] for i in range(count) if at[i] == worker)
            total += sum((len(mine) - place) * took for place, took in enumerate(mine))
        best = min(best, total / count)
    return best


def tiny(seed):
    rng = np.random.default_rng(seed)
    rates = {name: {t: float(rng.uniform(0.2, 1.0)) for t in ("k80", "p100", "v100")} for name in NAMES}
    models = [NAMES[i] for i in rng.integers(0, 3, 6)]
    return rates, models, np.round(10 ** rng.uniform(2.5, 3.5, 6))


@pytest.mark.parametrize("name", BOTH)
def test_tiny_static_instances_are_near_the_best_schedule(name):
    factors = []
    for seed in range(12):
        rates, models, steps = tiny(seed)
        speed = np.array([[rates[model][t] for t in ("k80", "p100", "v100")] for model in models])
        best = best_without_preemption(steps[:, None] / speed, (0, 1, 2))
        jobs = some_jobs(6, profiles=models, steps=steps)
        cluster = a_cluster(v100=1, p100=1, k80=1)
        run = a_run(jobs, cluster=cluster, policy=name, speeds=Speeds(rates), rules=Rules(round_s=1.0))
        factors.append(np.mean(list(run.finished.values())) / best)

    assert max(factors) < WORST
    assert np.mean(factors) < MEAN


@pytest.mark.parametrize("seed", range(3))
def test_on_one_type_it_is_shortest_remaining_time_first_but_for_ageing(seed):
    rng = np.random.default_rng(seed)
    jobs = some_jobs(
        60, profiles=[("fast", "slow")[i] for i in rng.integers(0, 2, 60)], steps=np.round(10 ** rng.uniform(2, 4, 60)),
        arrivals=np.sort(rng.uniform(0, 20000, 60)),
    )  # fmt: skip

    def mean(policy):
        done = a_run(jobs, cluster=a_cluster(v100=3), policy=policy).finished
        return np.mean([done[i] - jobs.submitted[i] for i in range(60)])

    shortest_first = mean("srtf")
    assert mean(policies.create("min-mean-jct", ageing=0.0)) == pytest.approx(shortest_first, rel=1e-3)
    for name in BOTH:
        assert mean(name) < shortest_first * 1.05


def test_ageing_brings_a_long_job_forward():
    """A job of 1000 s that came 3000 s ago has as good as 250 s left; one of 300 s has just come."""
    jobs = some_jobs(2, profiles="a", steps=[1000.0, 300.0], arrivals=[0.0, 3000.0])
    view = replace(a_view(jobs, speeds=Speeds({"a": {"v100": 1.0}}), cluster=a_cluster(v100=1)), now=3000.0)

    first = {a: int(policies.create("min-mean-jct", ageing=a).allocate(view).share[:, 0].argmax()) for a in (0.0, 1.0)}

    assert first == {0.0: 1, 1.0: 0}


@pytest.mark.parametrize("name", BOTH)
@pytest.mark.parametrize("ageing", [-1.0, float("inf"), float("nan")])
def test_an_ageing_that_makes_no_sense_is_refused(name, ageing):
    with pytest.raises(ConfigError, match="ageing"):
        policies.create(name, ageing=ageing)


@pytest.mark.parametrize("name", BOTH)
@pytest.mark.parametrize("order", list(permutations(range(3))))
def test_names_and_order_of_types_and_jobs_change_nothing(name, order):
    rng = np.random.default_rng(5)
    models = [NAMES[i] for i in rng.integers(0, 3, 40)]
    steps = np.round(10 ** rng.uniform(2.5, 4, 40))
    rate = rng.uniform(0.2, 1.0, (3, 3))
    counts = (2, 3, 4)
    types = ("x", "y", "z")

    def finishes(names, turned):
        speeds = Speeds({m: {names[t]: float(rate[i, t]) for t in range(3)} for i, m in enumerate(NAMES)})
        jobs = some_jobs(40, profiles=[models[i] for i in turned], steps=steps[turned])
        cluster = a_cluster(**{names[t]: counts[t] for t in range(3)})
        done = a_run(jobs, cluster=cluster, policy=name, speeds=speeds).finished
        return np.array([done[i] for i in np.argsort(turned)])

    same = finishes(types, np.arange(40))
    other = finishes([types[t] for t in order], rng.permutation(40))

    assert other == pytest.approx(same, rel=1e-9)


@pytest.mark.parametrize("name", BOTH)
def test_a_job_is_never_put_on_a_type_without_a_rate(name):
    rates = {"a": {"v100": 1.0, "p100": 0.0}, "b": {"v100": 0.0, "p100": 0.5}, "c": {"v100": 1.0, "p100": 0.9}}
    jobs = some_jobs(12, profiles=list(NAMES) * 4, steps=np.linspace(500, 3000, 12))

    run = a_run(jobs, cluster=a_cluster(v100=2, p100=2), policy=name, speeds=Speeds(rates))

    assert set(run.finished) == set(range(12))
    for placed in run.placements:
        for job, gpu_type in zip(placed.first.tolist(), placed.type.tolist(), strict=True):
            assert rates[NAMES[job % 3]][("p100", "v100")[gpu_type]] > 0


def test_a_short_job_takes_the_fast_type_only_if_it_loses_more_without_it():
    """The other type costs the short job a tenth and the long one nine tenths: two jobs are not enough to wait for."""
    rates = {"a": {"v100": 1.0, "k80": 0.9}, "b": {"v100": 1.0, "k80": 0.1}}
    view = a_view(
        some_jobs(2, profiles=["a", "b"], steps=[100.0, 1000.0]), speeds=Speeds(rates), cluster=a_cluster(v100=1, k80=1)
    )

    share = policies.create("min-mean-jct").allocate(view).share

    assert share.tolist() == [[1.0, 0.0], [0.0, 1.0]]


@settings(max_examples=20)
@given(st.integers(0, 10_000), st.sampled_from([0.7, 2.0, 8.0]))
def test_many_jobs_in_groups_are_as_good_as_one_by_one(seed, load):
    rng = np.random.default_rng(seed)
    rate = rng.uniform(0.2, 1.0, (5, 3))
    sizes = rng.choice([1, 1, 2], 5)
    count = delays.MOST_JOBS + 100
    job_class = rng.integers(0, 5, count)
    capacity = np.maximum(2, (sizes[job_class].sum() / load * np.array([0.3, 0.3, 0.4])).astype(int))
    view = view_of(classes_of(rate, sizes), job_class, capacity, steps_left=10 ** rng.uniform(2, 4, count))

    allocation = policies.create("min-mean-jct").allocate(view)
    one_by_one = _with_limit(count, lambda: policies.create("min-mean-jct").allocate(view))

    assert_feasible(view, allocation)
    assert saved(view, allocation.share) >= 0.995 * saved(view, one_by_one.share)
    for group in range(5):  # of a class, the shorter job is never slower
        mine = np.flatnonzero(job_class == group)
        mine = mine[np.argsort(view.steps_left[mine])]
        speed = (view.throughput[mine] * allocation.share[mine]).sum(axis=1)
        assert (np.diff(speed) <= 1e-6).all()


def _with_limit(limit, function):
    usual = delays.MOST_JOBS
    delays.MOST_JOBS = limit
    try:
        return function()
    finally:
        delays.MOST_JOBS = usual


@pytest.mark.parametrize("count", [20, 300])
def test_with_cpus_too_shares_keep_within_what_there_is(count):
    rng = np.random.default_rng(count)
    names = [str(m) for m in rng.choice(["res18", "res50", "transformer", "lstm"], count)]
    cluster = clusters.load("v100=16/8:cpus=24:memory=500,p100=16/8:cpus=24:memory=500")
    jobs = some_jobs(count, profiles=names, steps=10 ** rng.uniform(3, 5, count))
    view = a_view(jobs, speeds=profiles.load("pipeline"), cluster=cluster)

    found = policies.create("min-mean-jct-unified").allocate(view)

    assert_feasible(view, found)
    wish = found.wish
    cpus = (found.share * wish.cpus[wish.which]).sum(axis=0)
    assert (cpus <= 48 + 8).all(), "up to one job that divides its time between two configurations"
    plain = policies.create("min-mean-jct").allocate(view)
    full = view.classes.configurations
    speed = (view.throughput * wish.speed[wish.which] * found.share).sum(axis=1)
    usual = (view.throughput * plain.share).sum(axis=1)
    best = (view.classes.throughput * full.speed[full.full]).max(axis=1)[view.job_class]
    left = view.steps_left / best
    worth = 1 + np.array([np.count_nonzero(left > mine) for mine in left]) / 32
    assert worth @ (speed / best) >= 0.995 * (worth @ (usual / best))


def test_weights_and_gpus_count_as_smiths_rule_says():
    """One GPU-second of the heavier, smaller job delays more weight: it goes first."""
    classes = classes_of([[1.0], [1.0], [1.0]], gpus=[1, 2, 1], weight=[1.0, 1.0, 5.0])
    view = view_of(classes, [0, 1, 2], [2], steps_left=[150.0, 100.0, 500.0])

    share = policies.create("min-mean-jct").allocate(view).share[:, 0]

    assert share == pytest.approx([1.0, 0.0, 1.0])


def test_it_forgets_jobs_that_can_run_nowhere():
    view = random_view(np.random.default_rng(3), jobs=10)
    rate = view.classes.throughput.copy()
    rate[0] = 0.0
    view = replace(view, classes=replace(view.classes, throughput=rate))

    allocation = policies.create("min-mean-jct").allocate(view)

    assert_feasible(view, allocation)
    assert allocation.share[view.job_class == 0].sum() == 0
