"""Tenants at their limits, on a real scheduler behind certificates: they are told so, and no other tenant notices."""

import contextlib
import itertools
import sys
import threading
import time

import grpc
import pytest

from live import Live, until
from rota.core.errors import ConfigError
from rota.deploy.control import Client
from rota.deploy.log_feed import LogQuery
from rota.rpc import rota_pb2 as pb

TENANTS = """
[tenants.queue]
max_queued = 5
[tenants.words]
max_queued_mb = 0.1
[tenants.running]
max_running = 2
[tenants.flood]
requests_per_s = 20
request_burst = 20
[tenants.arrays]
requests_per_s = 2
request_burst = 100
[tenants.streams]
max_streams = 3
[tenants.output]
max_log_gb = 0.003
[tenants.disk]
max_checkpoint_gb = 0.002
"""
NAMES = ("queue", "words", "running", "flood", "streams", "output", "disk", "other")
LONG = {"emulated": True, "profile": "resnet18-32", "steps": 10**9}
TOO_LARGE = {"argv": ["true"], "gpus": 64}
SHORT = {**LONG, "steps": 1}
WRITER = (
    "import os, pathlib, time; f = pathlib.Path(os.environ['ROTA_CHECKPOINTS']); f.mkdir(parents=True, exist_ok=True);"
    "(f / 'weights').write_bytes(b'w' * 4_000_000); time.sleep(60)"
)


@pytest.fixture(scope="module")
def live(tmp_path_factory):
    cluster = Live(tmp_path_factory.mktemp("limits"))
    (cluster.folder / "tenants.toml").write_text(TENANTS, encoding="utf-8")
    cluster.up(
        "--server", "v100=8", "--emulate", "--time-scale", "120", "--round", "60", "--heartbeat", "0.5", "--tenants",
        "tenants.toml",
    )  # fmt: skip
    for name in NAMES:
        cluster.run("tokens", "create", "--tenant", name, "--dir", ".rota/certs", "--out", f"{name}.token")
    yield cluster
    cluster.down()


@pytest.fixture(scope="module")
def clients(live):
    """A user of each tenant."""
    with contextlib.ExitStack() as stack:
        certs = live.folder / ".rota" / "certs"
        yield {
            name: stack.enter_context(Client(live.address, certs=certs, token_file=live.folder / f"{name}.token"))
            for name in NAMES
        }


def finishes(client):
    """A short job of a tenant goes through."""
    (job,) = client.submit([SHORT])
    return client.wait([job], 30, every_s=0.1)[0].phase == "finished"


def test_a_tenant_with_a_full_queue_is_refused_and_others_are_not(clients):
    tenant = clients["queue"]
    jobs = tenant.submit([TOO_LARGE] * 4)

    with pytest.raises(ConfigError, match=r"4 jobs of tenant 'queue' wait, and 2 more would be above its 5"):
        tenant.submit([TOO_LARGE] * 2)
    assert len(tenant.jobs()) == 4, "all or none"
    assert finishes(clients["other"])
    tenant.cancel(jobs[:1])
    jobs += tenant.submit([TOO_LARGE] * 2)
    tenant.cancel(jobs)


def test_a_tenant_cannot_fill_the_memory_with_few_large_jobs(clients):
    tenant = clients["words"]
    large = {"argv": ["true", "x" * 30_000], "env": {"A": "y" * 30_000}, "gpus": 64}
    jobs = tenant.submit([large])

    with pytest.raises(
        ConfigError, match=r"0.06\d* MB, and 0.06\d* MB more would be above its 0.1 MB \(max_queued_mb\)"
    ):
        tenant.submit([large])
    assert clients["other"].submit([{**large, "name": "of another tenant"}])
    tenant.cancel(jobs)
    until(lambda: not tenant.jobs(["queued", "waiting"]), 10.0, "the end of the job")
    until(lambda: _accepted(tenant, large), 5.0, "room again")


def test_an_array_counts_with_the_bytes_of_all_its_jobs(live, clients):
    """Each is written down by itself: a request of 200 KB took 200 MB of the disk, again and again."""
    live.run("tokens", "create", "--tenant", "arrays", "--dir", ".rota/certs", "--out", "arrays.token")
    large = pb.JobSpec(argv=["true", "x" * 30_000], gpus=64, hold=True, array="0-99")
    with Client(live.address, certs=live.folder / ".rota" / "certs", token_file=live.folder / "arrays.token") as tenant:
        tenant._stub.Submit(pb.SubmitRequest(jobs=[large], dry_run=True))
        assert len(tenant._stub.Submit(pb.SubmitRequest(jobs=[large])).jobs) == 100

        with pytest.raises(grpc.RpcError, match="tenant 'arrays' made more than 2 requests per second"):
            tenant._stub.Submit(pb.SubmitRequest(jobs=[large]))
    assert finishes(clients["other"])


def _accepted(client, job):
    with contextlib.suppress(ConfigError):
        return client.cancel(client.submit([job]))
    return False


