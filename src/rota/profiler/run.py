"""One run of the job with some CPUs, memory and storage, until its speed is believed or cannot be had.

The task is started by the launchers and held to the limits of a deployed one (rota.deploy.worker),
with a lease: if the profiler dies, its supervisor ends it.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from rota.core.trees import remove_tree
from rota.data import report
from rota.data.report import DataReport
from rota.deploy.clocks import machine_s
from rota.deploy.worker.endpoint import Endpoint
from rota.deploy.worker.host import Host
from rota.deploy.worker.ranks import AttemptId, Rank
from rota.deploy.worker.spec import TaskId, TaskSpec, logs_of
from rota.deploy.worker.status import Phase
from rota.deploy.worker.tasks import Lease
from rota.emulate.priority import realtime
from rota.profiler import endings
from rota.profiler.blocks import Block, Estimate, Tick, after_start, best_pace, blocks_of, estimate, hopeless
from rota.profiler.cell import CONTAMINATED, FAILED, MEASURED, WIDE, Cell, DataSide, JobToProfile, RunRecord
from rota.profiler.environment import variables
from rota.profiler.steps import OutputSteps, StepCount, compiled, of_rank
from rota.profiler.usage import UsageReader

LOOK_S = 0.1
LEASE_S = 20.0
TASK = "profile"
_FILLED = 0.02
"""The cache is full when misses are within this of what they will be."""
_SLOW_STEPS = 100
"""A run may last as long as so many steps take, and at most LONGEST_S."""
LONGEST_S = 900.0
_UNWATCHED = "its CPU time is not known, so nobody saw whether other programs disturbed it"


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRules:
    """How long a run may take."""

    measure_s: float = 45.0
    """Until an interval that is still too wide is taken as it is."""
    warm_up_s: float = 120.0
    """For filling the cache."""
    patience_s: float = 60.0
    """For the first step, and between two of them."""


@dataclass(slots=True)
class _Watch:
    """What is known of a run while it goes on."""

    cell: Cell
    cpu_count: int
    usage: UsageReader
    output: OutputSteps
    count: StepCount
    began: float
    ticks: list[Tick] = field(default_factory=list)
    data_at_start: DataReport | None = None
    data: DataReport | None = None
    recent: DataReport | None = None
    filled: bool = False
    measuring_since: float = 0.0
    estimate: Estimate | None = None
    blocks: list[Block] = field(default_factory=list)
    told: int = 0
    last_news: float = 0.0
    started: bool = False

    @property
    def steps(self) -> float:
        return self.ticks[-1].step - self.ticks[0].step if self.ticks else 0.0


Progress = Callable[[Cell, "Estimate | None", float], None]
"""(cell, what is known so far, seconds since the start)."""


class CellRunner:
    """Runs cells one after the other. Use it as an async context manager."""

    def __init__(
        self,
        job: JobToProfile,
        host: Host,
        folders: tuple[Path, Path],
        rules: RunRules,
        *,
        devices: tuple[str, ...] = (),
        extra_env: dict[str, str] | None = None,
        disks: tuple[str, ...] = (),
        temporary: Path | None = None,
    ) -> None:
        """`temporary` is a folder for temporary files of each run, which go with it; None: that of the machine."""
        self._job = job
        self._host = host
        self._folder, self._memory = folders
        self._rules = rules
        self._devices = devices
        self._extra_env = extra_env or {}
        self._disks = disks
        self._temporary = None if job.image else temporary
        self._attempt = 0
        self._count = StepCount()
        self._phase: Rank | None = None
        self._endpoint = Endpoint(self._folder / "run" / "agent.sock", on_change=self._heard)
        self.pattern = compiled(job.steps_regex) if job.steps_regex else None
        self.uses_data = False
        """Whether the last run had a data path of Rota, whose reads are limited by itself."""
        self.fastest = 0.0
        """The pace of a single CPU at its best, in all runs so far."""

    async def __aenter__(self) -> CellRunner:
        realtime()  # it mostly waits, and what it reads late it reads wrongly; where it is not allowed, it is not
        await self._endpoint.start()
        return self

    async def __aexit__(self, *_error: object) -> None:
        await self._endpoint.close()

    def _heard(self, rank: Rank) -> None:
        if rank.attempt.epoch == self._attempt:
            self._phase = rank
            if self.pattern is None:
                of_rank(self._count, rank)

    async def run(self, cell: Cell, progress: Progress) -> RunRecord:
        """Measure one cell. Whatever becomes of the job is in the record."""
        self._attempt += 1
        self._count = StepCount()
        self._phase = None
        task = TaskId(TASK, self._attempt)
        data_folder = self._memory / f"report-{self._attempt}"
        data_folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._endpoint.expect(AttemptId(TASK, self._attempt))
        try:
            self._host.start(self._spec(cell, task, data_folder), self._lease())
            watch = self._watch(cell, task)
            with contextlib.closing(watch.usage):
                watch.usage.take_in()
                reason = await self._until_believed(watch, task, data_folder, progress)
            return self._record(watch, reason)
        finally:
            await self._end(task)
            remove_tree(data_folder)
            if self._temporary is not None:
                remove_tree(self._temporary_files(self._temporary))

    def _temporary_files(self, base: Path) -> Path:
        """Of this run; its path is short, because sockets are made there."""
        return base / f"{self._attempt}"

    def _spec(self, cell: Cell, task: TaskId, data_folder: Path) -> TaskSpec:
        job = self._job
        env = variables(job, cell, self._endpoint.path, self._memory, data_folder)
        if self._temporary is not None:
            folder = self._temporary_files(self._temporary)
            folder.mkdir(mode=0o700)
            env["TMPDIR"] = str(folder)
        by_kernel = cell.mbps is not None and not self.uses_data
        return TaskSpec(
            id=task,
            argv=job.argv,
            env={**env, **self._extra_env},
            cwd=job.cwd,
            cpus=cell.cpus,
            memory_gb=cell.memory_gb,
            devices=self._devices,
            image=job.image,
            launcher=job.launcher,
            mounts=self._mounts(),
            read_mbps=cell.mbps if by_kernel else None,
            read_disks=self._disks if by_kernel else (),
            first=True,
        )

    def _mounts(self) -> tuple[str, ...]:
        if not self._job.image:
            return ()
        return (*self._job.mounts, str(self._endpoint.path.parent), str(self._memory))

    def _watch(self, cell: Cell, task: TaskId) -> _Watch:
        placed = self._host.table.spec(task)
        return _Watch(
            cell=cell,
            cpu_count=len(placed.cpu_ids),
            usage=UsageReader(self._host.enclosure(task), placed.cpu_ids),
            output=OutputSteps(logs_of(placed, self._host.table.path(task)), self.pattern, self._count),
            count=self._count,
            began=machine_s(),
            last_news=machine_s(),
        )

    def _lease(self) -> Lease:
        return Lease(machine_s() + LEASE_S)

    async def _until_believed(self, watch: _Watch, task: TaskId, folder: Path, progress: Progress) -> str:
        """Look until the speed is known; the reason if the run came to another end."""
        next_lease = 0.0
        while True:
            await asyncio.sleep(LOOK_S)
            now = machine_s()
            watch.output.poll()
            if now >= next_lease:
                self._host.lease(task, self._lease())
                next_lease = now + LEASE_S / 4
            watch.data = report.read(folder)
            if watch.count.told != watch.told:
                self._add_tick(watch, now)
            if self._host.ended(task):
                watch.output.poll()
                return endings.why_ended(self._host.status(task), watch.output, watch.count)
            progress(watch.cell, watch.estimate, now - watch.began)
            if watch.estimate is not None and watch.estimate.settled and self._whole(watch):
                return ""
            if reason := self._out_of_time(watch, now):
                return reason

    def _add_tick(self, watch: _Watch, now: float) -> None:
        watch.told = watch.count.told
        watch.last_news = now
        watch.ticks.append(Tick(watch.count.at, watch.count.step, watch.usage.read(), watch.count.epochs))
        if not watch.filled:
            watch.filled = _is_full(watch) or now - watch.began > self._rules.warm_up_s
            if watch.filled:
                watch.ticks = watch.ticks[-1:]
                watch.measuring_since = now
                watch.data_at_start = watch.data
        workers = watch.data.workers if watch.data is not None else 0
        steady = after_start(watch.ticks, workers)
        watch.blocks = blocks_of(steady, watch.cell.cpus, watch.cpu_count, self.fastest)
        watch.estimate = estimate(watch.blocks) if watch.filled else None

    def _whole(self, watch: _Watch) -> bool:
        return watch.data_at_start is not None or watch.data is None or watch.cell.replay

    def _out_of_time(self, watch: _Watch, now: float) -> str:
        patience_s = self._rules.patience_s
        if now - watch.last_news > patience_s:
            if not watch.told:
                return self._silence(watch, patience_s)
            return f"it hangs: no step in {patience_s:g} s, after {watch.count.step:g} steps"
        if not watch.filled or not watch.measuring_since:
            return ""
        if hopeless(watch.blocks):
            return "disturbed"
        step_s = (now - watch.measuring_since) / max(watch.steps, 1.0)
        allowed_s = min(max(self._rules.measure_s, _SLOW_STEPS * step_s), LONGEST_S)
        return "time is up" if now - watch.measuring_since > allowed_s else ""

    def _silence(self, watch: _Watch, patience_s: float) -> str:
        said = f"it printed {watch.output.lines} lines" if watch.output.lines else "it printed nothing"
        if self.pattern is not None:
            return f"no step in {patience_s:g} s: {said}, none that --steps-regex matches; correct the expression"
        if self._phase is not None:
            return f"no step in {patience_s:g} s, though its iterator said hello: it waits for its data or its device"
        fix = "wrap its loop in rota.client.Iterator, or give --steps-regex for what it prints"
        return f"nobody says how many steps it makes: {said} in {patience_s:g} s; {fix}"

    def _record(self, watch: _Watch, reason: str) -> RunRecord:
        found = watch.estimate
        pace = best_pace(watch.blocks) if watch.cpu_count == 1 else 0.0
        self.fastest = max(self.fastest, pace)
        base = {
            "cell": watch.cell,
            "seconds": machine_s() - watch.began,
            "resident_gb": watch.usage.resident_bytes / 1e9,
            "blocks": tuple((b.seconds, b.steps, round(b.denied, 4), round(b.stolen, 4)) for b in watch.blocks),
            "source": "output" if self.pattern is not None else "client",
            "pace": pace,
        }
        dirty = sum(not block.clean for block in watch.blocks)
        if found is None or (found.blocks < 2 and reason):
            disturbed = dirty > 0 and dirty >= len(watch.blocks) / 4
            why = endings.contamination(watch.blocks) if disturbed else reason or "too few steps to tell its speed"
            if why == "time is up":
                why = endings.too_few(watch.count, watch.steps)
            return RunRecord(**base, outcome=CONTAMINATED if disturbed else FAILED, reason=why)  # type: ignore[arg-type]
        outcome = MEASURED if found.settled else WIDE
        if not found.settled and dirty > len(watch.blocks) / 2:
            outcome = CONTAMINATED
            reason = endings.contamination(watch.blocks)
        data = _data_side(watch)
        self.uses_data = self.uses_data or data is not None
        return RunRecord(
            **base,  # type: ignore[arg-type]
            outcome=outcome,
            rate=found.rate,
            half_width=found.half_width,
            cpu_s=found.cpu_s if watch.usage.complete else 0.0,
            data=data,
            reason=reason if outcome != MEASURED else "",
            remarks=() if watch.usage.complete else (_UNWATCHED,),
        )

    async def _end(self, task: TaskId) -> None:
        """Stop the task, and all that it left behind."""
        if not self._host.table.path(task).exists():
            return
        with contextlib.suppress(Exception):
            self._endpoint.stop(AttemptId(TASK, self._attempt))
        ending = self._host.ending(task, 0.3, 2.0, machine_s())
        while (wait := ending.advance(machine_s())) is not None:
            await asyncio.sleep(min(wait, 0.05))
        while self._host.status(task).phase is not Phase.ENDED:
            await asyncio.sleep(0.05)
        self._endpoint.forget(AttemptId(TASK, self._attempt))
        self._host.forget(task)


def _is_full(watch: _Watch) -> bool:
    """Whether misses are as rare as they will be: from the second pass over the cached set on."""
    data = watch.data
    if data is None or watch.cell.replay or not data.cached_items:
        return True
    before = watch.recent
    if before is None or watch.data is None:
        watch.recent = data
        return False
    since = data.counters.since(before.counters)
    items = since.hits + since.misses
    if items < 50:
        return False
    watch.recent = data
    return since.misses / items <= 1 - data.cached_items / data.items + _FILLED


def _data_side(watch: _Watch) -> DataSide | None:
    """What the data path did while the speed was measured, per step."""
    if watch.data is None or watch.data_at_start is None or watch.cell.replay or watch.steps <= 0:
        return None
    since = watch.data.counters.since(watch.data_at_start.counters)
    items = since.hits + since.misses
    if not items:
        return None
    steps = watch.steps
    return DataSide(
        workers=watch.data.workers,
        items=items / steps,
        prepare_s=since.decode_s / steps,
        fetch_s=since.fetch_s / steps,
        fetched_mb=since.fetched_bytes / steps / 1e6,
        missed=since.misses / items,
        step_mb=(since.fetched_bytes + since.hit_bytes) / steps / 1e6,
        data_gb=watch.data.data_bytes / 1e9,
        cache_gb=watch.data.cache_bytes / 1e9,
    )
