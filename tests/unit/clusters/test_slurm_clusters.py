"""Clusters as Slurm describes them."""

import pytest

from rota import clusters
from rota.core.errors import ConfigError

ONE_LINE = """\
NodeName=n1 Arch=x86_64 CPUEfctv=48 CPUTot=48 Gres=gpu:v100:4(S:0-1) RealMemory=262144 State=IDLE Partitions=gpu,all
NodeName=n2 CPUTot=64 Gres=gpu:a100:6,gpu:k80:2,nvme:1 RealMemory=524288 State=ALLOCATED Partitions=all
NodeName=n3 CPUTot=64 Gres=(null) RealMemory=524288 State=IDLE Partitions=all
NodeName=n4 CPUTot=64 Gres=gpu:v100:4 RealMemory=524288 State=FUTURE Partitions=gpu
"""
SEVERAL_LINES = """\
NodeName=n1 Arch=x86_64 CoresPerSocket=1
   CPUAlloc=0 CPUEfctv=48 CPUTot=48 CPULoad=2.23
   Gres=gpu:v100:4
   OS=Linux 6.1 #1 SMP
   RealMemory=262144 AllocMem=0
   State=IDLE ThreadsPerCore=1
   Partitions=gpu
"""


@pytest.fixture
def listed(tmp_path):
    def write(text):
        path = tmp_path / "nodes.txt"
        path.write_text(text)
        return f"slurm:{path}"

    return write


def test_nodes_with_gpus_become_servers_with_what_they_have(listed):
    servers = {server.id: server for server in clusters.load(listed(ONE_LINE)).servers}

    assert set(servers) == {"n1", "n2-a100", "n2-k80"}
    assert (servers["n1"].type, servers["n1"].capacity.gpus) == ("v100", 4)
    assert (servers["n1"].capacity.cpus, servers["n1"].capacity.memory_gb) == (48.0, 256.0)
    assert (servers["n2-a100"].capacity.cpus, servers["n2-k80"].capacity.memory_gb) == (48.0, 128.0)


def test_the_long_form_is_read_like_the_short_one(listed):
    (server,) = clusters.load(listed(SEVERAL_LINES)).servers

    assert (server.id, server.type, server.capacity.gpus, server.capacity.cpus) == ("n1", "v100", 4, 48.0)


@pytest.mark.parametrize(
    ("state", "there"),
    [
        ("IDLE+DRAIN", True),
        ("MIXED+DRAIN", True),
        ("IDLE+CLOUD+POWERED_DOWN", True),
        ("IDLE~", True),
        ("DOWN*", False),
        ("DOWN+DRAIN", False),
        ("DOWN*+CLOUD", False),
        ("FUTURE", False),
    ],
)
def test_nodes_that_are_down_are_left_out_and_drained_ones_come_back(listed, state, there):
    broken = f"NodeName=n9 CPUTot=8 Gres=gpu:v100:2 RealMemory=1024 State={state} Partitions=all\n"

    servers = clusters.load(listed(ONE_LINE + broken)).servers

    assert ("n9" in {server.id for server in servers}) == there


def test_a_cluster_of_which_all_nodes_are_down_is_refused_with_the_reason(listed):
    with pytest.raises(ConfigError, match="1 are DOWN or FUTURE"):
        clusters.load(listed("NodeName=n9 CPUTot=8 Gres=gpu:v100:2 State=DOWN* Partitions=all"))


def test_one_partition_can_be_taken(listed):
    assert [s.id for s in clusters.load(f"{listed(ONE_LINE)},partition=gpu").servers] == ["n1"]


@pytest.mark.parametrize(
    ("text", "more", "words"),
    [
        ("", "", "has no node"),
        ("NodeName=n3 CPUTot=64 Gres=(null) Partitions=all", "", "none of its 1 nodes has a GPU"),
        (ONE_LINE, ",partition=cpu", "there are all, gpu"),
        (ONE_LINE, ",color=red", "not understood"),
    ],
)
def test_what_is_no_cluster_is_said(listed, text, more, words):
    with pytest.raises(ConfigError, match=words):
        clusters.load(listed(text) + more)


def test_a_file_that_is_not_there_is_named():
    with pytest.raises(ConfigError, match=r"nosuch\.txt"):
        clusters.load("slurm:nosuch.txt")
