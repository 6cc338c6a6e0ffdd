"""One trace twice: simulated, and emulated on a real control plane; job by job, with the sign of every difference.

The emulation has everything of a deployment but the GPUs: a scheduler with its journal, agents over gRPC, leases,
checkpoints, jobs that stop and move. Only time is compressed.
"""

from __future__ import annotations

import asyncio
import math
import tempfile
from collections.abc import Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from rota.core.arrays import FloatArray
from rota.core.cluster import Cluster
from rota.core.errors import ConfigError, RotaError
from rota.core.job_spec import JobSpec
from rota.core.jobs import Jobs
from rota.core.lifecycle import JobPhase
from rota.deploy.agent.main import Agent, Equipment, running
from rota.deploy.scheduler.options import Options, Retention
from rota.deploy.scheduler.records import Job
from rota.deploy.scheduler.registry import Registry
from rota.deploy.scheduler.service import Scheduler
from rota.deploy.security.client import ClientSettings, connect
from rota.deploy.server.serving import Port, served
from rota.deploy.trace_arrays import order_of, time_limit_of

_SAVES_PER_ROUND = 8
_LONGEST_FACTOR = 5.0
"""An emulation that takes so much longer than its simulation has failed."""

Progress = Callable[[int, int], None]


@dataclass(frozen=True, kw_only=True)
class Difference:
    """One metric of both runs; `part` is (emulated - simulated) / simulated."""

    name: str
    simulated: float
    emulated: float

    @property
    def part(self) -> float:
        """How much larger the emulated value is."""
        return (self.emulated - self.simulated) / self.simulated if self.simulated else math.nan


@dataclass(frozen=True, kw_only=True)
class Fidelity:
    """Completion times of both runs, in the order of the trace; seconds."""

    simulated: FloatArray
    emulated: FloatArray
    simulated_makespan_s: float
    emulated_makespan_s: float
    preemptions: int
    wall_s: float

    @property
    def ratios(self) -> FloatArray:
        """Emulated over simulated completion time of each job."""
        return self.emulated / self.simulated

    def differences(self) -> list[Difference]:
        """The usual metrics."""
        pairs: list[tuple[str, Callable[[FloatArray], float]]] = [
            ("mean JCT", lambda x: float(np.mean(x))),
            ("median JCT", lambda x: float(np.median(x))),
            ("p95 JCT", lambda x: float(np.percentile(x, 95))),
            ("p99 JCT", lambda x: float(np.percentile(x, 99))),
        ]
        times = [Difference(name=n, simulated=f(self.simulated), emulated=f(self.emulated)) for n, f in pairs]
        makespan = Difference(name="makespan", simulated=self.simulated_makespan_s, emulated=self.emulated_makespan_s)
        return [*times, makespan]


def specs_of(jobs: Jobs, checkpoint_every_s: float) -> list[JobSpec]:
    """The jobs of a trace as emulated jobs."""
    return [
        JobSpec(
            name=f"trace-{row}",
            profile=jobs.profiles[int(jobs.profile[row])],
            gpus=int(jobs.gpus[row]),
            steps=max(1, round(float(jobs.total_steps[row]))),
            weight=float(jobs.weight[row]),
            tenant=jobs.tenants[int(jobs.tenant[row])],
            deadline_s=max(0.0, float(jobs.deadline[row] - jobs.submitted[row]))
            if np.isfinite(jobs.deadline[row])
            else 0.0,
            emulated=True,
            checkpoint_every_s=checkpoint_every_s,
            time_limit_s=time_limit_of(jobs, row),
        )
        for row in range(len(jobs))
    ]


async def emulate(
    jobs: Jobs, cluster: Cluster, options: Options, *, limit_s: float, progress: Progress | None = None
) -> tuple[list[Job], Scheduler]:
    """Run a trace on an emulated cluster; its jobs as the scheduler has them in the end."""
    with tempfile.TemporaryDirectory(prefix="rota-fidelity-") as place:
        folder = Path(place)
        retention = Retention(keep_finished_jobs=len(jobs))  # they are looked at in the end
        options = replace(
            options, state=folder / "state.db", checkpoints=str(folder / "checkpoints"), retention=retention
        )
        async with AsyncExitStack() as stack:
            port = Port(address="127.0.0.1:0", insecure=True)
            scheduler, number = await stack.enter_async_context(served(options, port))
            settings = ClientSettings(f"127.0.0.1:{number}", insecure=True)
            for server in cluster.servers:
                channel = connect(settings, agent=server.id)
                stack.push_async_callback(channel.close)
                agent = Agent(equipment=_equipment(server), folder=folder / server.id, channel=channel)
                await stack.enter_async_context(running(agent))
            await _all_joined(scheduler, len(cluster.servers))
            return await _play(jobs, scheduler, limit_s, progress), scheduler


