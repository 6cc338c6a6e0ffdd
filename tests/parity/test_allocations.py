"""Our allocations against those of the published Gavel artifact, on its own small instances.

Optima are not unique, so objectives are compared, each computed here from shares alone.
"""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import numpy as np
import pytest

from rota.core.cluster import uniform
from rota.core.view import View
from rota.policies.registry import policies

SHARED = Path(__file__).resolve().parents[2].parent / "shared"
ORACLE = SHARED / "oracle" / "gavel" / "allocations.json"
TABLE = SHARED / "data" / "gavel_simulation_throughputs.json.gz"
TYPES = ("k80", "p100", "v100")

pytestmark = pytest.mark.skipif(not ORACLE.exists(), reason=f"the artifact's allocations are not here: {ORACLE}")


class Measured:
    """One class per job of an instance."""

    def __init__(self, jobs):
        with gzip.open(TABLE) as file:
            table = json.load(file)
        keys = [f"('{j['job_type']}', {j['scale_factor']})" for j in jobs]
        self.profile = tuple(keys)
        self.gpus = np.array([j["scale_factor"] for j in jobs])
        self.weight = np.array([j["priority"] for j in jobs])
        self.throughput = np.array([[j["throughput"][t] for t in TYPES] for j in jobs])
        self.pair = np.zeros((len(jobs), len(jobs), len(TYPES)))
        for a, mine in enumerate(keys):
            for b, theirs in enumerate(keys):
                for t, name in enumerate(TYPES):
                    self.pair[a, b, t] = table[name][mine].get(theirs, [0.0, 0.0])[0]

    def __len__(self):
        return len(self.profile)


def instances():
    if not ORACLE.exists():
        return []
    with ORACLE.open() as file:
        return json.load(file)


def view_of(instance):
    jobs = instance["jobs"]
    count = len(jobs)
    capacity = np.array([instance["cluster_spec"][t] for t in TYPES])
    now = 1e6
    classes = Measured(jobs)
    return View(
        now=now,
        round=0,
        cluster=uniform("artifact", [(t, int(n), 1) for t, n in zip(TYPES, capacity, strict=True)]),
        capacity=capacity,
        classes=classes,
        jobs=np.array([j["id"] for j in jobs]),
        job_class=np.arange(count),
        gpus=classes.gpus,
        weight=classes.weight,
        submitted=now - np.array([j["time_since_start"] for j in jobs]),
        total_steps=np.array([j["num_steps_remaining"] for j in jobs]),
        steps_done=np.zeros(count),
        deadline=np.full(count, np.inf),
        tenant=np.zeros(count, dtype=np.int64),
        tenants=("default",),
        attained=np.zeros(count),
        last_ran=np.zeros(len(jobs)),
        speed=np.ones(count),
        urgent=None,
        patient=True,
        previous=None,
        placement=None,
    )


def ours(name, view):
    allocation = policies.create(name).allocate(view)
    rows = {(int(i),): s for i, s in zip(view.jobs, allocation.share, strict=False)}
    for a, b, s in zip(allocation.extras.first, allocation.extras.second, allocation.share[len(view) :], strict=True):
        rows[int(a), int(b)] = s
    return rows, allocation.report.objective


def theirs(instance, name):
    result = instance["results"][name]
    if "allocation" not in result:
        return None
    return {
        tuple(int(i) for i in key.split(",")): np.array([row[t] for t in TYPES])
        for key, row in result["allocation"].items()
    }


def rates(view, rows, rate=None):
    """[J] effective throughput of an allocation by rows."""
    rate = view.throughput if rate is None else rate
    at = {int(i): k for k, i in enumerate(view.jobs)}
    total = np.zeros(len(view))
    for key, share in rows.items():
        if len(key) == 1:
            total[at[key[0]]] += rate[at[key[0]]] @ share
        else:
            a, b = at[key[0]], at[key[1]]
            total[a] += view.classes.pair[a, b] @ share
            total[b] += view.classes.pair[b, a] @ share
    return total


def level(view, rows, rate):
    proportional = rate @ (view.capacity / view.capacity.sum())
    return rates(view, rows, rate) * view.gpus / (view.weight * proportional)


def makespan(view, rows, rate):
    return (view.steps_left / np.maximum(rates(view, rows, rate), 1e-300)).max()