def test_a_tenant_runs_no_more_jobs_than_it_may_while_gpus_are_free(live, clients):
    tenant = clients["running"]
    jobs = tenant.submit([LONG] * 5)

    until(lambda: len(tenant.jobs(["running"])) == 2, 20.0, "two jobs run")
    held = tenant.jobs(["waiting"])
    assert len(held) == 3
    assert {job.reason_code for job in held} == {"tenant-limit"}
    most = "tenant 'running' may run 2 jobs at the same time (max_running)"
    assert f"{most}, and as many run or come before it" in held[0].reason
    assert "tenant-limit" in live.run("jobs")
    assert finishes(clients["other"])

    first = min(job.job for job in tenant.jobs(["running"]))
    tenant.cancel([first])
    until(lambda: jobs[2] in {job.job for job in tenant.jobs(["running"])}, 20.0, "the next one runs")
    with live.client() as admin:
        assert most_at_once(admin, set(jobs)) == 2
    tenant.cancel([job for job in jobs if job != first])


def most_at_once(client, jobs):
    """The largest number of attempts of some jobs at the same time, by the journal."""
    change = {"AttemptStarted": 1, "AttemptEnded": -1}
    steps = [change.get(event["event"], 0) for _, event in client.events() if event.get("job") in jobs]
    return max(itertools.accumulate(steps))


def test_a_flood_of_requests_is_put_off_and_our_own_client_waits_politely(live, clients):
    tenant = clients["flood"]
    refusals = []
    for _ in range(60):
        try:
            tenant._stub.Status(pb.Empty())
        except grpc.RpcError as error:  # noqa: PERF203 - each by itself
            refusals.append(error)
    assert len(refusals) > 20
    assert {error.code() for error in refusals} == {grpc.StatusCode.RESOURCE_EXHAUSTED}
    assert "tenant 'flood' made more than 20 requests per second; try again in 0." in refusals[0].details()
    began = time.monotonic()
    for _ in range(20):
        clients["other"].status()
    assert time.monotonic() - began < 2.0, "another tenant waits for nothing"

    began = time.monotonic()
    for _ in range(30):
        tenant.status()

    assert time.monotonic() - began > 0.7, "thirty requests at twenty per second"
    assert clients["flood"].jobs() == []
    with live.client() as admin:
        assert any("too-many" in event.get("what", "") for _, event in admin.events() if event["event"] == "Audited")


def test_streams_beyond_the_limit_of_a_tenant_are_refused_until_one_is_closed(clients):
    tenant = clients["streams"]
    (job,) = tenant.submit([LONG])
    follow = pb.EventsRequest(follow=True)
    streams = [tenant._stub.Events(follow, timeout=60) for _ in range(3)]
    for stream in streams:
        next(stream)

    for more in (tenant._stub.Events(follow), tenant._stub.Logs(pb.LogsRequest(job=job, follow=True))):
        with pytest.raises(grpc.RpcError) as error:
            next(more)
        assert error.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
        assert "tenant 'streams' has 3 streams open already (max_streams)" in error.value.details()
    assert finishes(clients["other"]), "and so there is an event to follow"
    other = clients["other"]._stub.Events(follow, timeout=10)
    next(other)
    other.cancel()

    streams[0].cancel()
    until(lambda: _opens(tenant), 5.0, "a stream again")
    for stream in streams:
        stream.cancel()
    tenant.cancel([job])


def _opens(client):
    try:
        next(client._stub.Events(pb.EventsRequest(), timeout=10))
    except grpc.RpcError:
        return False
    return True


def test_output_beyond_the_limit_of_a_tenant_takes_from_its_own_alone(clients):
    noise = {"argv": [sys.executable, "-c", "for i in range(20): print('x' * 79_999)"], "gpus": 1}
    (quiet,) = clients["other"].submit([noise])
    clients["other"].wait([quiet], 30, every_s=0.1)
    tenant = clients["output"]
    jobs = tenant.submit([noise] * 3)
    tenant.wait(jobs, 30, every_s=0.1)

    def kept():
        return [size(tenant, job) for job in jobs]

    until(lambda: sum(kept()) < 3_000_000, 20.0, "the limit")
    assert sum(kept()) > 500_000
    assert size(clients["other"], quiet) == 1_600_000


def size(client, job):
    items = client.log_items(LogQuery(job=job))
    return sum(len(item.data) for item in items if hasattr(item, "data"))


def test_a_tenant_with_too_many_checkpoints_starts_nothing_until_some_are_gone(live, clients):
    tenant = clients["disk"]
    (writer,) = tenant.submit([{"argv": [sys.executable, "-c", WRITER], "gpus": 1}])
    waiting = tenant.submit([{**LONG, "gpus": 8}])[0]

    until(lambda: tenant.job(waiting).reason_code == "checkpoint-limit", 30.0, "the limit")
    assert tenant.job(writer).phase == "running", "what runs goes on"
    assert "take 0.004" in tenant.job(waiting).reason
    with pytest.raises(ConfigError, match=r"no job was accepted: checkpoints of tenant 'disk' take 0.004"):
        tenant.submit([SHORT])
    assert finishes(clients["other"])
    folders = list((live.folder / ".rota").rglob("weights"))
    assert len(folders) == 1, "nothing of a job that is not over is removed"

    folders[0].unlink()
    until(lambda: tenant.job(waiting).reason_code != "checkpoint-limit", 10.0, "room again")
    tenant.cancel([writer])
    until(lambda: tenant.job(waiting).phase == "running", 20.0, "the start of the job that waited")
    tenant.cancel([waiting])


def test_many_users_of_other_tenants_at_once_are_served(clients):
    """All limits were reached above; the scheduler has not kept anything from it."""
    answers = []
    threads = [threading.Thread(target=lambda name=name: answers.append(clients[name].status())) for name in NAMES]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(15)

    assert len(answers) == len(NAMES)