def _equipment(server: Any) -> Equipment:
    has = server.capacity
    return Equipment(
        node=server.id,
        type=server.type,
        devices=tuple(f"gpu{i}" for i in range(has.gpus)),
        cpus=has.cpus,
        memory_gb=has.memory_gb,
        storage_mbps=has.storage_mbps,
        network_gbps=has.network_gbps,
        rack=server.rack,
        emulated=True,
    )


async def _all_joined(scheduler: Scheduler, count: int) -> None:
    for _ in range(600):
        if len(scheduler.published) == count:
            return
        await asyncio.sleep(0.05)
    raise RotaError(f"only {len(scheduler.published)} of {count} emulated servers came up within 30 s")


async def _play(jobs: Jobs, scheduler: Scheduler, limit_s: float, progress: Progress | None) -> list[Job]:
    """Submit every job at its time, counted from a point of the grid of rounds, and wait for the end."""
    clock, round_s = scheduler.clock, scheduler.rules.round_s
    specs = specs_of(jobs, max(0.1, clock.wall_seconds(round_s) / _SAVES_PER_ROUND))
    begin = math.ceil(clock.now() / round_s + 0.5) * round_s
    order = order_of(jobs)
    numbers: list[int] = []
    while len(numbers) < len(specs):
        first = len(numbers)
        wait = clock.wall_seconds(begin + float(jobs.submitted[first]) - clock.now())
        if wait > 0:
            await asyncio.sleep(wait)
        entries = order.entries(specs, first, order.end(first), numbers)
        submitted = partial(scheduler.requests.submit, entries, "fidelity", "")
        numbers += await asyncio.wrap_future(scheduler.post("submit", submitted))
    return await _until_over(scheduler, dict(enumerate(numbers)), begin + limit_s, progress)


async def _until_over(
    scheduler: Scheduler, numbers: dict[int, int], limit: float, progress: Progress | None
) -> list[Job]:

    def over_jobs(registry: Registry) -> list[Job]:
        """Nothing happens any more to jobs that are over, so they can be looked at from here."""
        return [registry.jobs[number] for number in numbers.values() if registry.jobs[number].over]

    while True:
        if scheduler.failure is not None:
            raise RotaError(f"the scheduler failed: {scheduler.failure!r}") from scheduler.failure
        over: list[Job] = await asyncio.wrap_future(scheduler.look("fidelity", over_jobs))
        if progress is not None:
            progress(len(over), len(numbers))
        if len(over) == len(numbers):
            by_number = {job.id: job for job in over}
            return [by_number[numbers[i]] for i in range(len(numbers))]
        if scheduler.clock.now() > limit:
            raise RotaError(f"{len(numbers) - len(over)} jobs have not ended long after they should have")
        await asyncio.sleep(0.1)


def compare(
    jobs: Jobs, simulated: Any, cluster: Cluster, options: Options, progress: Progress | None = None
) -> Fidelity:
    """Emulate a trace and set it against the result of its simulation (of `rota.simulate`)."""
    finish, arrival = (np.asarray(simulated.jobs[name], dtype=np.float64) for name in ("finish_s", "arrival_s"))
    left = int(np.isnan(finish).sum())
    if left:
        raise ConfigError(f"{left} jobs do not run to the end even in simulation; see its remarks")
    limit = _LONGEST_FACTOR * float(finish.max()) + 100 * (options.round_s or 360.0)
    done, scheduler = asyncio.run(emulate(jobs.by_arrival(), cluster, options, limit_s=limit, progress=progress))
    bad = [job for job in done if job.phase is not JobPhase.FINISHED]
    if bad:
        raise RotaError(f"{len(bad)} emulated jobs did not finish; the first: job {bad[0].id}, {bad[0].reason}")
    submitted, ended = (np.array([getattr(job, n) for job in done]) for n in ("submitted", "ended"))
    return Fidelity(
        simulated=finish - arrival,
        emulated=ended - submitted,
        simulated_makespan_s=float(finish.max() - arrival.min()),
        emulated_makespan_s=float(ended.max() - submitted.min()),
        preemptions=sum(job.preemptions for job in done),
        wall_s=scheduler.clock.wall_seconds(float(ended.max() - submitted.min())),
    )
