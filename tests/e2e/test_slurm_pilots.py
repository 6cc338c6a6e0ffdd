"""Agents as batch jobs of a real Slurm on this machine."""

import contextlib
import signal
import stat
import subprocess
import tempfile
from pathlib import Path

import grpc
import pytest

import real_slurm
from live import until
from rota.deploy.security.bundles import load_bundle
from rota.deploy.security.joining import make_request
from rota.deploy.security.subjects import Role
from rota.deploy.security.transport import open_channel
from rota.rpc import rota_pb2 as pb
from rota.rpc import rota_pb2_grpc as stubs
from slurm_site import FAST, SlurmSite, processes_of_job

NOBODY = 65534
pytestmark = pytest.mark.skipif(bool(real_slurm.missing()), reason=f"Slurm: {real_slurm.missing()}")


@pytest.fixture(scope="module")
def slurm():
    with real_slurm.RealSlurm(nodes=3) as running:
        yield running


@pytest.fixture(scope="module")
def site(slurm, tmp_path_factory):
    with SlurmSite(tmp_path_factory.mktemp("site"), slurm) as running:
        yield running


@pytest.fixture(scope="module")
def pool(site):
    site.pool("--gres", "gpu:v100:2", "--time", "10m", "--nodes", "2", name="short")
    site.until_up(2)
    return site.folder / "pools" / "short"


def test_no_secret_is_where_other_users_can_see_it(site, slurm, pool):
    row = next(iter(site.pilots().values()))
    key = (pool / "tickets" / row["pilot"] / "join.key").read_text().splitlines()[1:-1]
    token = (site.folder / "token").read_text().strip()

    shown = slurm.run("scontrol", "show", "job", "-o", row["slurm_job"])
    script = slurm.run("scontrol", "write", "batch_script", row["slurm_job"], "-")
    words = subprocess.run(["ps", "-eo", "args"], check=True, capture_output=True, text=True).stdout
    environments = "".join(
        Path(f"/proc/{number}/environ").read_bytes().decode("utf-8", "replace")
        for number, _ in processes_of_job(slurm, row["slurm_job"])
    )
    assert "SLURM_JOB_ID" in environments
    assert row["pilot"] in script
    for secret in (*key, token):
        assert secret not in shown + script + words + environments


def test_another_user_can_neither_read_a_ticket_nor_a_log_nor_see_names_of_jobs(site, slurm, pool):
    with site.client() as client:
        (job,) = client.submit(
            [{"emulated": True, "profile": "a3c", "steps": 10, "gpus": 1, "name": "very-secret-name"}]
        )
        client.wait([job], 30)

    assert stat.S_IMODE(pool.stat().st_mode) == 0o700
    for path in [*pool.glob("tickets/*/join.key"), *pool.glob("logs/*.log"), pool / "pool.json"]:
        read = [*real_slurm.as_user(NOBODY), "cat", str(path)]
        assert subprocess.run(read, check=False, capture_output=True).returncode == 1
    seen = slurm.run("squeue", "-o", "%all", user=NOBODY) + slurm.run("scontrol", "show", "job", user=NOBODY)
    assert "rota-short" in seen
    assert "very-secret-name" not in seen


def test_a_ticket_that_was_used_is_refused(site, pool):
    row = next(iter(site.pilots().values()))

    said = site.run(
        "certs", "join", str(pool / "tickets" / row["pilot"]), "--scheduler", site.address, "--out",
        str(site.folder / "again"), code=2,
    )  # fmt: skip

    assert "was used before" in said
    assert not (site.folder / "again").exists()


def test_a_ticket_opens_nothing_but_the_exchange(site):
    site.run("certs", "ticket", "n9", "--dir", str(site.folder / "certs"), "--out", str(site.folder / "t9"))
    ticket = load_bundle(site.folder / "t9", Role.JOIN)

    with open_channel(
        site.address, bundle=ticket, token=(site.folder / "token").read_text().strip(), sync=True
    ) as channel:
        calls = (
            (stubs.FleetStub(channel).Register, pb.RegisterRequest(node="n9", type="v100")),
            (stubs.ControlStub(channel).ListJobs, pb.ListJobsRequest()),
            (stubs.ControlStub(channel).Drain, pb.DrainRequest(node="short-0")),
            (stubs.FleetStub(channel).Join, pb.JoinRequest(node="short-0", request=make_request("short-0")[1])),
        )
        for method, request in calls:
            with pytest.raises(grpc.RpcError) as refused:
                method(request, timeout=5)
            assert refused.value.code() is grpc.StatusCode.PERMISSION_DENIED


def test_slurms_own_words_are_shown_when_it_refuses(site):
    site.pool("--gres", "gpu:v100:2", "--time", "10m", "--nodes", "1", "--constraint", "nosuch", name="no")

    listed = site.run("pilots", "--folder", str(site.folder / "pools"), *site.connection)
    site.end("pool-no", signal.SIGINT)

    assert "Slurm refuses more pilots" in listed
    assert "Invalid feature specification" in listed


def test_outside_of_a_job_an_agent_says_that_slurm_gave_it_nothing(site):
    said = site.run("agent", "--gpus", "slurm", "--scheduler", site.address, "--insecure", "--name", "x", code=2)

    assert "SLURM_JOB_ID is not set" in said


