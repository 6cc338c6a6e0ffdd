"""Machines as values and as columns."""

import numpy as np
import pytest

from rota.core.cluster import AcceleratorType, Cluster, Resources, Server, uniform
from rota.core.errors import ConfigError


def test_types_are_alphabetical_and_servers_are_grouped_by_type():
    cluster = uniform("c", [("v100", 4, 2), ("k80", 2, 2)])

    assert cluster.types == ("k80", "v100")
    assert [s.id for s in cluster.ordered] == ["k80-0", "v100-0", "v100-1"]
    assert cluster.server_type.tolist() == [0, 1, 1]
    assert cluster.server_bounds == [0, 1, 3]


def test_capacity_is_counted_by_type():
    cluster = uniform("c", [("v100", 4, 2), ("k80", 2, 2)])

    assert cluster.capacity.tolist() == [2, 4]
    assert cluster.gpus == 6


def test_a_last_server_takes_the_remainder():
    cluster = uniform("c", [("v100", 10, 4)])

    assert cluster.server_gpus.tolist() == [4, 4, 2]


def test_a_type_without_a_gpu_does_not_exist():
    servers = (
        Server(id="a", type="v100", capacity=Resources(gpus=2)),
        Server(id="b", type="cpu-only", capacity=Resources(cpus=8.0)),
    )

    assert Cluster(name="c", servers=servers).types == ("v100",)


@pytest.mark.parametrize("groups", [[], [("v100", 0, 4)]])
def test_a_cluster_without_a_gpu_is_refused(groups):
    with pytest.raises(ConfigError, match="has no GPU"):
        uniform("empty", groups)


def test_prices_come_from_the_accelerators_and_are_not_made_up_where_unknown():
    known = (AcceleratorType(name="v100", hourly_price=2.5),)

    cluster = uniform("c", [("v100", 1, 1), ("k80", 1, 1)], known)

    assert np.isnan(cluster.prices[0])
    assert cluster.prices[1] == 2.5
    assert cluster.unpriced == ("k80",)


def test_resources_add_subtract_and_compare_by_component():
    server, half = Resources(8, 32.0, 256.0, 100.0, 10.0), Resources(4, 16.0, 128.0, 50.0, 5.0)

    assert half + half == server
    assert server - half == half
    assert half.scaled(2) == server
    assert half <= server
    assert not server <= half
    assert not Resources(1, 99.0) <= server


def a_mixed_cluster():
    shapes = [
        ("v100", Resources(8, 24.0, 500.0, 500.0)),
        ("k80", Resources(4, 10.0, 61.0, 100.0)),
        ("v100", Resources(4, 16.0, 128.0, 500.0)),
        ("k80", Resources(2, 0.0, 244.0, 100.0)),
    ]
    return Cluster(name="c", servers=tuple(Server(id=f"s{i}", type=t, capacity=r) for i, (t, r) in enumerate(shapes)))


def test_amounts_of_servers_are_columns_in_the_order_of_the_servers():
    cluster = a_mixed_cluster()

    assert [s.id for s in cluster.ordered] == ["s1", "s3", "s0", "s2"]
    assert cluster.server_cpus.tolist() == [10.0, 0.0, 24.0, 16.0]
    assert cluster.server_memory_gb.tolist() == [61.0, 244.0, 500.0, 128.0]
    assert cluster.server_storage_mbps.tolist() == [100.0, 100.0, 500.0, 500.0]
    assert cluster.server_cpus.dtype == float


def test_the_fair_share_is_the_least_per_gpu_of_a_type_and_zero_if_a_server_is_unknown():
    cluster = a_mixed_cluster()

    assert cluster.fair_cpus.tolist() == [0.0, 3.0]
    assert cluster.fair_memory_gb.tolist() == [61 / 4, 32.0]
    assert cluster.fair_storage_mbps.tolist() == [25.0, 62.5]


def test_a_server_without_gpus_does_not_lower_the_fair_share_of_its_type():
    servers = (
        Server(id="a", type="v100", capacity=Resources(2, 8.0)),
        Server(id="b", type="v100", capacity=Resources(0, 1.0)),
    )

    assert Cluster(name="c", servers=servers).fair_cpus.tolist() == [4.0]


def test_servers_of_a_uniform_cluster_have_the_same_beside_their_gpus():
    cluster = uniform("c", [("v100", 10, 4), ("k80", 1, 1)], beside={"v100": Resources(cpus=24.0, memory_gb=96.0)})

    assert cluster.server_gpus.tolist() == [1, 4, 4, 2]
    assert cluster.server_cpus.tolist() == [0.0, 24.0, 24.0, 24.0]
    assert cluster.fair_memory_gb.tolist() == [0.0, 24.0]
