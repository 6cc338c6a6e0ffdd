"""Machines as values and as columns."""

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


def test_prices_come_from_the_accelerators_and_are_one_where_unknown():
    known = (AcceleratorType(name="v100", hourly_price=2.5),)

    assert uniform("c", [("v100", 1, 1), ("k80", 1, 1)], known).prices.tolist() == [1.0, 2.5]


def test_resources_add_subtract_and_compare_by_component():
    server, half = Resources(8, 32.0, 256.0, 100.0, 10.0), Resources(4, 16.0, 128.0, 50.0, 5.0)

    assert half + half == server
    assert server - half == half
    assert half.scaled(2) == server
    assert half <= server
    assert not server <= half
    assert not Resources(1, 99.0) <= server
