"""What must not change a run: what things are called, in which order they are listed; and what may only help."""

from __future__ import annotations

import dataclasses
import functools
import itertools

import numpy as np
import pytest
from situations import CATALOGUE, MECHANISMS, POLICIES, largest_job

import rota
from builders import a_run
from rota import clusters, profiles
from rota.core.cluster import AcceleratorType, Cluster, Resources, Server
from rota.core.events import Planned
from rota.core.jobs import table
from rota.core.rules import Rules

every_policy = pytest.mark.parametrize("policy", POLICIES)
every_mechanism = pytest.mark.parametrize("mechanism", MECHANISMS)
every_seed = pytest.mark.parametrize("seed", range(2))

AWARE_RANKINGS = ["drf-perf", "ftf-perf", "las-perf", "srsf-perf", "srtf-perf", "tetris-perf"]
BLIND_RANKINGS = ["fifo", *(name.removesuffix("-perf") for name in AWARE_RANKINGS)]


class Renamed:
    """A catalogue in which types have other names."""

    def __init__(self, known, names):
        self.name = known.name
        self.names = tuple(reversed(known.names))
        self.types = tuple(names)
        self._known = known
        self._old = {new: old for old, new in names.items()}

    def rate(self, profile, gpus, type_, *, spread=False):
        return self._known.rate(profile, gpus, self._old[type_], spread=spread)

    def pair_rate(self, profile, partner, gpus, type_):
        return self._known.pair_rate(profile, partner, gpus, self._old[type_])

    def known(self, profile):
        return self._known.known(profile)

    def step_s(self, profile, gpus, type_):
        return self._known.step_s(profile, gpus, self._old[type_])

    def sensitivity(self, profile, gpus, type_):
        return self._known.sensitivity(profile, gpus, self._old[type_])


TYPES = {"v100": "a", "p100": "c", "k80": "b"}
"""Another alphabet."""


def a_cluster_of(rng, types, shapes):
    """Servers of unequal sizes in any order; the same GPUs for the same rng."""
    servers = [
        Server(id=f"{t}-{n}", type=t, capacity=Resources(*shapes[rng.integers(len(shapes))]))
        for t in types
        for n in range(int(rng.integers(1, 4)))
    ]
    prices = tuple(AcceleratorType(name=t, hourly_price=1.0 + n) for n, t in enumerate(types))
    return Cluster(name="any", servers=tuple(servers), accelerators=prices)


def another_listing(cluster, names):
    """The same machines with other names, in another order."""
    servers = [
        dataclasses.replace(s, id=f"m{900 - n}", type=names.get(s.type, s.type)) for n, s in enumerate(cluster.servers)
    ]
    kinds = [dataclasses.replace(a, name=names.get(a.name, a.name)) for a in cluster.accelerators]
    return Cluster(name="other", servers=tuple(servers[::-1]), accelerators=tuple(kinds[::-1]))


def some_table(rng, catalogue, reference, *, largest, count=11, tenants=("x", "y")):
    """Jobs of the catalogue; no two arrive at once, because of two that do the first in the list is the older one."""
    kinds = [
        (name, gpus)
        for name in catalogue.names
        for gpus in (1, 2, 4)
        if gpus <= largest and gpus in (catalogue.gpu_counts(name) or (gpus,))
    ]
    kinds = [k for k in kinds if catalogue.measured(k[0], k[1], reference)]
    drawn = [kinds[i] for i in rng.integers(len(kinds), size=count)]
    seconds = rng.choice([200.0, 1500.0, 4000.0, 15000.0], count) * rng.uniform(0.8, 1.2, count)
    return table(
        profile_names=[name for name, _ in drawn],
        gpus=[gpus for _, gpus in drawn],
        total_steps=[s * catalogue.measured(*k, reference) for s, k in zip(seconds, drawn, strict=True)],
        submitted=np.sort(rng.uniform(0.0, 6000.0, count)),
        weight=rng.choice([1.0, 2.0], count),
        duration=seconds,
        slo=rng.choice([np.nan, 1.2, 10.0], count),
        tenant_names=[tenants[i] for i in rng.integers(2, size=count)],
    )


