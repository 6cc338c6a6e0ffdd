"""Which amounts of CPUs and memory a policy may choose from."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from builders import a_cluster, a_view, some_jobs
from rota import clusters, profiles
from rota.core.cluster import Cluster, Resources, Server
from rota.core.rules import Rules

PIPELINE = profiles.load("pipeline")
SYNERGY = profiles.load("synergy")
CLUSTER = clusters.load("v100=16/8:cpus=24:memory=500,p100=8/8:cpus=24:memory=500,k80=8/8:cpus=24:memory=500")


def choices_of(model, gpus=1, cluster=CLUSTER, **more):
    view = a_view(some_jobs(1, profiles=[model], gpus=gpus), speeds=PIPELINE, cluster=cluster, **more)
    known = view.classes.configurations
    return known, [known.choices(0, t) for t in range(len(view.types))]


@pytest.mark.parametrize("gpus", [1, 4, 8, 16])
@pytest.mark.parametrize("model", ["res18", "res50", "lstm"])
def test_none_is_slower_than_the_share_or_worse_in_every_respect_or_more_than_a_server_has(model, gpus):
    known, by_type = choices_of(model, gpus)

    for kind, choices in enumerate(by_type):
        assert choices
        assert min(c.speed for c in choices) >= 1 - 1e-9
        assert max(c.speed for c in choices) == pytest.approx(known.speed[known.full[0, kind]])
        assert max(c.cpus for c in choices) <= 24 * max(1, gpus / 8)
        assert max(c.memory_gb for c in choices) <= 500 * max(1, gpus / 8)
        for one, other in itertools.permutations(choices, 2):
            assert one.speed > other.speed or one.cpus < other.cpus or one.memory_gb < other.memory_gb


def test_they_are_the_steps_from_the_share_to_full_speed():
    _, (k80, _, v100) = choices_of("res18")

    assert [c.cpus for c in k80] == [1]
    assert sorted({c.cpus for c in v100}) == [3, 4, 5, 6, 7, 8]


def test_asking_again_gives_the_same():
    known, first = choices_of("res18")

    assert [known.choices(0, t) for t in range(3)] == first


def test_without_cpus_in_the_cluster_there_is_only_the_share():
    known, by_type = choices_of("res18", cluster=a_cluster(v100=2))

    assert by_type == [(known.holding(known.fair[0, 0]),)]


def test_rules_with_two_speeds_offer_two_configurations_at_most():
    known, by_type = choices_of("res18", rules=Rules(speeds="two-valued"))

    for kind, choices in enumerate(by_type):
        assert set(choices) <= {known.holding(known.fair[0, kind]), known.holding(known.full[0, kind])}


def test_a_share_below_what_was_measured_rules_out_that_type_only():
    starved = clusters.load("v100=8/8:cpus=24:memory=500,p100=8/8:cpus=4:memory=500")
    jobs = some_jobs(2, profiles=["res18", "res50"])

    view = a_view(jobs, speeds=PIPELINE, cluster=starved)

    assert view.types == ("p100", "v100")
    for row in view.throughput:
        assert row[0] == 0.0
        assert row[1] > 0.0
    known = view.classes.configurations
    assert known.fair.shape == known.full.shape == (2, 2)  # a row per class, whatever was refused
    assert known.cpus[known.fair[1, 1]] == pytest.approx(3.0)


def uneven_servers(draw):
    """Servers of one type with CPUs and memory per GPU of their own."""
    sizes = [
        Resources(gpus, gpus * float(draw.integers(3, 9)), gpus * float(draw.integers(64, 129)))
        for gpus in draw.choice([1, 1, 2, 4], 2).tolist()
    ]
    servers = tuple(Server(id=f"s{number}", type="v100", capacity=size) for number, size in enumerate(sizes))
    return Cluster(name="uneven", servers=servers)


def fits(cluster, gpus, held):
    """Whether one empty server has it, or for a job larger than any server, every GPU has its part."""
    sizes = [server.capacity for server in cluster.servers]
    large = [size for size in sizes if size.gpus >= gpus]
    if not large:
        least = [min(getattr(size, name) / size.gpus for size in sizes) for name in ("cpus", "memory_gb")]
        return held.cpus <= gpus * least[0] + 1e-6 and held.memory_gb <= gpus * least[1] + 1e-6
    return any(held.cpus <= size.cpus + 1e-6 and held.memory_gb <= size.memory_gb + 1e-6 for size in large)


@pytest.mark.parametrize("speeds", ["measured", "two-valued"])
def test_one_server_has_all_that_a_job_would_like(speeds):
    """No job wants the CPUs of one server and the memory of another."""
    models = sorted({profile for profile, _, _ in SYNERGY.models})
    for seed in range(3):
        cluster = uneven_servers(np.random.default_rng(seed))
        jobs = some_jobs(3 * len(models), profiles=models * 3, gpus=np.repeat([1, 2, 8], len(models)))
        view = a_view(jobs, speeds=SYNERGY, cluster=cluster, rules=Rules(speeds=speeds))
        known = view.classes.configurations

        for group, gpus in enumerate(known.gpus):
            for held in (known.holding(known.full[group, 0]), *known.choices(group, 0)):
                assert fits(cluster, gpus, held), (seed, gpus, held)
