"""What a machine says of itself, and Synergy's list of agents."""

import os
import time
from dataclasses import replace

import pytest

from rota.core.errors import ConfigError
from rota.deploy.worker.inventory import (
    Connection,
    inspect,
    node_of_pci,
    numa_map,
    own_connection,
    parse_cpu_list,
    part_of,
    read_connections,
    usable_memory_bytes,
)
from rota.deploy.worker.storage import measure


def test_this_machine_is_described(tmp_path):
    machine = inspect(tmp_path)

    assert set(machine.cpus) == os.sched_getaffinity(0)
    assert sorted(cpu for cpus in machine.numa.values() for cpu in cpus) == sorted(machine.cpus)
    assert machine.memory_bytes > 1 << 27
    assert machine.hostname == os.uname().nodename
    assert machine.storage.read_mbps > 0
    assert machine.storage.write_mbps > 0
    assert machine.gpus or any("GPU" in remark for remark in machine.remarks)
    assert list(tmp_path.iterdir()) == []


def test_the_measurement_of_storage_is_short(tmp_path):
    begin = time.monotonic()

    measure(tmp_path)

    assert time.monotonic() - begin < 3  # half a second, and patience with a busy machine


def test_a_folder_that_cannot_be_written_is_a_remark(tmp_path):
    machine = inspect(tmp_path / "missing")

    assert machine.storage.read_mbps == 0
    assert any("not measured" in remark for remark in machine.remarks)


def test_numa_nodes_are_read_from_the_kernel(tmp_path):
    for node, cpus in ((0, "0-1,4"), (1, "2-3"), (2, "8-9")):
        folder = tmp_path / f"devices/system/node/node{node}"
        folder.mkdir(parents=True)
        (folder / "cpulist").write_text(cpus + "\n")

    assert numa_map((0, 1, 2, 3, 4), tmp_path) == {0: (0, 1, 4), 1: (2, 3)}
    assert numa_map((0, 7), tmp_path / "nothing") == {0: (0, 7)}
    assert parse_cpu_list("0-2,5\n") == (0, 1, 2, 5)


def test_the_node_of_a_device_may_be_unknown(tmp_path):
    folder = tmp_path / "bus/pci/devices/0000:3b:00.0"
    folder.mkdir(parents=True)
    (folder / "numa_node").write_text("1\n")

    assert node_of_pci("00000000:3b:00.0", tmp_path) == 1
    assert node_of_pci("00000000:3c:00.0", tmp_path) is None


def test_memory_is_at_most_that_of_the_groups_around(tmp_path):
    (tmp_path / "meminfo").write_text("MemTotal:       1000 kB\nMemFree: 10 kB\n")
    inner = tmp_path / "outer/inner"
    inner.mkdir(parents=True)

    assert usable_memory_bytes(tmp_path, inner) == 1024000
    (inner / "memory.max").write_text("max\n")
    (inner.parent / "memory.max").write_text("500000\n")
    assert usable_memory_bytes(tmp_path, inner) == 500000


def test_agents_come_from_a_connection_file(tmp_path):
    path = tmp_path / "conn.csv"
    path.write_text("10.0.0.1,14001,0,0,1\n\n10.0.0.1, 14002, 4, 12, 0\n")

    assert read_connections(path) == (
        Connection("10.0.0.1", 14001, 0, 0, numa=True),
        Connection("10.0.0.1", 14002, 4, 12, numa=False),
    )


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("10.0.0.1,14001,0,0", "4 fields"),
        ("10.0.0.1,x,0,0,1", "port is 'x'"),
        ("10.0.0.1,0,0,0,1", "port is '0'"),
        ("10.0.0.1,70000,0,0,1", "port is '70000'"),
        ("10.0.0.1,14001,-1,0,1", "first gpu is '-1'"),
        ("10.0.0.1,14001,0,0,2", "numa is '2'"),
        (",14001,0,0,1", "address is empty"),
        ("a,1,0,0,1", "already on line 1"),
    ],
)
def test_a_bad_line_is_named(tmp_path, line, says):
    path = tmp_path / "conn.csv"
    path.write_text(f"a,1,0,0,1\n{line}\n")

    with pytest.raises(ConfigError, match=f"conn.csv:2: .*{says}"):
        read_connections(path)


def test_an_empty_or_missing_connection_file_is_refused(tmp_path):
    (tmp_path / "empty").write_text("\n")

    with pytest.raises(ConfigError, match="no agents"):
        read_connections(tmp_path / "empty")
    with pytest.raises(ConfigError, match="cannot read connection file"):
        read_connections(tmp_path / "missing")


def test_an_agent_finds_its_line_by_address(tmp_path):
    path = tmp_path / "connections.csv"
    path.write_text("192.0.2.7,9000,0,0,0\n127.0.0.1,9001,4,12,1\n")

    assert own_connection(path) == Connection("127.0.0.1", 9001, 4, 12, True)
    assert own_connection(path, "192.0.2.7").port == 9000
    assert own_connection(path, "192.0.2.7:9000").port == 9000


@pytest.mark.parametrize(
    ("address", "message"),
    [
        ("", "several lines are for this machine .127.0.0.1:9001, 127.0.0.1:9002.; say which with --host"),
        ("127.0.0.1", "several lines"),
        ("192.0.2.8", "no line for 192.0.2.8; it has 127.0.0.1:9001, 127.0.0.1:9002"),
        ("127.0.0.1:9003", "no line for 127.0.0.1:9003"),
    ],
)
def test_a_line_that_cannot_be_told_is_asked_for(tmp_path, address, message):
    path = tmp_path / "connections.csv"
    path.write_text("127.0.0.1,9001,0,0,0\n127.0.0.1,9002,4,12,0\n")

    with pytest.raises(ConfigError, match=message):
        own_connection(path, address)


def test_an_agent_gets_the_cpus_from_its_first_one_on():
    machine = replace(inspect(), cpus=tuple(range(8)), numa={0: (0, 1, 2, 3), 1: (4, 5, 6, 7)})
    line = Connection("h", 1, 0, 3, True)

    assert part_of(machine, line, 3.5, emulated=False).numa == {0: (3,), 1: (4, 5, 6)}
    assert part_of(machine, replace(line, numa=False), 2, emulated=False).numa == {0: (3, 4)}
    assert part_of(machine, replace(line, first_cpu=24), 2, emulated=True).cpus == machine.cpus
    with pytest.raises(ConfigError, match="begins at CPU 24, and this machine has 0 to 7"):
        part_of(machine, replace(line, first_cpu=24), 2, emulated=False)
