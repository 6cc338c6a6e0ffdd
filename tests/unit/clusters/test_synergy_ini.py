"""The INI files of Synergy's artifact."""

import pytest

from rota import clusters
from rota.core.cluster import Resources
from rota.core.errors import ConfigError

SHIPPED = """# total GPUs = 128
[CLUSTER]
racks = 1
servers_per_rack = 16
gpus_per_server = 8
cpus_per_server = 40
dram_per_server = 500
sspeed_per_server = 500

[SCHEDULER]
policy = FIFO
lease_time = 5
"""


def a_file(folder, text, name="my.ini"):
    path = folder / name
    path.write_text(text)
    return path


def test_an_ini_file_of_the_artifact_is_a_cluster(tmp_path):
    cluster = clusters.load(str(a_file(tmp_path, SHIPPED)))

    assert cluster.name == "my"
    assert cluster.types == ("v100",)
    assert [s.capacity for s in cluster.servers] == [Resources(8, 40.0, 500.0, 500.0, 40.0)] * 16
    assert cluster.prices.tolist() == [0.74]


def test_it_is_the_same_as_the_built_in_cluster(tmp_path):
    assert clusters.load(a_file(tmp_path, SHIPPED)).servers == clusters.load("synergy-128-cpu5").servers


def test_what_is_left_out_has_the_default_of_the_artifact(tmp_path):
    cluster = clusters.load(a_file(tmp_path, "[CLUSTER]\n"))

    assert [s.capacity for s in cluster.servers] == [Resources(8, 24.0, 500.0, 300.0, 40.0)] * 4
    assert {s.rack for s in cluster.servers} == {"rack0"}


def test_servers_are_numbered_through_all_racks(tmp_path):
    cluster = clusters.load(a_file(tmp_path, "[CLUSTER]\nracks = 3\nservers_per_rack = 2\n"))

    assert [(s.id, s.rack) for s in cluster.servers] == [
        ("v100-0", "rack0"),
        ("v100-1", "rack0"),
        ("v100-2", "rack1"),
        ("v100-3", "rack1"),
        ("v100-4", "rack2"),
        ("v100-5", "rack2"),
    ]


def test_comments_signs_and_the_section_of_the_scheduler_do_no_harm(tmp_path):
    text = "[SCHEDULER]\npolicy = 50% FIFO\nanything = at all\n[CLUSTER]\nGPUs_per_Server : 4  ; half\nracks=1 # one\n"

    assert clusters.load(a_file(tmp_path, text)).server_gpus.tolist() == [4, 4, 4, 4]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "[CLUSTER]\nserver_per_rack = 2",
            r"key in .*my\.ini, \[CLUSTER\]: 'server_per_rack'; did you mean 'servers_per_",
        ),
        ("[CLUSTER]\nracks = two", r"my\.ini, \[CLUSTER\]: racks = 'two' is not a whole number from 1 .* racks = 1"),
        ("[CLUSTER]\nracks = 0", "racks = '0' is not a whole number from 1"),
        ("[CLUSTER]\ngpus_per_server = -8", "gpus_per_server = '-8'"),
        ("[CLUSTER]\ncpus_per_server = 2.5", "cpus_per_server = '2.5' is not a whole number from 0"),
        ("[CLUSTER]\ncpus_per_server =", "cpus_per_server = ''"),
        ("[CLUSTER]\nracks = 99999999999", "racks = '99999999999'"),
        ("[CLUSTER]\nracks = 9999999\nservers_per_rack = 9999999", "makes more than 250,000 servers; give fewer"),
        ("[CLUSTER]\nracks = 1\n  net_per_server = 4", r"'1\\nnet_per_server = 4'.*begin each key in the first column"),
        ("[CLUSTER]\nracks = 1\nracks = 2", r"my\.ini, line 3: 'racks' is given twice in \[CLUSTER\]; keep one"),
        ("[CLUSTER]\n[SCHEDULER]\n[CLUSTER]", r"line 3: section \[CLUSTER\] is there twice"),
        ("[CLUSTER]\nracks", r"line 2: .*racks.* is not key = value"),
        ("racks = 1", r"line 1: 'racks = 1' stands before any section; begin with the line \[CLUSTER\]"),
        ("[SCHEDULER]\npolicy = FIFO", r"my\.ini has no section \[CLUSTER\]"),
        ("", r"has no section \[CLUSTER\]"),
        ("[CLUSTRE]\nracks = 1", "section in .*'CLUSTRE'; did you mean 'CLUSTER'"),
        ("[DEFAULT]\nracks = 2\n[CLUSTER]\n", "section in .*'DEFAULT'"),
    ],
)
def test_an_ini_file_that_is_no_cluster_is_refused_with_the_offending_part(tmp_path, text, message):
    with pytest.raises(ConfigError, match=message):
        clusters.load(a_file(tmp_path, text))


def test_a_missing_file_is_refused_and_not_replaced_by_defaults(tmp_path):
    with pytest.raises(ConfigError, match=r"cannot read cluster file '.*nowhere\.ini'"):
        clusters.load(tmp_path / "nowhere.ini")


def test_a_file_that_is_no_text_is_refused(tmp_path):
    path = tmp_path / "my.ini"
    path.write_bytes(b"\xff\xfe\x00")

    with pytest.raises(ConfigError, match="cannot read cluster file"):
        clusters.load(path)
