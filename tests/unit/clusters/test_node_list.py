"""A list of servers as CSV, as Alibaba's 2023 trace has one."""

import gzip

import pytest

from rota import clusters
from rota.core.errors import ConfigError

HEADER = "sn,cpu_milli,memory_mib,gpu,model"


def a_list(folder, *rows, name="nodes.csv", header=HEADER):
    path = folder / name
    data = "\r\n".join([header, *rows]).encode("utf-8-sig")
    path.write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
    return path


@pytest.mark.parametrize("name", ["nodes.csv", "nodes.csv.gz"])
def test_servers_keep_their_names_types_and_sizes(tmp_path, name):
    path = a_list(tmp_path, "n1,64000,262144,2,P100", "n2,8000,32768,1,V100M16", "n3,1000,1024,0,", "", name=name)

    cluster = clusters.load(path)

    assert cluster.types == ("P100", "V100M16")
    assert cluster.capacity.tolist() == [2, 1]
    assert [s.id for s in cluster.ordered] == ["n1", "n2"]
    assert cluster.server_cpus.tolist() == [64.0, 8.0]
    assert cluster.server_memory_gb.tolist() == [256.0, 32.0]


@pytest.mark.parametrize(
    ("header", "row", "message"),
    [
        ("sn,gpus,model", "n1,2,P100", "nodes.csv:1: the list of servers has no column 'gpu'; is it 'gpus'"),
        (HEADER, "n1,1,1,two,P100", "nodes.csv:2, column gpu: 'two' is not an amount"),
        (HEADER, "n1,1,1,1.5,P100", "nodes.csv:2, column gpu: '1.5' is not a number of GPUs"),
        (HEADER, "n1,-1,1,1,P100", "nodes.csv:2, column cpu_milli: '-1' is not an amount"),
        (HEADER, "n1,1,1,1,", "nodes.csv:2, column model: a server with GPUs has none"),
        (HEADER, "n1,1,1", "nodes.csv:2: 3 cells, but the header names 5 columns"),
        (HEADER, "n1,1,1,1,P100\nn1,1,1,1,P100", "nodes.csv:3, column sn: 'n1' is there twice"),
        (HEADER, "n1,1,1,0,P100", "has no GPU"),
    ],
)
def test_a_list_that_cannot_be_used_is_refused_with_the_place(tmp_path, header, row, message):
    with pytest.raises(ConfigError, match=message):
        clusters.load(a_list(tmp_path, row, header=header))


def test_a_list_that_is_not_there_is_refused(tmp_path):
    with pytest.raises(ConfigError, match="cannot read the list of servers"):
        clusters.load(tmp_path / "nobody.csv")