def unfairness(view, rows, rate, weight):
    part = view.capacity / len(view) / view.gpus[:, None]
    part = part / np.maximum(1, part.sum(axis=1))[:, None]
    isolated = (rate * part).sum(axis=1)
    finish = view.age + view.steps_left / np.maximum(rates(view, rows, rate) / weight, 1e-300)
    return (finish / (view.steps_left / isolated)).max()


def reference(view):
    return np.repeat(view.throughput[:, [2]], 3, axis=1)


def assert_feasible(view, rows):
    at = {int(i): k for k, i in enumerate(view.jobs)}
    time, used = np.zeros(len(view)), np.zeros(3)
    for key, share in rows.items():
        assert (share >= 0).all()
        for i in key:
            time[at[i]] += share.sum()
        used += view.gpus[at[key[0]]] * share
    assert (time <= 1 + 1e-7).all()
    assert (used <= view.capacity * (1 + 1e-7)).all()


def both(instance, name):
    view = view_of(instance)
    mine, objective = ours(name, view)
    assert_feasible(view, mine)
    return view, mine, objective, theirs(instance, name)


each_instance = pytest.mark.parametrize("instance", instances(), ids=lambda i: f"{i['n']}-jobs-seed-{i['seed']}")


@each_instance
@pytest.mark.parametrize("name", ["max_min_fairness", "max_min_fairness_perf", "max_min_fairness_packed"])
def test_the_worst_level_equals_that_of_the_artifact(instance, name):
    view, mine, objective, other = both(instance, name)
    rate = np.ones(view.throughput.shape) if name == "max_min_fairness" else view.throughput

    assert level(view, mine, rate).min() == pytest.approx(objective, rel=1e-8)
    if other is None:
        pytest.skip(f"the artifact fails here: {instance['results'][name]['error']}")
    assert objective == pytest.approx(level(view, other, rate).min(), rel=1e-6)


@each_instance
@pytest.mark.parametrize("name", ["finish_time_fairness", "finish_time_fairness_perf", "finish_time_fairness_packed"])
def test_the_worst_finish_time_ratio_equals_that_of_the_artifact(instance, name):
    view, mine, objective, other = both(instance, name)
    rate = reference(view) if name == "finish_time_fairness" else view.throughput
    weight = view.weight if name.endswith("packed") else np.ones(len(view))

    assert unfairness(view, mine, rate, weight) == pytest.approx(objective, rel=1e-7)
    if other is None:
        pytest.skip(f"the artifact fails here: {instance['results'][name]['error']}")
    assert objective == pytest.approx(unfairness(view, other, rate, weight), rel=1e-6)


@each_instance
@pytest.mark.parametrize("name", ["min_total_duration", "min_total_duration_perf", "min_total_duration_packed"])
def test_the_makespan_is_at_most_that_of_the_artifact_which_bisects_to_five_percent(instance, name):
    view, mine, objective, other = both(instance, name)
    rate = reference(view) if name == "min_total_duration" else view.throughput

    assert makespan(view, mine, rate) == pytest.approx(objective, rel=1e-8)
    if other is None:
        pytest.skip(f"the artifact fails here: {instance['results'][name]['error']}")
    published = makespan(view, other, rate)
    assert objective <= published * (1 + 1e-6)
    assert objective >= published / 1.06


@each_instance
def test_the_total_throughput_equals_that_of_the_artifact(instance):
    view, mine, objective, other = both(instance, "max_sum_throughput_perf")

    assert rates(view, mine).sum() == pytest.approx(objective, rel=1e-8)
    assert objective == pytest.approx(rates(view, other).sum(), rel=1e-6)


WATER = [
    "max_min_fairness_water_filling",
    "max_min_fairness_water_filling_perf",
    "max_min_fairness_water_filling_packed",
]


@each_instance
@pytest.mark.parametrize("name", WATER)
def test_water_filling_reaches_the_levels_of_the_artifact_and_its_lowest_is_not_worse(instance, name):
    view, mine, objective, other = both(instance, name)
    rate = np.ones(view.throughput.shape) if name == WATER[0] else view.throughput
    levels = np.sort(level(view, mine, rate))

    assert levels[0] == pytest.approx(objective, rel=1e-7)
    if other is None:
        pytest.skip(f"the artifact fails here: {instance['results'][name]['error']}")
    published = np.sort(level(view, other, rate))
    assert levels[0] >= published[0] * (1 - 1e-6)
    assert levels == pytest.approx(published, rel=1e-6)
