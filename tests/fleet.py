"""A scheduler and agents of emulated servers in this process, over a real port; jobs are real processes."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
import time
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from rota.deploy.agent.devices import Devices
from rota.deploy.agent.machine import MachineOptions, equipment
from rota.deploy.agent.main import Agent
from rota.deploy.agent.processes import Processes
from rota.deploy.scheduler.options import Options
from rota.deploy.security.client import ClientSettings, connect
from rota.deploy.server.serving import Port, served
from rota.rpc import rota_pb2 as pb
from rota.rpc import rota_pb2_grpc as stubs

OVER = ("finished", "failed", "cancelled")
SOURCE = str(Path(__file__).parent.parent / "src")


def training(*words: str) -> list[str]:
    """The command of an emulated training job."""
    return [sys.executable, "-m", "rota.emulate.job", *words]


@dataclass(kw_only=True)
class AFleet:
    """What a test talks to."""

    folder: Path
    control: Any
    agents: dict[str, Agent]
    address: str = ""
    again: Any = None
    running: dict[str, asyncio.Task[None]] = field(default_factory=dict)

    async def submit(self, *specs: dict[str, Any]) -> list[int]:
        """Jobs; those with a command find this copy of Rota."""
        env = {"PYTHONPATH": SOURCE}
        jobs = [pb.JobSpec(**{"gpus": 1, "env": env if "argv" in s else {}, "max_restarts": 0, **s}) for s in specs]
        return list((await self.control.Submit(pb.SubmitRequest(jobs=jobs))).jobs)

    async def job(self, number: int) -> pb.JobInfo:
        """How a job is."""
        for agent in self.running.values():
            if agent.done():
                agent.result()
        return await self.control.GetJob(pb.JobRequest(job=number))

    async def until(self, number: int, holds: Any, seconds: float = 30.0) -> pb.JobInfo:
        """Wait until something holds of a job."""
        end = time.monotonic() + seconds
        while not holds(info := await self.job(number)):
            assert time.monotonic() < end, f"it did not happen: {info}"
            await asyncio.sleep(0.05)
        return info

    async def over(self, number: int, seconds: float = 40.0) -> pb.JobInfo:
        """Wait until a job is over."""
        return await self.until(number, lambda info: info.phase in OVER, seconds)

    async def output(self, number: int) -> str:
        """What a job wrote."""
        found = b""
        async for chunk in self.control.Logs(pb.LogsRequest(job=number)):
            found += chunk.data
        return found.decode()

    async def restart(self, name: str) -> None:
        """End an agent and start the next one in its folder; jobs go on meanwhile."""
        self.running[name].cancel()
        await asyncio.gather(self.running[name], return_exceptions=True)
        self.agents[name] = self.again(name)
        self.running[name] = asyncio.ensure_future(self.agents[name].run())

    def pid(self, number: int) -> int:
        """The process of a job."""
        for path in Path("/proc").glob("[0-9]*/environ"):
            with contextlib.suppress(OSError):
                said = path.read_bytes().split(b"\0")
                here = any(entry.startswith(b"ROTA_TASK_FOLDER=" + os.fsencode(self.folder)) for entry in said)
                if here and b"ROTA_JOB=%d" % number in said:
                    return int(path.parent.name)
        raise AssertionError(f"job {number} has no process")


@contextlib.asynccontextmanager
async def a_fleet(folder: Path, servers: dict[str, str], **options: Any):
    """`servers` maps names to what `rota agent --gpus` takes, then `:cpus=` and `:memory=` if need be."""
    settings = {"policy": "fifo", "round_s": 1.0, "time_scale": 1.0, "profiles": "gpemu", **options}
    asked = Options(state=folder / "state.db", checkpoints=str(folder / "checkpoints"), **settings)
    async with served(asked, Port(address="127.0.0.1:0", insecure=True)) as (_, port):
        where = ClientSettings(f"127.0.0.1:{port}", insecure=True)
        fleet = AFleet(
            folder=folder, control=stubs.ControlStub(connect(where, tenant="me")), agents={}, address=where.address
        )
        fleet.again = lambda name: _agent(folder / name, name, servers[name], where)
        for name in servers:
            fleet.agents[name] = fleet.again(name)
            came = asyncio.Event()
            fleet.running[name] = asyncio.ensure_future(fleet.agents[name].run(came.set))
            await asyncio.wait_for(came.wait(), 20.0)
        try:
            yield fleet
            live = (await fleet.control.ListJobs(pb.ListJobsRequest())).jobs
            await fleet.control.Cancel(pb.CancelRequest(jobs=[job.job for job in live if job.phase not in OVER]))
            for job in live:
                await fleet.over(job.job)
        finally:
            for task in fleet.running.values():
                task.cancel()
            await asyncio.gather(*fleet.running.values(), return_exceptions=True)


def _agent(folder: Path, name: str, text: str, where: ClientSettings) -> Agent:
    gpus, _, beside = text.removeprefix("emulate:").partition(":")
    amounts = dict(part.split("=") for part in beside.split(":")) if beside else {}
    said = MachineOptions(name=name, cpus=float(amounts.get("cpus", 0)), memory_gb=float(amounts.get("memory", 0)))
    offered = equipment(f"emulate:{gpus}", said)
    devices = Devices(offered, folder)
    processes = Processes(folder, devices=devices)
    return Agent(
        equipment=replace(offered, limits=processes.describe()), folder=folder, channel=connect(where, agent=name),
        processes=processes, devices=devices,
    )  # fmt: skip
