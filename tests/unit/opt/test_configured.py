"""Shares over configurations of CPUs and memory: optima against scipy on plain per-job programs, and who gets what."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy.optimize import linprog

from builders import a_view, assert_feasible, some_jobs
from rota import clusters, profiles
from rota.core.cluster import Cluster, Resources, Server
from rota.core.tolerance import TOLERANCE
from rota.opt.configured import Configured, columns, fairest
from rota.opt.groups import by_class, proportional_rate, usable_rate
from rota.opt.wishes import shares, wishes
from rota.policies.registry import policies

SPEEDS = profiles.load("pipeline")
CLUSTER = clusters.load("v100=4/4:cpus=12:memory=250,p100=8/8:cpus=24:memory=500,k80=4/4:cpus=12:memory=250")
MODELS = ("res18", "res50", "transformer", "lstm")
UNIFIED = tuple(n for n in policies.names() if n.endswith("-unified"))


def a_mixed_view(seed, jobs=14, cluster=CLUSTER, sizes=(1, 1, 2, 4)):
    rng = np.random.default_rng(seed)
    asked = some_jobs(
        jobs,
        profiles=[str(m) for m in rng.choice(MODELS, jobs)],
        gpus=rng.choice(sizes, jobs),
        steps=10 ** rng.uniform(3, 5, jobs),
        weight=rng.choice([1.0, 2.0], jobs),
    )
    return a_view(asked, speeds=SPEEDS, cluster=cluster)


class Plain:
    """The same feasible set with a variable per job, type and configuration, every amount in its own unit."""

    def __init__(self, view):
        known, cluster = view.classes.configurations, view.cluster
        self.view = view
        self.way = [
            (i, t, q)
            for i, c in enumerate(view.job_class.tolist())
            for t in range(len(view.types))
            for q in known.choices(c, t)
        ]
        self.rate = np.array([view.throughput[i, t] * q.speed for i, t, q in self.way])
        self.rows, self.limits = [], []
        for i in range(len(view)):
            self._row([1.0 if i == j else 0.0 for j, _, _ in self.way], 1.0)
        for t, (lo, hi) in enumerate(zip(cluster.server_bounds, cluster.server_bounds[1:], strict=False)):
            for use, total in (
                (view.gpus.astype(float)[[i for i, _, _ in self.way]], cluster.server_gpus[lo:hi].sum()),
                ([q.cpus for _, _, q in self.way], cluster.server_cpus[lo:hi].sum()),
                ([q.memory_gb for _, _, q in self.way], cluster.server_memory_gb[lo:hi].sum()),
            ):
                self._row([u if k == t else 0.0 for u, (_, k, _) in zip(use, self.way, strict=True)], total)

    def _row(self, values, limit):
        self.rows.append(values)
        self.limits.append(float(limit))

    def raise_floor(self, scale, need=None):
        """The largest t with scale_i rate_i >= t need_i for every job."""
        need = np.ones(len(self.view)) if need is None else need
        floor = np.zeros((len(self.view), len(self.way) + 1))
        for k, (i, _, _) in enumerate(self.way):
            floor[i, k] = -self.rate[k] * scale[i]
        floor[:, -1] = need
        rows = np.vstack([np.column_stack([self.rows, np.zeros(len(self.rows))]), floor])
        cost = np.append(np.zeros(len(self.way)), -1.0)
        found = linprog(cost, rows, np.append(self.limits, np.zeros(len(self.view))), method="highs")
        assert found.status == 0
        return -found.fun

    def most(self):
        found = linprog(-self.rate, np.array(self.rows), self.limits, method="highs")
        assert found.status == 0
        return -found.fun


def job_scale(view):
    fair = proportional_rate(usable_rate(view), view.capacity)[view.job_class]
    return view.gpus / (fair * view.weight)


@pytest.mark.parametrize("seed", range(6))
def test_max_min_by_class_is_the_optimum_of_the_program_with_a_variable_per_job(seed):
    view = a_mixed_view(seed)

    found = policies.create("max-min-fairness-unified").allocate(view)

    assert found.report.objective == pytest.approx(Plain(view).raise_floor(job_scale(view)), rel=1e-7)


@pytest.mark.parametrize("seed", range(6))
def test_makespan_is_the_optimum_of_the_program_with_a_variable_per_job(seed):
    view = a_mixed_view(seed)

    found = policies.create("min-total-duration-unified").allocate(view)

    rate = Plain(view).raise_floor(1 / view.steps_left)
    assert found.report.objective == pytest.approx(1 / rate, rel=1e-7)


@pytest.mark.parametrize("seed", range(6))
def test_total_throughput_is_the_optimum_of_the_program_with_a_variable_per_job(seed):
    view = a_mixed_view(seed)

    found = policies.create("max-sum-throughput-unified").allocate(view)

    assert found.report.objective == pytest.approx(Plain(view).most(), rel=1e-6)


@pytest.mark.parametrize("seed", range(4))
def test_finish_time_fairness_can_be_met_but_not_beaten(seed):
    """The optimum rho needs rates r(rho): the plain program can give these, and not one in a thousand more."""
    view = a_mixed_view(seed)
    view = replace(view, now=4000.0, submitted=np.linspace(0, 3000, len(view)))

    rho = policies.create("finish-time-fairness-unified").allocate(view).report.objective

    part = view.capacity / (len(view) * view.gpus[:, None])
    part = part / np.maximum(1.0, part.sum(axis=1))[:, None]
    alone = view.steps_left / (view.throughput * part).sum(axis=1)
    need = view.steps_left / (rho * alone - view.age)
    reached = Plain(view).raise_floor(np.ones(len(view)), need)
    assert reached >= 1 - 1e-6
    tighter = view.steps_left / (rho * (1 - 1e-3) * alone - view.age)
    assert (tighter <= 0).any() or Plain(view).raise_floor(np.ones(len(view)), tighter) < 1


@pytest.mark.parametrize("name", UNIFIED)
@pytest.mark.parametrize("seed", range(4))
def test_shares_and_wishes_stay_within_gpus_cpus_and_memory(name, seed):
    view = a_mixed_view(seed, jobs=40)

    found = policies.create(name).allocate(view)

    assert_feasible(found, view)
    wish = found.wish
    assert wish.which.shape == found.share.shape
    assert (wish.speed[wish.which] >= 1 - 1e-9).all()
    ways = columns(view, by_class(view))
    for column, unit in ((wish.cpus, view.cluster.fair_cpus), (wish.memory_gb, view.cluster.fair_memory_gb)):
        used = (column[wish.which] * found.share).sum(axis=0) / unit
        size = (column[wish.which] / unit).max(axis=0)
        assert (used <= ways.room[0] + size + 1e-6).all(), "beyond what rounding to whole jobs explains"


@pytest.mark.parametrize("name", [n for n in UNIFIED if n != "min-mean-jct-unified"])  # there speeds mean another thing
def test_it_is_never_worse_than_the_plain_policy(name):
    view = a_mixed_view(3, jobs=30)
    plain = name.replace("-unified", "-perf")

    mine, theirs = (policies.create(n).allocate(view).report.objective for n in (name, plain))

    if name.startswith(("max-min", "max-sum")):
        assert mine >= theirs * (1 - 1e-6)
    else:
        assert mine <= theirs * (1 + 1e-6)


def test_the_second_stage_leaves_no_gpu_idle_while_somebody_could_use_it():
    view = a_mixed_view(1, jobs=60)

    found = policies.create("max-min-fairness-unified").allocate(view)

    assert view.gpus @ found.share == pytest.approx(view.capacity)


def test_jobs_of_a_class_divide_configurations_as_their_class_mixes_them():
    """Six jobs that need 6 CPUs to be fast on 6 GPUs with 24 CPUs: some get what they want, the others less."""
    cluster = clusters.load("p100=6/6:cpus=24:memory=600")
    view = a_view(some_jobs(6, profiles=["res18"] * 6), speeds=SPEEDS, cluster=cluster)
    groups = by_class(view)
    ways = columns(view, groups)

    found = fairest(Configured(groups=groups, columns=ways, scale=np.ones(1)), np.ones(1), {})
    wish = wishes(view, groups, ways, found.times)

    assert shares(groups, ways, found.times, 1).ravel() == pytest.approx(np.ones(6))
    held = wish.cpus[wish.which].ravel()
    assert held.tolist() == sorted(held, reverse=True)
    assert abs(held.sum() - 24) <= 2
    by_program = {int(q): t for q, t in zip(ways.config, found.times, strict=True) if t > TOLERANCE}
    for config, time in by_program.items():
        assert abs((wish.which == config).sum() - time) < 1
    assert wish == wishes(view, groups, ways, found.times)


def test_no_column_reads_more_than_its_gpus_part_of_storage_so_storage_needs_no_row():
    """On servers of one type with different storage: times the GPUs in use, that is never more than there is."""
    servers = tuple(
        Server(id=f"{kind}-{n}", type=kind, capacity=Resources(8, 24.0, memory, storage))
        for kind, memory in (("v100", 320.0), ("p100", 500.0), ("k80", 240.0))
        for n, storage in enumerate((100.0, 800.0))
    )
    view = a_mixed_view(3, jobs=60, cluster=Cluster(name="uneven", servers=servers))
    groups = by_class(view)
    found = columns(view, groups)
    fitted = {f.profile: f.pipeline for f in SPEEDS.fits}

    read = []
    for g, rate, q in zip(found.group.tolist(), found.rate.tolist(), found.config.tolist(), strict=True):
        stages = fitted[view.classes.profile[groups.job_class[g]]]
        if stages.storage is None:
            read.append(0.0)
            continue
        memory = found.menu.memory_gb[q] / groups.gpus[g]
        read.append(rate * max(0.0, 1 - memory / stages.data_gb) / stages.storage * 62.5)

    per_gpu = view.cluster.fair_storage_mbps[found.type]
    assert per_gpu.tolist() == [12.5] * len(found)
    assert (np.array(read) <= per_gpu * (1 + 1e-9)).all()
    assert (np.array(read) >= per_gpu * (1 - 1e-9)).any()
