"""One thread owns the state of a scheduler: no handler looks at it from another one, and none can end it."""

import asyncio
import contextlib
import json
import threading
import traceback

import grpc
import pytest

from fleet import a_fleet
from rota.deploy.control import Client
from rota.deploy.scheduler.heartbeats import AgentContact, Heartbeats
from rota.deploy.scheduler.options import Retention
from rota.deploy.scheduler.records import Attempt, Node
from rota.deploy.scheduler.registry import Registry
from rota.deploy.scheduler.requests import Requests
from rota.deploy.server import serving
from rota.rpc import rota_pb2 as pb
from rota.rpc import rota_pb2_grpc as stubs

OWNED = (Registry, Heartbeats, AgentContact, Attempt, Node)
"""What only the owner may touch. A job may have left memory and then be anybody's."""
SHARED = ("stalls",)
"""What is made for several threads: each writes its own part."""


@pytest.fixture
def violations(monkeypatch):
    """Every access to what the owner owns, from another thread than its own."""
    found = []

    def guarded(self, name):
        owners = {thread.ident for thread in threading.enumerate() if thread.name == "scheduler"}
        if owners and threading.get_ident() not in owners and not name.startswith("__") and name not in SHARED:
            found.append(f"{type(self).__name__}.{name}\n" + "".join(traceback.format_stack(limit=6)))
        return object.__getattribute__(self, name)

    for owned in OWNED:
        monkeypatch.setattr(owned, "__getattribute__", guarded, raising=False)
    return found


@pytest.fixture
def callers(monkeypatch):
    """Without certificates everybody is an administrator; here only tenant `ops` is."""

    class Caller(serving._Caller):
        def __init__(self):
            super().__init__()
            self.admin = self.tenant == "ops"

    monkeypatch.setattr(serving, "_Caller", Caller)


def as_tenant(tenant):
    return (("rota-tenant", tenant),)


async def use_everything(fleet):
    """Every call that users have, while agents register, watch, report and push logs."""
    control = fleet.control
    spec = {"emulated": True, "profile": "resnet50-64", "steps": 5}
    (short,) = await fleet.submit({**spec, "checkpoint_every_s": 0.1})
    (long,) = await fleet.submit({**spec, "steps": 10**7})
    (command,) = await fleet.submit({"argv": ["echo", "hello"]})
    await fleet.over(short)
    await fleet.over(command)
    assert await fleet.output(command) == "hello\n"
    await fleet.until(long, lambda info: info.phase == "running")
    await fleet.restart("a")
    nodes = (await control.ListNodes(pb.Empty())).nodes
    assert [node.node for node in nodes] == ["a"]
    with pytest.raises(grpc.aio.AioRpcError, match="only an admin"):
        await control.Drain(pb.DrainRequest(node="a"))
    events = [json.loads(line.json) async for line in control.Events(pb.EventsRequest())]
    assert {event["job"] for event in events} == {short, long, command}
    status = await control.Status(pb.Empty())
    assert (status.finished, status.running) == (2, 1)
    await control.Cancel(pb.CancelRequest(jobs=[long]))
    await fleet.over(long)
    jobs = (await control.ListJobs(pb.ListJobsRequest())).jobs
    assert [job.job for job in jobs] == [command, long, short]
    return short


def test_nobody_but_its_owner_touches_the_state(tmp_path, violations, callers):
    async def story():
        async with a_fleet(tmp_path, {"a": "v100=2"}) as fleet:
            await use_everything(fleet)

    asyncio.run(story())

    assert violations == [], "\n".join(violations[:3])