def numbers(result):
    """All that a run says of its jobs and of itself, without names and without what it cost to compute."""
    told = {
        key: value
        for key, value in result.summary.items()
        if isinstance(value, int | float) and key not in {"wall_s", "cpu_s", "peak_rss_mb", "rounds_per_second"}
    }
    return result.jobs["finish_s"].tolist(), told


def run(policy, mechanism, jobs, cluster, catalogue, **options):
    return rota.simulate(
        jobs=jobs, cluster=cluster, policy=policy, mechanism=mechanism, profiles=catalogue, seed=3, **options
    )


def assert_same_run(one, other):
    finished, told = numbers(one)
    finished_too, told_too = numbers(other)
    np.testing.assert_allclose(finished, finished_too, rtol=1e-9)
    assert told == pytest.approx(told_too, rel=1e-9, nan_ok=True)


@every_seed
@every_mechanism
@every_policy
def test_names_and_listing_decide_nothing_on_several_types(policy, mechanism, seed):
    rng = np.random.default_rng(seed)
    cluster = a_cluster_of(rng, ("v100", "p100", "k80"), [(4, 16, 128), (2, 8, 64), (4, 8, 64)])
    largest = min(largest_job(policy), 2)
    jobs = some_table(np.random.default_rng([seed, 1]), CATALOGUE, "v100", largest=largest)
    called_otherwise = some_table(
        np.random.default_rng([seed, 1]), CATALOGUE, "v100", largest=largest, tenants=("n", "c")
    )

    one = run(policy, mechanism, jobs, cluster, CATALOGUE)
    other = run(policy, mechanism, called_otherwise, another_listing(cluster, TYPES), Renamed(CATALOGUE, TYPES))

    assert_same_run(one, other)


SENSITIVE = profiles.load("synergy")


@every_mechanism
@pytest.mark.parametrize(
    "policy", [name for name in POLICIES if "unified" in name or name in AWARE_RANKINGS + BLIND_RANKINGS]
)
def test_names_and_listing_decide_nothing_where_cpus_matter(policy, mechanism):
    rng = np.random.default_rng(5)
    cluster = a_cluster_of(rng, ("v100",), [(4, 12, 250), (4, 24, 250), (2, 12, 125)])
    jobs = some_table(np.random.default_rng(6), SENSITIVE, "v100", largest=1, count=16)
    names = {"v100": "zz"}

    one = run(policy, mechanism, jobs, cluster, SENSITIVE)
    other = run(policy, mechanism, jobs, another_listing(cluster, names), Renamed(SENSITIVE, names))

    assert_same_run(one, other)


@functools.cache
def alone(policy, cluster, restart_s=0.0):
    jobs = table(profile_names=["ResNet-50 (batch size 64)"], gpus=[1], total_steps=[20_000.0], submitted=[100.0])
    result = run(policy, "proportional", jobs, cluster, CATALOGUE, rule_settings={"restart_s": restart_s})
    return float(result.jobs["finish_s"][0])


MORE = ("v100=1", "v100=1,k80=1", "v100=2,k80=1", "v100=2,k80=16", "v100=2,p100=3,k80=16")
TYPE_BLIND = {
    "fifo", "drf", "ftf", "las", "srsf", "srtf", "tetris", "isolated", "proportional", "finish-time-fairness",
    "gandiva", "max-min-fairness", "max-min-fairness-water-filling", "min-total-duration", "pop",
}  # fmt: skip


@pytest.mark.parametrize("restart_s", [0.0, 60.0])
@pytest.mark.parametrize("policy", [name for name in POLICIES if name not in TYPE_BLIND and "cost" not in name])
def test_a_lone_job_is_never_slower_for_more_idle_gpus(policy, restart_s):
    seconds = [alone(policy, cluster, restart_s) for cluster in MORE]

    assert all(later <= before * (1 + 1e-9) for before, later in itertools.pairwise(seconds))


