"""Training code says its last word and ends; an agent that is busy sees the end first."""

import asyncio
import sys
import time

import pytest

from rota.deploy.agent.processes import Processes
from rota.deploy.worker.status import Phase
from rota.rpc import rota_pb2 as pb

CODE = """
import rota.client

with rota.client.lease(save=lambda path: (path / "x").write_text("x"), load=lambda path: None) as lease:
    while lease.next():
        __import__("time").sleep(0.01)
"""


async def after(seconds, holds):
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end, "it did not happen"
        await asyncio.sleep(0.02)


def an_order(steps):
    spec = pb.JobSpec(gpus=1, steps=steps, argv=[sys.executable, "-c", CODE], cwd="/")
    return pb.TaskOrder(
        job=3, epoch=1, state="run", lease_s=60.0, rate=1.0, ranks=1, world_size=1, devices=["0"], cpus=1, spec=spec
    )


@pytest.fixture
def slow_reader(monkeypatch):
    """The last words of a rank reach the agent half a second after they could."""
    read = asyncio.StreamReader.read

    async def late(self, count=-1):
        data = await read(self, count)
        if b'"stopped"' in data or b'"done"' in data:
            await asyncio.sleep(0.5)
        return data

    monkeypatch.setattr(asyncio.StreamReader, "read", late)


@pytest.mark.usefixtures("slow_reader")
@pytest.mark.parametrize(("steps", "stops", "outcome"), [(100_000, True, "stopped"), (30, False, "completed")])
def test_what_a_rank_said_last_is_waited_for(tmp_path, steps, stops, outcome):
    async def story():
        here = Processes(tmp_path / "agent")
        await here.open(tmp_path / "saved", lambda: None)
        runner = here.make(an_order(steps), lambda: None)
        runner.start(an_order(steps))
        try:
            await after(30, lambda: runner.state().step > 5)
            if stops:
                runner.stop("preempted")
            await after(30, lambda: runner.state().phase == "ended")
            return runner.state()
        finally:
            runner.kill("the test is over")
            await after(30, lambda: runner.state().phase == "ended")
            runner.forget()
            await here.close()

    state = asyncio.run(story())

    assert (state.outcome, state.saved_step > 5) == (outcome, True)


FALLS = """
import os, time
import rota.client

while not os.path.exists({go!r}):
    time.sleep(0.005)
with rota.client.lease(save=lambda path: (path / "x").write_text("x"), load=lambda path: None, every_steps=1) as lease:
    while lease.next():
        if lease.step == 2: raise SystemExit(3)
"""


def test_what_a_task_said_that_called_and_ended_while_the_agent_was_busy_is_heard(tmp_path, monkeypatch):
    """Nothing of it was taken in yet when its end is seen."""

    async def at_once(look):
        return look()

    async def story():
        here = Processes(tmp_path / "agent")
        await here.open(tmp_path / "saved", lambda: None)
        order = an_order(100)
        order.spec.argv[2] = FALLS.format(go=str(tmp_path / "go"))
        runner = here.make(order, lambda: None)
        runner.start(order)
        try:
            await after(30, lambda: runner.state().phase == "running")
            (tmp_path / "go").touch()
            end = time.monotonic() + 30
            while any(status.phase is not Phase.ENDED for status in runner.look().values()):
                assert time.monotonic() < end
                time.sleep(0.01)  # noqa: ASYNC251 - the event loop does nothing else meanwhile
            monkeypatch.setattr(asyncio, "to_thread", at_once)
            await here._look_at(runner)
            monkeypatch.undo()
            await after(30, lambda: runner.state().phase == "ended")
            return runner.state()
        finally:
            runner.forget()
            await here.close()

    state = asyncio.run(story())

    assert (state.outcome, state.exit_code, state.saved_step) == ("failed", 3, 2)
