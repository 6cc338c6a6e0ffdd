"""What jobs ask for beside GPUs, through the whole stack: command line, scheduler, agents."""

import sys

import pytest

from live import Live, until

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="agents need Linux to run processes")

SOON_S = 60.0


@pytest.fixture(scope="module")
def live(tmp_path_factory):
    cluster = Live(tmp_path_factory.mktemp("requests"))
    small = "v100=2:cpus=4:memory=16:label=zone=a"
    large = "v100=2:cpus=4:memory=64:label=zone=b"
    cluster.up("--server", small, "--server", large, "--server", "k80=1", "--emulate", "--heartbeat", "0.5")
    yield cluster
    cluster.down()


@pytest.mark.parametrize(
    ("asked", "nodes"),
    [
        ({"memory_gb": 63.0}, {"v100-1"}),
        ({"labels": ["zone=a"]}, {"v100-0"}),
        ({"types": ["k80"]}, {"k80-0"}),
        ({"exclude_types": ["v100"]}, {"k80-0"}),
    ],
)
def test_a_job_runs_where_it_asked_to(live, asked, nodes):
    with live.client() as client:
        job = client.submit([{"argv": ["sleep", "600"], **asked}])[0]
        until(lambda: client.job(job).phase == "running", SOON_S, "the job")
        info = client.job(job)
        client.cancel([job])
        client.wait([job], SOON_S, every_s=0.1)

    assert {part.node for part in info.parts} == nodes
    assert sum(part.memory_gb for part in info.parts) >= asked.get("memory_gb", 0.0)


def test_servers_say_their_labels(live):
    listed = live.ask("nodes")

    assert {node["node"]: node["labels"] for node in listed} == {
        "v100-0": ["zone=a"], "v100-1": ["zone=b"], "k80-0": [],
    }  # fmt: skip


def test_a_job_that_no_server_can_hold_is_told_so(live):
    with live.client() as client:
        job = client.submit([{"argv": ["true"], "memory_gb": 200.0}])[0]
        info = client.job(job)
        client.cancel([job])

    assert info.reason.startswith("request-too-large: asks for 1 GPU with 200 GB of memory")


@pytest.mark.parametrize(
    ("option", "value", "message"),
    [
        ("--label", "zone", "label 'zone' is not NAME=VALUE"),
        ("--types", "v100,,", "types has '', which is no type of GPU"),
        ("--memory-gb", "nan", "memory_gb is nan"),
        ("--memory-gb", "-1", "-1"),
    ],
)
def test_what_cannot_be_asked_for_is_refused_with_exit_code_2(live, option, value, message):
    told = live.run("submit", option, value, "--", "true", code=2)

    assert message in told
    assert "Traceback" not in told