@pytest.mark.parametrize("policy", sorted(TYPE_BLIND))
def test_without_types_a_lone_job_is_as_fast_as_the_types_it_may_get(policy):
    """A policy that sees no types may put it on a slow one, but more GPUs of the same type change nothing."""
    assert alone(policy, "v100=1") == alone(policy, "v100=16")
    assert alone(policy, "v100=1") <= alone(policy, "v100=1,k80=1") <= alone(policy, "k80=1") * (1 + 1e-9)


def idle_gpus(placement, view):
    used = np.bincount(placement.type, weights=placement.gpus, minlength=len(view.types))
    return view.capacity - used.astype(int)


def better_and_idle(placement, view, restart_s):
    """(job, type where it is, idle type where it would end sooner) of every task."""
    free = idle_gpus(placement, view)
    left = view.steps_left
    rates = view.throughput
    for job, here, gpus in zip(placement.first.tolist(), placement.type.tolist(), placement.gpus.tolist(), strict=True):
        at = int(view.position(np.array([job]))[0])
        for there in np.flatnonzero((free >= gpus) & (rates[at] > rates[at, here])).tolist():
            if left[at] / rates[at, there] + restart_s < left[at] / rates[at, here] - 1e-6:
                yield job, view.types[here], view.types[there]


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("restart_s", [0.0, 100.0])
@pytest.mark.parametrize("policy", AWARE_RANKINGS)
def test_nobody_stays_on_a_slower_type_while_a_faster_one_is_idle_and_moving_pays(policy, restart_s, seed):
    rng = np.random.default_rng(seed)
    machines = clusters.in_order(
        a_cluster_of(rng, ("v100", "p100", "k80"), [(4, 16, 128), (2, 8, 64), (4, 8, 64)]), CATALOGUE
    )
    jobs = some_table(np.random.default_rng([seed, 2]), CATALOGUE, "v100", largest=2, count=14)
    rules = Rules(restart_s=restart_s, spread_costs=False)
    looked_at = 0

    def look(event, run):
        nonlocal looked_at
        if isinstance(event, Planned):
            looked_at += 1
            assert list(better_and_idle(event.plan.placement, run.state.view(event.at), restart_s)) == []

    a_run(jobs, cluster=machines, policy=policy, rules=rules, speeds=CATALOGUE, observe=look)
    assert looked_at > 5


@every_policy
def test_no_gpu_is_idle_while_a_job_waits_that_it_could_run(policy):
    machines = clusters.in_order(a_cluster_of(np.random.default_rng(8), ("v100", "k80"), [(4, 16, 128)]), CATALOGUE)
    jobs = some_table(np.random.default_rng(9), CATALOGUE, "v100", largest=1, count=30)
    idle_beside_queue = 0

    def look(event, run):
        nonlocal idle_beside_queue
        # Between two rounds two jobs that share GPUs go on sharing, and fifo-packed lets nobody else overtake them.
        if isinstance(event, Planned) and (policy != "fifo-packed" or event.at % run.state.rules.round_s == 0):
            placement = event.plan.placement
            waiting = len(run.state.view(event.at)) - len(placement) - int((placement.second >= 0).sum())
            idle_beside_queue += bool(waiting > 0 and idle_gpus(placement, run.state.view(event.at)).any())

    a_run(jobs, cluster=machines, policy=policy, speeds=CATALOGUE, observe=look)
    assert idle_beside_queue == 0


def test_servers_that_differ_in_labels_alone_may_be_listed_in_any_order():
    plain, labelled = (
        Server(id="a", type="v100", capacity=Resources(4, 16, 128)),
        Server(id="b", type="v100", capacity=Resources(4, 16, 128), labels=("zone=a",)),
    )
    listings = [Cluster(name="any", servers=servers) for servers in ((plain, labelled), (labelled, plain))]

    orders = [clusters.in_order(cluster, CATALOGUE).servers for cluster in listings]

    assert orders == [(plain, labelled), (plain, labelled)]