def test_jobs_that_left_memory_are_there_for_every_call(tmp_path, violations, callers):
    async def story():
        async with a_fleet(tmp_path, {"a": "v100=2"}, retention=Retention(keep_finished_jobs=0)) as fleet:
            control = fleet.control
            short = await use_everything(fleet)
            for _ in range(200):
                status = await control.Status(pb.Empty())
                if status.archived == 3:
                    break
                await asyncio.sleep(0.05)
            assert (status.archived, status.finished, status.cancelled) == (3, 2, 1)
            jobs = (await control.ListJobs(pb.ListJobsRequest(phases=["finished"], limit=1))).jobs
            assert [job.phase for job in jobs] == ["finished"]
            info = await control.GetJob(pb.JobRequest(job=short))
            assert (info.phase, info.saved_step, info.spec.steps) == ("finished", 5, 5)
            reply = await control.Cancel(pb.CancelRequest(jobs=[short]))
            assert list(reply.over) == [short]
            assert await fleet.output(2) == "hello\n"
            events = [json.loads(line.json) async for line in control.Events(pb.EventsRequest())]
            assert {event["job"] for event in events if "job" in event} == {0, 1, 2}

    asyncio.run(story())

    assert violations == [], "\n".join(violations[:3])


def test_the_guard_of_this_test_works(violations):
    stop = threading.Event()
    owner = threading.Thread(target=stop.wait, name="scheduler")
    owner.start()
    with contextlib.suppress(AttributeError):
        Registry().jobs  # noqa: B018 - it is about the access
    stop.set()
    owner.join()

    assert violations


def test_a_handler_that_raises_is_answered_and_logged_with_the_request(tmp_path, monkeypatch, caplog):
    def broken(*_args, **_kwargs):
        raise ZeroDivisionError("of a test")

    async def story():
        async with a_fleet(tmp_path, {"a": "v100=1"}) as fleet:
            with monkeypatch.context() as patch:
                patch.setattr(Requests, "job", broken)
                patch.setattr("rota.deploy.server.control.status_message", broken)
                calls = [
                    fleet.control.GetJob(pb.JobRequest(job=17)),
                    fleet.control.Status(pb.Empty()),
                    first_of(fleet.control.Logs(pb.LogsRequest(job=17))),
                ]
                for call in calls:
                    with pytest.raises(grpc.aio.AioRpcError) as raised:
                        await call
                    assert raised.value.code() is grpc.StatusCode.INTERNAL
                    assert "failed inside the scheduler (ZeroDivisionError: of a test)" in raised.value.details()
            (job,) = await fleet.submit({"emulated": True, "profile": "resnet50-64", "steps": 5})
            assert (await fleet.over(job)).phase == "finished"

    asyncio.run(story())

    assert "GetJob failed: job: 17" in caplog.text


def test_a_report_that_makes_no_sense_harms_only_its_sender(tmp_path):
    async def story():
        async with a_fleet(tmp_path, {"a": "v100=1"}) as fleet:
            odd = pb.TaskState(job=10**12, epoch=-3, phase="melting", outcome="melted", step=-1)
            fleet_stub = stubs.FleetStub(fleet.agents["a"].channel)
            reply = await fleet_stub.Report(pb.Observed(node="nobody", session="none", tasks=[odd]))
            assert reply.known is False
            (job,) = await fleet.submit({"emulated": True, "profile": "resnet50-64", "steps": 5})
            assert (await fleet.over(job)).phase == "finished"

    asyncio.run(story())


async def first_of(stream):
    async for message in stream:
        return message
    return None


def test_long_lists_come_in_pages(tmp_path, monkeypatch):
    monkeypatch.setattr("rota.deploy.control._LISTED_AT_ONCE", 4)

    async def story():
        async with a_fleet(tmp_path, {"a": "v100=2"}, retention=Retention(keep_finished_jobs=3)) as fleet:
            spec = {"emulated": True, "profile": "resnet50-64", "steps": 1}
            numbers = [(await fleet.submit(spec))[0] for _ in range(9)]
            for number in numbers:
                await fleet.over(number)
            address = fleet.address
            return await asyncio.to_thread(listed, address, numbers)

    def listed(address, numbers):
        with Client(address, insecure=True) as client:
            newest = list(reversed(numbers))
            assert [info.job for info in client.jobs()] == newest
            assert [info.job for info in client.jobs(limit=6)] == newest[:6]
            assert [info.job for info in client.jobs(["finished"], limit=2)] == newest[:2]
            assert client.page(limit=1).total == 9
            assert client.jobs(["failed"]) == []
            assert [info.job for info in client.wait(numbers, 5.0)] == numbers

    asyncio.run(story())
