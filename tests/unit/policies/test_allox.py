"""Least total completion time by a matching of jobs to places in queues."""

import math
import time
from dataclasses import replace
from itertools import permutations

import numpy as np
import pytest

from builders import FAST, Speeds, a_cluster, a_view, some_jobs
from rota import kernels
from rota.core.errors import ConfigError
from rota.policies import allox
from rota.policies.registry import policies


def allocate(view, **parameters):
    return policies.create("allox", **parameters).allocate(view)


def test_the_shortest_job_runs_first():
    view = a_view(some_jobs(3, steps=[300.0, 100.0, 200.0]), cluster=a_cluster(v100=1))

    assert allocate(view).share[:, 0].tolist() == [0.0, 1.0, 0.0]


def test_jobs_go_where_they_are_comparatively_fast():
    speeds = Speeds(rates={"a": {"k80": 9.0, "v100": 10.0}, "b": {"k80": 1.0, "v100": 10.0}})
    view = a_view(some_jobs(2, profiles=["a", "b"]), speeds=speeds, cluster=a_cluster(v100=1, k80=1))

    assert allocate(view).share.tolist() == [[1, 0], [0, 1]]


def heads_of_the_best_queues(seconds):
    """(first on the k80, first on the v100) of the cheapest way to queue the jobs, seconds[J, T], on two workers."""
    found = {}
    for order in permutations(range(len(seconds))):
        for split in range(len(order) + 1):
            queues = (order[:split], order[split:])
            cost = sum(
                seconds[job, kind] * (len(queue) - at)
                for kind, queue in enumerate(queues)
                for at, job in enumerate(queue)
            )
            found[cost] = tuple(queue[0] if queue else None for queue in queues)
    return found[min(found)]


@pytest.mark.parametrize("seed", range(8))
def test_those_run_who_are_first_in_the_best_of_all_queues(seed):
    rng = np.random.default_rng(seed)
    rates = {f"m{i}": {"k80": float(k), "v100": float(v)} for i, (k, v) in enumerate(rng.uniform(0.5, 4.0, (4, 2)))}
    jobs = some_jobs(4, profiles=list(rates), steps=rng.uniform(500.0, 3000.0, 4))
    view = a_view(jobs, speeds=Speeds(rates=rates), cluster=a_cluster(v100=1, k80=1))

    share = allocate(view).share

    heads = tuple(int(column.argmax()) if column.any() else None for column in share.T)
    assert heads == heads_of_the_best_queues(view.steps_left[:, None] / view.throughput)


def test_who_has_a_whole_worker_keeps_it():
    view = a_view(some_jobs(1, steps=1e6), cluster=a_cluster(v100=1))
    first = allocate(view)
    later = a_view(some_jobs(3, steps=[1e6, 1.0, 1.0]), cluster=a_cluster(v100=1))

    assert allocate(replace(later, previous=first, accounts=None)).share[:, 0].tolist() == [1.0, 0.0, 0.0]
    assert allocate(later).share[0, 0] == 0.0


def test_alpha_limits_the_matching_to_those_who_waited_longest():
    view = a_view(
        some_jobs(4, steps=[400.0, 300.0, 200.0, 1.0], arrivals=[0.0, 1.0, 2.0, 3.0]),
        cluster=a_cluster(v100=1),
        now=10.0,
    )

    assert allocate(view, alpha=1.0).share[:, 0].tolist() == [0, 0, 0, 1]
    assert allocate(view, alpha="0.5").share[:, 0].tolist() == [0, 1, 0, 0]


def test_a_job_is_not_sent_where_it_has_no_speed_while_there_is_another_way():
    speeds = Speeds(rates={FAST: {"k80": 0.0, "v100": 1.0}})

    allocation = allocate(a_view(2, speeds=speeds, cluster=a_cluster(v100=2, k80=1)))

    assert allocation.share.tolist() == [[0, 1], [0, 1]]


def test_a_gang_is_refused_by_name():
    with pytest.raises(ConfigError, match="job 1 asks for 2 GPUs"):
        allocate(a_view(some_jobs(2, gpus=[1, 2])))


def test_more_workers_than_jobs_is_no_problem():
    allocation = allocate(a_view(2, cluster=a_cluster(v100=50, k80=50)))

    assert allocation.share.tolist() == [[0, 1], [0, 1]]


@pytest.mark.parametrize("seed", range(6))
def test_without_a_matrix_the_same_jobs_run_or_others_at_the_same_cost(seed, monkeypatch):
    rng = np.random.default_rng(seed)
    rates = {f"m{i}": {"k80": float(k), "v100": float(v)} for i, (k, v) in enumerate(rng.uniform(0.5, 4.0, (4, 2)))}
    jobs = some_jobs(21, profiles=rng.choice(list(rates), 21).tolist(), steps=rng.uniform(500.0, 3000.0, 21))
    view = a_view(jobs, speeds=Speeds(rates=rates), cluster=a_cluster(v100=1, k80=1))
    expected = allocate(view).share

    monkeypatch.setattr(allox, "_LARGEST_MATRIX", 0)

    assert allocate(view).share.tolist() == expected.tolist()


def test_ten_thousand_jobs_are_queued_in_seconds_and_little_memory():
    rng = np.random.default_rng(0)
    rates = {f"m{i}": dict(zip(["k80", "p100", "v100"], rng.uniform(0.5, 4.0, 3), strict=True)) for i in range(20)}
    count = 10_000
    jobs = some_jobs(count, profiles=rng.choice(list(rates), count).tolist(), steps=10 ** rng.uniform(2, 5, count))
    view = a_view(jobs, speeds=Speeds(rates=rates), cluster=a_cluster(v100=36, p100=36, k80=36))
    start = time.process_time()

    share = allocate(view).share

    assert share.sum(axis=0).tolist() == [36, 36, 36]
    assert share.sum(axis=1).max() == 1
    assert time.process_time() - start < (10 if kernels.COMPILED else math.inf)
