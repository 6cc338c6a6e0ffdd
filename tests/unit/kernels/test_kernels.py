"""The two halves of every kernel give the same answers to the bit."""

import copy
import json
import os
import subprocess
import sys
from collections import Counter

import numpy as np
import pytest
from scipy.optimize import linear_sum_assignment

from rota import kernels
from rota.kernels import plain, plain_types, queues
from rota.mechanisms.divide import packing as packing_module
from rota.mechanisms.divide.layout import Layout
from rota.mechanisms.divide.packing import Packing
from rota.mechanisms.divide.tune import _Squeeze

try:
    from rota.kernels import _compiled
except ImportError:
    _compiled = None

compiled = pytest.mark.skipif(_compiled is None, reason="the compiled kernels were not built here (no C compiler)")
SEEDS = range(40)


def draw(seed):
    return np.random.default_rng(seed)


def both(name, *arguments):
    """What each half returns and leaves in its arrays."""
    answers = []
    for half in (plain if hasattr(plain, name) else plain_types, _compiled):
        mine = copy.deepcopy(arguments)
        answers.append((getattr(half, name)(*mine), [a for a in mine if isinstance(a, np.ndarray)]))
    return answers


def same(name, *arguments):
    (one, left), (two, right) = both(name, *arguments)
    assert one == two
    for mine, other in zip(left, right, strict=True):
        np.testing.assert_array_equal(mine, other)
    return one


