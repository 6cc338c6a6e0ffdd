"""The agent's line to the scheduler: how long a list lends devices when it was long on its way."""

import asyncio

import grpc
import pytest

from rota.deploy.agent.link import Link
from rota.rpc import rota_pb2 as pb
from rota.rpc import rota_pb2_grpc as stubs

LATE_S = 0.5


class Scheduler(stubs.FleetServicer):
    """Writes one list, which then takes its time."""

    def __init__(self, *, after_report):
        self.after_report, self.reported = after_report, asyncio.Event()

    async def Register(self, _request, _context):
        return pb.RegisterReply(session="s", heartbeat_s=10)

    async def Report(self, _request, _context):
        self.reported.set()
        return pb.ReportReply(known=True)

    async def Watch(self, _request, _context):
        if self.after_report:
            await self.reported.wait()
        order = pb.TaskOrder(job=1, epoch=1, state="run", lease_s=5.0)
        written = pb.Desired(version=1, tasks=[order], heard=int(self.after_report), heard_ago_s=0.0)
        await asyncio.sleep(LATE_S)
        yield written
        await asyncio.sleep(60)


class Taken:
    """What reached the tasks of the agent."""

    taken_over = 0

    def __init__(self):
        self.list = asyncio.get_running_loop().create_future()

    def take(self, desired):
        self.list.set_result(desired)

    def states(self):
        return []


@pytest.mark.parametrize("after_report", [True, False])
def test_time_that_a_list_was_on_its_way_is_no_part_of_the_lease(after_report):
    async def scenario():
        server = grpc.aio.server()
        stubs.add_FleetServicer_to_server(Scheduler(after_report=after_report), server)
        port = server.add_insecure_port("127.0.0.1:0")
        await server.start()
        async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
            link = Link(channel, lambda: pb.RegisterRequest(node="n"), lambda _: None, lambda: 0.0)
            link.tasks = Taken()
            running = asyncio.create_task(link.run())
            desired = await asyncio.wait_for(link.tasks.list, 20)
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)
        await server.stop(0)
        return desired.tasks[0].lease_s

    assert asyncio.run(scenario()) <= 5.0 - LATE_S
