"""A tenant that keeps the scheduler busy, on a real one behind certificates: others are served, no server is lost."""

import contextlib
import threading
import time
from collections import Counter

import grpc
import pytest

from live import Live
from rota.core.errors import ConfigError
from rota.deploy.control import Client
from rota.rpc import rota_pb2 as pb

TENANTS = "[tenants.small]\nmax_scheduler_share = 0.02\n"
JOB = {"gpus": 1, "steps": 1000, "emulated": True, "profile": "ResNet-18 (batch size 32)"}
FLOODS = {
    "jobs in a phase": lambda stub, _: stub.ListJobs(pb.ListJobsRequest(phases=["stopping"], limit=1), timeout=60),
    "jobs that wait": lambda stub, _: stub.ListJobs(pb.ListJobsRequest(phases=["waiting"], limit=1), timeout=60),
    "arrays that are held": lambda stub, array: stub.Hold(pb.HoldRequest(arrays=[array] * 100), timeout=60),
    "arrays and one that is not there": lambda stub, array: stub.Cancel(
        pb.CancelRequest(arrays=[array] * 99 + [10**9]), timeout=60
    ),
    "a large array, not for real": lambda stub, _: stub.Submit(
        pb.SubmitRequest(jobs=[pb.JobSpec(array="0-9999", **JOB)], dry_run=True), timeout=60
    ),
}


@pytest.fixture(scope="module")
def live(tmp_path_factory):
    cluster = Live(tmp_path_factory.mktemp("busy"))
    (cluster.folder / "tenants.toml").write_text(TENANTS, encoding="utf-8")
    cluster.up(
        "--server", "v100=4", "--emulate", "--time-scale", "10", "--round", "50", "--tenants", "tenants.toml",
    )  # fmt: skip
    for name in ("evil", "small", "vision"):
        cluster.run("tokens", "create", "--tenant", name, "--dir", ".rota/certs", "--out", f"{name}.token")
    yield cluster
    cluster.down()


@pytest.fixture(scope="module")
def clients(live):
    certs = live.folder / ".rota" / "certs"
    with contextlib.ExitStack() as stack:
        names = ("evil", "small", "vision")
        yield {
            name: stack.enter_context(Client(live.address, certs=certs, token_file=live.folder / f"{name}.token"))
            for name in names
        }


@contextlib.contextmanager
def flood(call, threads):
    """Many threads that make a call again and again; the statuses of what was refused."""
    stop = threading.Event()
    refused = Counter()

    def run():
        while not stop.is_set():
            try:
                call()
            except grpc.RpcError as error:  # noqa: PERF203 - each by itself
                refused[error.code().name, "max_scheduler_share" in error.details()] += 1
                stop.wait(0.02)

    running = [threading.Thread(target=run) for _ in range(threads)]
    for thread in running:
        thread.start()
    try:
        yield refused
    finally:
        stop.set()
        for thread in running:
            thread.join()


def held_array(stub, jobs):
    """An array of jobs that are held; its tenant may owe time from before."""
    request = pb.SubmitRequest(jobs=[pb.JobSpec(array=f"0-{jobs - 1}", hold=True, **JOB)])
    for _ in range(60):
        with contextlib.suppress(grpc.RpcError):
            return stub.Submit(request, timeout=60).jobs[0]
        time.sleep(1.0)
    raise AssertionError("the array is not accepted")


def flooded(live, clients, who, flood_of, jobs, threads, seconds):
    """How long another tenant waited for its answers, and what the flood was told."""
    evil = clients[who]._stub
    array = held_array(evil, jobs)
    waits = []
    with flood(lambda: flood_of(evil, array), threads) as refused:
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            began = time.monotonic()
            clients["vision"].status()
            waits.append(time.monotonic() - began)
            time.sleep(0.05)
    with live.client() as admin:
        admin.cancel([array + index for index in range(jobs)])
        assert not [event for _, event in admin.events() if event["event"] == "NodeLost"]
    return waits, refused


def test_jobs_that_come_after_hundreds_of_others_each_are_refused_by_the_sum(clients):
    vision = clients["vision"]
    base = vision.submit([{**JOB, "hold": True}] * 201)

    with pytest.raises(ConfigError, match=r"these 100 jobs come after 20,100 .* above the 20,000 of their tenant"):
        vision.submit([{**JOB, "after_any": base}] * 100)

    after = vision.submit([{**JOB, "after_any": base}] * 99)
    with pytest.raises(ConfigError, match=r"and 201 more would be above its 20,000 \(max_dependencies\)"):
        vision.submit([{**JOB, "after_any": base}])
    vision.cancel([*base, *after])


def test_a_tenant_that_floods_is_put_off_by_its_work_and_another_one_is_answered(live, clients):
    waits, refused = flooded(live, clients, "small", FLOODS["jobs that wait"], 2_000, 6, 4.0)

    assert refused["RESOURCE_EXHAUSTED", True]
    assert len(waits) >= 2


@pytest.mark.long
@pytest.mark.parametrize("name", FLOODS)
def test_no_flood_of_small_requests_keeps_others_waiting(live, clients, name):
    waits, _ = flooded(live, clients, "evil", FLOODS[name], 10_000, 24, 12.0)

    assert max(waits) < 5.0