@compiled
@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("flags", [0, 1, 2, 3, 5, 7])
def test_who_is_chosen(seed, flags):
    rng, types, classes = draw(seed), 3, 5
    jobs = int(rng.integers(1, 60))
    throughput = rng.random((classes, types)).round(1) + 0.1
    throughput[rng.random((classes, types)) < 0.2] = 0.0
    throughput[:, 0] = 1.0
    share = rng.integers(0, 4, (types, jobs)) / 4.0
    received = 180.0 + 360.0 * rng.integers(0, 3, (types, jobs)) * (seed % 3 > 0)
    rows, kinds = np.full(jobs, -1), np.full(jobs, -1)

    count, crowded = same(
        "choose_ones",
        rng.permutation(types),
        rng.integers(0, 1 + jobs // 2, types),
        throughput > 0,
        rng.integers(0, classes, jobs),
        np.sort(rng.choice(1000, jobs, replace=False)),
        share,
        received * (seed % 5 > 0),
        rng.integers(-2, 3, (types, jobs)) * 100.0,
        throughput,
        received.sum(axis=1),
        rows,
        kinds,
        flags,
    )

    assert 0 <= count <= jobs
    assert crowded in (True, False)


@compiled
@pytest.mark.parametrize("seed", SEEDS)
def test_who_stays(seed):
    rng, jobs = draw(seed), 30
    last = rng.permutation(jobs)[: int(rng.integers(1, jobs))]
    last_task = np.full(jobs, -1)
    last_task[last] = np.arange(len(last))
    last_type = rng.integers(0, 2, len(last))
    rows, kinds = (last, last_type) if seed % 4 == 0 else (rng.permutation(jobs)[:20], rng.integers(0, 2, 20))
    tasks = len(rows)

    again = same("stay", rows, kinds, last_task, last_type, np.zeros(tasks, dtype=int), np.zeros(tasks, dtype=bool))

    assert again == (seed % 4 == 0)


@compiled
@pytest.mark.parametrize("seed", SEEDS)
def test_what_tasks_do(seed):
    rng, active, tasks, types = draw(seed), 40, 25, 3
    ids = np.sort(rng.choice(500, active, replace=False))
    at = rng.permutation(active)[:tasks]
    throughput = rng.random((4, types)) * 10
    kinds, gpus = rng.integers(0, types, tasks), 2 ** rng.integers(0, 4, tasks)
    speed = rng.random(tasks) + 0.5 if seed % 2 else np.zeros(0)
    column = lambda: np.zeros(tasks)
    steps = column() if seed % 3 else np.zeros(0)
    same(
        "look_up",
        ids[at],
        kinds,
        ids,
        rng.integers(0, 4, active),
        throughput,
        rng.random(active) * 1e5,
        rng.random(active) * 1e4,
        speed,
        1 / throughput,
        column(),
        column(),
        steps,
        types,
        300.0,
    )

    rate = rng.random(tasks) * (0.001 if seed % 5 == 0 else 10)
    left = np.floor(rng.random(tasks) * 20000) + 1
    same("slowest_full", rate, left, 360.0)
    starts = 1e6 + np.cumsum(rng.random(4) * 360)
    same("slowest_many", rate, left, starts, np.zeros((5, tasks)), column(), column(), 360.0, 1e6 - 17.3)
    for fails in (True, False):
        same("slowest_one", rate, left, gpus, column(), column(), column(), 360.0, 1e6 / 3, 1e6 / 7, fails)
    same("whole", np.maximum(np.floor(rate * 300), 1), left, column(), 1 + seed % 3)


@compiled
def test_a_round_in_which_nobody_ran():
    none, times = np.zeros(0, dtype=int), np.zeros(0)
    columns = (np.ones(4), np.ones(4), np.ones(4), np.ones((3, 4)), np.ones(3))
    same("book", none, none, none, times, times, times, *columns, 1.0)


@compiled
@pytest.mark.parametrize(
    ("seed", "types"),
    [*((seed, 1 + seed % 5) for seed in range(200)), (200, 65), (201, 100)],
)
def test_on_which_type_a_ranking_runs(seed, types):
    rng = draw(seed)
    jobs, classes = int(rng.integers(0, 60)), int(rng.integers(1, 8))
    rate = rng.random((classes, types)).round(1 + seed % 2) * (rng.random((classes, types)) > 0.2)
    rate[:, 0] += 0.1
    wish = (-rate).argsort(axis=1, kind="stable")
    wish = np.where(np.take_along_axis(rate, wish, axis=1) > 0, wish, -1)
    value = np.repeat((rate / rate.max(axis=1, keepdims=True))[:, None, :], types + 1, axis=1)
    value *= 1.0 if seed % 3 else 0.9
    value = np.where((rate > 0)[:, None, :], value, -np.inf)
    job_class = rng.integers(0, classes, jobs)
    gpus = rng.choice([1, 1, 2, 4] if seed % 4 else [1], classes)[job_class]
    last = rng.integers(-1, types, jobs)
    last = np.where((last >= 0) & (rate[job_class, last] > 0), last, -1)
    queue = rng.permutation(jobs)[: int(rng.integers(0, jobs + 1))]
    free = rng.integers(0, 12, types)
    rows, kinds = np.full(jobs, -1), np.full(jobs, -1)
    placed, sizes = np.zeros(value.shape, dtype=int), np.zeros(value.shape[:2], dtype=int)

    (count, left), (other, right) = both(
        "by_speed", queue, gpus, job_class, wish, value, last, free, rows, kinds, placed, sizes
    )
    assert count == other
    for mine, theirs in zip(left[:9], right[:9], strict=True):  # the rest is scratch
        np.testing.assert_array_equal(mine, theirs)
    ids = np.sort(rng.choice(1000, jobs, replace=False))
    same("by_chance", queue, gpus, job_class, ids, rate > 0, last, free, rows, kinds, int(rng.integers(0, 2**62)))


@compiled
@pytest.mark.parametrize("seed", SEEDS)
def test_what_is_booked(seed):
    rng, active, tasks, types = draw(seed), 40, 25, 3
    rows, kinds, gpus = rng.permutation(active)[:tasks], rng.integers(0, types, tasks), rng.integers(1, 5, tasks)
    each = rng.random((3, tasks)) * 360
    received, type_time = rng.random((types, active)) * 1e4, rng.random(types) * (1e6 if seed % 2 else 0)
    done, attained = rng.random(active) * 1e5, rng.random(active) * 1e5
    time = np.zeros(0) if seed % 4 == 0 else type_time
    seconds = each.sum(axis=0)
    steps, ran = rng.random(tasks) * 100, rng.random(active)
    same("book", rows, kinds, gpus, steps, seconds, each, done, attained, ran, received, time, 1e5 * rng.random())
    first = rng.permutation(60)
    second = np.where(rng.random(tasks) < 0.3, first[tasks : 2 * tasks], -1)
    for room in (60, 20):
        beside = (rng.random(tasks), rng.random(tasks)) if seed % 2 else (np.zeros(0), np.zeros(0))
        totals = (np.zeros(room), np.zeros(room), rng.random(types), rng.random(types), rng.random(2))
        charged = same("charge", first[:tasks], second, kinds, gpus, seconds, rng.random(types), *beside, *totals)
        assert charged == (room == 60)

    queue = rng.permutation(active)
    same("by_gpus", queue, rng.integers(1, 9, active), np.zeros(active, dtype=int), int(rng.integers(0, 60)))
    put = rng.permutation(tasks)[: int(rng.integers(0, tasks))]
    config = rng.integers(0, 9, len(put))
    same(
        "arrange",
        rng.permutation(active)[:tasks],
        rng.integers(0, 3, tasks),
        put,
        config,
        np.sort(rng.choice(1000, active, replace=False)),
        rng.integers(1, 9, active),
        rng.integers(-1, 2, active),
        rng.random(10),
        rng.random(10),
        rng.random(10),
        np.zeros((4, len(put)), dtype=int),
        np.zeros((3, len(put))),
        np.zeros(len(put), dtype=bool),
    )


@compiled
@pytest.mark.parametrize("seed", SEEDS)
def test_columns_that_are_added_and_taken_out(seed):
    rng = draw(seed)
    before, new, rows = int(rng.integers(0, 20)), int(rng.integers(1, 4)), 7
    old = rng.random((rows, before))
    given = [rng.random(new) for _ in range(3)]
    same(
        "append",
        old[:4],
        old[4:],
        rng.random((rows, 1)),
        np.zeros((rows, before + new)),
        rng.permutation(rows)[:3],
        *given,
    )
    numbers = rng.integers(0, 99, (rows, before))
    gone = np.sort(rng.choice(before, int(rng.integers(0, before + 1)), replace=False))
    for table in (old, numbers, np.asfortranarray(old)):
        same("without", table[:4], table[4:], gone, np.zeros((rows, before - len(gone)), dtype=table.dtype), rows)


@compiled
@pytest.mark.parametrize("divided", [True, False])
@pytest.mark.parametrize("wrong", [None, "job", "type"])
@pytest.mark.parametrize("seed", SEEDS)
def test_who_has_which_task(seed, wrong, divided):
    rng, active, classes, types = draw(seed), 30, 4, 3
    jobs = np.sort(rng.choice(1000, active, replace=False))
    first = rng.choice(jobs, int(rng.integers(1, active)), replace=False)
    kinds, given = rng.integers(0, types, len(first)), rng.random(len(first)) + 0.5
    at = int(rng.integers(0, len(first)))
    if wrong == "job":
        first[at] = rng.choice(np.setdiff1d(np.arange(-5, 1005), jobs))
    if wrong == "type":
        kinds[at] = rng.choice([-1, types])
    best = rng.random(classes) if seed % 2 else np.zeros(0)
    rows, last, speed = np.zeros(len(first), dtype=int), np.zeros(active, dtype=int), rng.random(active)
    group = rng.integers(0, classes, active)

    (one, left), (two, right) = both("seat", jobs, group, first, kinds, best, given, rows, last, speed, types, divided)

    assert one == two == (len(first) if wrong is None else at)
    np.testing.assert_array_equal(left[6][:one], right[6][:one])
    np.testing.assert_array_equal(left[7], right[7])
    np.testing.assert_array_equal(left[8], right[8])


@compiled
@pytest.mark.parametrize("seed", SEEDS)
def test_what_is_an_order(seed):
    rng, count = draw(seed), 20
    order = rng.permutation(count)
    twice = np.where(np.arange(count) == 3, order[5], order)
    outside = np.where(np.arange(count) == 3, rng.choice([-1, count, 1 << 40]), order)

    assert same("is_permutation", order, count)
    assert same("is_permutation", order[:0], 0)
    assert not same("is_permutation", order[1:], count)
    assert not same("is_permutation", twice, count)
    assert not same("is_permutation", outside, count)


@compiled
@pytest.mark.parametrize("gone", [[3, 1], [1, 1], [-1], [5]])
def test_columns_that_are_not_there_cannot_be_taken_out(gone):
    gone = np.array(gone)
    with pytest.raises(IndexError, match="of 5"):
        _compiled.without(np.zeros((1, 5)), np.zeros((1, 5)), gone, np.zeros((2, 5 - len(gone))), 2)


class _Holdings:
    """Rows as a packing sees them."""

    known = None

    def __init__(self, rng, classes, size):
        fair = np.column_stack([3.0 * size, 62.5 * size])
        full = fair * rng.choice([0.3, 1.0, 1.7, 3.0], (classes, 2))
        self.cpus, self.memory_gb = np.concatenate([fair, full]).T.copy()


def _packing(holdings, *, half, monkeypatch):
    monkeypatch.setattr(packing_module.kernels, "walk", half)
    gpus = np.full(8, 8)
    packing = Packing(gpus, gpus * 3.0, gpus * 62.5, (3.0, 62.5))
    packing.begin(holdings, consolidate=False, balance=False)
    return packing


def _state_of(packing):
    state = [*packing.columns, packing.task, packing.config, *map(np.array, (packing.gpus, packing.cpus))]
    return [part.copy() for part in (*state, np.array(packing.memory), np.array([packing.free]))]


@compiled
@pytest.mark.parametrize("squeezes", [True, False])
@pytest.mark.parametrize("seed", SEEDS)
def test_where_tasks_are_put(seed, squeezes, monkeypatch):
    rng, classes = draw(seed), 6
    size = np.where(np.arange(classes) < 3, 1, rng.choice([2, 4, 8, 16], classes))
    group = rng.integers(0, classes if seed % 2 else 3, 90)
    holdings, layouts = _Holdings(rng, classes, size), []
    for half in (None, _compiled.walk):
        packing = _packing(holdings, half=half, monkeypatch=monkeypatch)
        layout = object.__new__(Layout)
        layout.size, layout.cut, layout.full = size[group], group, group + classes
        squeeze = _Squeeze(layout, packing) if squeezes else None
        packing.walk(0, layout.size, layout.full, squeeze, layout.cut)
        layouts.append(_state_of(packing))

    for mine, other in zip(*layouts, strict=True):
        np.testing.assert_array_equal(mine, other)
    assert len(layouts[0][3]) > 0


@compiled
@pytest.mark.parametrize("seed", SEEDS)
def test_where_tasks_stay_while_others_make_room_and_the_rest_is_put(seed, monkeypatch):
    rng, classes = draw(seed), 6
    size = np.where(np.arange(classes) < 3, 1, rng.choice([2, 4, 8, 16], classes))
    holdings = _Holdings(rng, classes, size)
    before = rng.integers(0, classes, 60)
    packing = _packing(holdings, half=None, monkeypatch=monkeypatch)
    packing.walk(0, size[before], before, None, before)  # shares only: everywhere a wish may follow
    start, server, gpus = (column.copy() for column in packing.columns)
    stayed = before[packing.task]
    stays = int(rng.integers(0, len(stayed))) + 1
    group = np.concatenate([stayed[:stays], rng.integers(0, classes, 40)])
    layouts = []
    for half in (None, _compiled.walk):
        packing = _packing(holdings, half=half, monkeypatch=monkeypatch)
        layout = object.__new__(Layout)
        layout.size, layout.cut, layout.full = size[group], group, group + classes
        used = start[stays]
        layout.stay = (start[: stays + 1], server[:used], gpus[:used])
        packing.walk(0, layout.size, layout.full, _Squeeze(layout, packing), layout.cut, layout.stay)
        layouts.append(_state_of(packing))

    for mine, other in zip(*layouts, strict=True):
        np.testing.assert_array_equal(mine, other)
    assert (layouts[0][1][:used] == server[:used]).all()
    assert len(layouts[0][3]) >= stays


def _some_work(rng, kind):
    """Seconds of jobs by type, workers by type, and an order of jobs: by chance, by class, or with many equals."""
    jobs, types = int(rng.integers(1, 40)), int(rng.integers(1, 5))
    workers = rng.integers(0, 6, types)
    workers[rng.integers(types)] += 1
    seconds = {
        "chance": rng.uniform(1, 100, (jobs, types)),
        "classes": 10 ** rng.uniform(1, 4, (jobs, 1)) * rng.uniform(0.1, 1, (5, types))[rng.integers(0, 5, jobs)],
        "equals": rng.integers(1, 5, (jobs, types)).astype(float),
    }[kind]
    longest_first = (-seconds[:, workers > 0].min(axis=1)).argsort(kind="stable")
    return seconds, workers, longest_first if rng.integers(2) else rng.permutation(jobs)


def _cheapest(seconds, workers):
    """The cost of the cheapest matching of jobs to (worker, place), with the whole matrix."""
    jobs = len(seconds)
    places = [(kind, place) for kind, count in enumerate(workers) for place in range(1, jobs + 1) for _ in range(count)]
    kind, place = np.array(places).T
    cost = place * seconds[:, kind]
    return cost[linear_sum_assignment(cost)].sum()


@pytest.mark.parametrize("half", ["plain", pytest.param("compiled", marks=compiled)])
@pytest.mark.parametrize("kind", ["chance", "classes", "equals"])
@pytest.mark.parametrize("seed", range(10))
def test_no_queues_are_cheaper(seed, kind, half):
    seconds, workers, order = _some_work(draw(seed), kind)
    gpu_type, place = np.full((2, len(seconds)), -1)

    (queues.queue_up if half == "plain" else _compiled.queue_up)(seconds, workers, order, gpu_type, place)

    cost = (place * seconds[np.arange(len(seconds)), gpu_type]).sum()
    assert cost == pytest.approx(_cheapest(seconds, workers), rel=1e-9)
    taken = Counter(zip(gpu_type.tolist(), place.tolist(), strict=True))
    assert all(count <= workers[kind] for (kind, _), count in taken.items())


@compiled
@pytest.mark.parametrize("kind", ["chance", "classes", "equals"])
@pytest.mark.parametrize("seed", range(10))
def test_who_queues_where(seed, kind):
    seconds, workers, order = _some_work(draw(seed), kind)
    mine, other = np.full((2, 2, len(seconds)), -1)

    queues.queue_up(seconds, workers, order, *mine)
    _compiled.queue_up(seconds, workers, order, *other)

    np.testing.assert_array_equal(mine, other)


SETTINGS = {
    "gavel-continuous": ["interarrival_s=9000", "multi_gpu=true"],
    "philly-derived": ["jobs_per_hour=1.5", "multi_gpu=true"],
}
RUNS = [
    ("gavel-continuous", "v100=6/1,p100=6/1,k80=6/1", "max-min-fairness-perf", "strided", "gavel-artifact"),
    ("gavel-continuous", "v100=6/1,p100=6/1,k80=6/1", "gandiva", "strided", "gavel-artifact"),
    ("gavel-continuous", "v100=8/4,k80=8/4", "finish-time-fairness-perf", "proportional", "default"),
    ("philly-derived", "synergy-32", "las", "tune", "default"),
    ("philly-derived", "synergy-32", "srtf", "tune", "synergy-artifact"),
    ("philly-derived", "synergy-32", "fifo", "greedy", "default"),
]


@compiled
@pytest.mark.parametrize("run", RUNS, ids=lambda run: "-".join(run[2:]))
def test_whole_runs_are_the_same_with_either_half(run, tmp_path):
    workload, cluster, policy, mechanism, rules = run
    found = []
    for half in ("plain", "compiled"):
        log = tmp_path / f"{half}.jsonl"
        command = [
            *(sys.executable, "-m", "rota.cli", "simulate", "--workload", workload, "--cluster", cluster),
            *("--policy", policy, "--mechanism", mechanism, "--rules", rules, "--measure", "20:60"),
            *(part for setting in SETTINGS[workload] for part in ("--set", setting)),
            *("--events", str(log), "--json"),
        ]
        done = subprocess.run(
            command, capture_output=True, text=True, check=True, env={**os.environ, "ROTA_KERNELS": half}, timeout=120
        )
        summary = json.loads(done.stdout)
        found.append((log.read_bytes(), summary["cost"], summary["utilization"], summary["mean_jct_s"]))

    assert found[0] == found[1]


def test_what_is_in_use():
    assert (_compiled is not None and os.environ.get("ROTA_KERNELS") != "plain") == kernels.COMPILED