def test_pilots_run_jobs_and_leave_with_their_work_saved(site, slurm, pool):
    rows = site.pilots()

    assert {row["state"] for row in rows.values() if row["pool"] == "short"} == {"up"}
    assert all(500 < row["left_s"] <= 600 for row in rows.values() if row["pool"] == "short")
    with site.client() as client:
        assert {(node.type, node.gpus, node.cpus) for node in client.nodes()} == {("v100", 2, 4.0)}
        jobs = client.submit([{"emulated": True, "profile": "resnet18-32", "steps": 2_000_000, "gpus": 2}] * 2)
        until(lambda: all(client.job(job).step > 0 for job in jobs), 20)
        before = {job: client.job(job).step for job in jobs}

        site.run("pilots", "stop", "short", "--folder", str(pool.parent), *site.connection)

        assert set(slurm.states()) == {"idle"}
        for job in jobs:
            info = client.job(job)
            assert info.saved_step >= before[job]
            assert info.lost_steps == 0
            assert info.restarts == 0
        client.cancel(jobs)


@pytest.mark.long
def test_a_queue_makes_a_pool_grow_and_idleness_makes_it_shrink(site):
    site.pool("--gres", "gpu:v100:4", "--min", "0", "--max", "3", "--idle", "1", name="elastic")
    with site.client() as client:
        jobs = client.submit([{"emulated": True, "profile": "resnet18-32", "steps": 10**9, "gpus": 4}] * 3)
        until(lambda: sum(name.startswith("elastic") for name in site.up()) == 3, 60)
        client.cancel(jobs)
    until(lambda: not [name for name in site.up() if name.startswith("elastic")], 30)
    site.run("pilots", "stop", "elastic", "--now", "--folder", str(site.folder / "pools"), *site.connection)


@pytest.mark.long
def test_two_pilots_share_a_node_on_which_each_sees_only_its_own_gpus(tmp_path):
    with (
        real_slurm.RealSlurm(nodes=1, proctrack="cgroup", constrain=True) as slurm,
        SlurmSite(tmp_path, slurm) as own,
    ):
        own.pool("--gres", "gpu:v100:2", "--time", "10m", "--nodes", "2")
        assert own.until_up(2, 50) == ["gpu-0", "gpu-1"]
        rows = own.pilots().values()
        shown = [environment_of_job(slurm, row["slurm_job"]) for row in rows]
        assert {row["host"] for row in rows} == set(slurm.names)
        assert {one["CUDA_VISIBLE_DEVICES"] for one in shown} == {"0,1"}  # so numbers of devices tell nothing apart
        assert {one["SLURM_JOB_GPUS"] for one in shown} == {"0,1", "2,3"}
        own.run("pilots", "stop", "--now", "--folder", str(tmp_path / "pools"), *own.connection)


def environment_of_job(slurm, number):
    """The variables of a process of a batch job."""
    process = processes_of_job(slurm, number)[0][0]
    entries = Path(f"/proc/{process}/environ").read_bytes().decode("utf-8", "replace").split("\0")
    return dict(entry.split("=", 1) for entry in entries if "=" in entry)


@pytest.mark.long
def test_a_scheduler_that_is_told_where_its_nodes_come_from_keeps_them_itself(slurm, tmp_path):
    nodes = "slurm:partition=gpu,gres=gpu:v100:4,nodes=2,time=10m,notice=10,emulate,trust-tenants,every=1,folder="
    nodes += str(tmp_path / "pools")
    with SlurmSite(tmp_path, slurm, *FAST, "--nodes", nodes) as own:
        assert own.until_up(2) == ["gpu-0", "gpu-1"]
        own.end("serve")
        assert set(slurm.jobs().values()) & {"RUNNING"}
        own.serve()
        assert own.until_up(2) == ["gpu-0", "gpu-1"]
        said = tmp_path / "state.db.pilots.log"
        until(lambda: said.read_text().count("2 pilots asked for on") == 2, 40, "the next keeper is there")
        asked = set(slurm.jobs())
        own.run("pilots", "stop", "--now", "--folder", str(tmp_path / "pools"), *own.connection)
        until(lambda: "the pool is stopped" in (tmp_path / "serve.log").read_text(), 40, "the keeper has ended")
        assert set(slurm.jobs()) == asked
        assert not {"PENDING", "RUNNING"} & set(slurm.jobs().values())
        own.end("serve")
        own.serve()
        assert own.until_up(2) == ["gpu-2", "gpu-3"]
        own.run("pilots", "stop", "--now", "--folder", str(tmp_path / "pools"), *own.connection)


@pytest.mark.long
def test_an_ordinary_user_has_pilots_without_root_and_drains_them():
    with contextlib.ExitStack() as stack:
        slurm = stack.enter_context(real_slurm.RealSlurm(nodes=1))
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        mine = stack.enter_context(SlurmSite(folder, slurm, *FAST, user=NOBODY))
        mine.pool("--gres", "gpu:v100:4", "--time", "10m", "--nodes", "1", name="mine", tenants="--tenant=default")
        mine.until_up(1)
        listed = slurm.run("squeue", "-h", "-o", "%u %j %T")
        with mine.client() as client:
            (job,) = client.submit([{"argv": ["id", "-u"], "gpus": 2, "cwd": "/"}])
            assert client.wait([job], 20)[0].phase == "finished"
            until(lambda: b"".join(client.logs(job)).decode().strip() == str(NOBODY), 10)
            (other,) = client.submit([{"emulated": True, "profile": "resnet18-32", "steps": 10**8, "gpus": 4}])
            until(lambda: client.job(other).step > 0, 20)

            mine.run("pilots", "stop", "--drain", "--folder", str(folder / "pools"), *mine.connection)

            assert client.job(other).saved_step > 0
            assert client.job(other).lost_steps == 0
        assert "nobody rota-mine RUNNING" in listed
        assert not [state for state in slurm.jobs().values() if state == "RUNNING"]
