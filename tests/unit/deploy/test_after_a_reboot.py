"""Leases that an agent kept on disk, read after its machine was started again: seconds since boot began anew."""

import asyncio
import json

import pytest

from rota.deploy.agent import emulated, process_runner, processes
from rota.deploy.agent.emulated import recover
from rota.deploy.agent.processes import Processes
from rota.rpc import rota_pb2 as pb


def an_order(**spec):
    return pb.TaskOrder(
        job=3, epoch=2, state="run", lease_s=60.0, rate=1.0, ranks=1, world_size=1, devices=["0"],
        spec=pb.JobSpec(gpus=1, steps=1000, **spec),
    )  # fmt: skip


def keep_emulated(folder):
    async def story():
        runner = emulated.EmulatedRunner(an_order(emulated=True), lambda: None, folder / "saved", folder)
        runner.start(an_order(emulated=True))
        runner._task.cancel()

    asyncio.run(story())


async def recovered(folder):
    (runner,) = recover(folder, lambda: None, folder / "saved")
    state = runner.state()
    if runner._task is not None:
        runner._task.cancel()
    return state


def test_an_emulated_job_ends_with_its_machine(tmp_path, monkeypatch):
    keep_emulated(tmp_path)
    monkeypatch.setattr(emulated, "boot_id", lambda: "another")

    state = asyncio.run(recovered(tmp_path))

    assert (state.phase, state.outcome) == ("ended", "lost")
    assert state.detail == "the machine was started again meanwhile"


@pytest.mark.parametrize("kept_by_an_older_version", [False, True])
def test_an_emulated_job_goes_on_over_a_restart_of_its_agent_alone(tmp_path, kept_by_an_older_version):
    keep_emulated(tmp_path)
    if kept_by_an_older_version:
        (path,) = tmp_path.glob("*.json")
        kept = json.loads(path.read_text())
        del kept["boot"]
        path.write_text(json.dumps(kept))

    state = asyncio.run(recovered(tmp_path))

    assert state.phase == "running"


def test_a_lease_of_another_boot_has_ended(tmp_path, monkeypatch):
    leases = []
    monkeypatch.setattr(process_runner.ProcessRunner, "resume", lambda _, lease_end: leases.append(lease_end))

    async def story():
        here = Processes(tmp_path)
        here.keep(an_order(argv=["true"]), 1e9)
        list(here.recover())
        monkeypatch.setattr(processes, "boot_id", lambda: "another")
        list(here.recover())
        here.host.close()

    asyncio.run(story())

    assert leases == [1e9, 0.0]
