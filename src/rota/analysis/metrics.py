"""How good was the schedule? Numbers from events, seen live or read back from a log.

Completion time (JCT) is finish minus arrival. The makespan goes from the first arrival to the end of
the last job that ran (its last step, or when it let go of its slots because it was dropped), or to
the end of the run if jobs are left then. Utilisation is GPU-seconds held by tasks
over GPU-seconds that were there in that time; two jobs that share GPUs hold them once. Cost is the
hourly price of the type x the hours held x GPUs, None if a type that was used has no price. The lease
extension fraction is, over all pairs of consecutive rounds, the part of the tasks whose jobs were
still there that kept their very slots. Finish-time fairness is defined in fairness.py; CPU and memory
utilisation are like that of GPUs, and None where the cluster does not say what it has. A deadline is
missed by a job that finishes after it, or that has not finished although it is past (or that was
given up).

`Planned` and `RoundsRan` come once per round, so their handlers do little; the ledger sums up what
jobs hold in large portions. With `measure="auto"` the range of jobs that count is found in
warmup.py.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict
from functools import partial
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from rota.analysis.breakdown import breakdown
from rota.analysis.fairness import fairness, finish_time_fairness
from rota.analysis.job_table import DROPPED, FINISHED, REJECTED, STATUS_NAMES, UNFINISHED, JobTable
from rota.analysis.ledger import Ledger
from rota.analysis.warmup import AUTO, SteadyWindow, at_the_end, next_look, on_the_way
from rota.core.arrays import BoolArray, FloatArray, IntArray, how_many
from rota.core.cluster import Cluster
from rota.core.events import (
    Allocated,
    CapacityChanged,
    Event,
    JobsDropped,
    JobsFinished,
    JobsRejected,
    JobsSubmitted,
    Planned,
    RoundsRan,
    SolveFailed,
)
from rota.core.placement import Placement, nobody
from rota.core.ports import Throughputs

PERCENTILES = (("p50_jct_s", 50.0), ("p90_jct_s", 90.0), ("p99_jct_s", 99.0), ("p999_jct_s", 99.9))


class Metrics:
    """Observes a run and sums it up at any time."""

    def __init__(
        self,
        cluster: Cluster,
        measure: tuple[int, int] | str | None = None,
        speeds: Throughputs | None = None,
        *,
        endless: bool = False,
    ) -> None:
        """`speeds` are for finish-time fairness; `endless` says how `measure="auto"` chooses."""
        self.cluster = cluster
        self.auto = measure == AUTO
        self.measure = None if measure is None or isinstance(measure, str) else measure
        self.speeds = speeds
        self.table = JobTable()
        self.ledger = Ledger(cluster)
        self._endless = endless
        self._window: SteadyWindow | None = None
        self._next_look = next_look(0)
        self.rounds = 0
        self.solves = 0
        self.solve_failures = 0
        self.kept = 0
        self.continuing = 0
        self._up_since: list[tuple[float, FloatArray]] = [(-np.inf, np.ones(len(cluster.types)))]
        """From when on which part of the GPUs of each type was up."""
        self._placement: Placement = nobody()
        self._last_run: tuple[Placement, RoundsRan] | None = None
        """The last rounds in which somebody ran, for when jobs that are dropped let go of their slots."""
        self._alone = True
        self._just_planned = 0
        self._leases = 0
        self._gone: list[IntArray] = []

    @property
    def busy_gpu_s(self) -> float:
        """GPU-seconds held by tasks."""
        return float(self.ledger.by_type.sum())

    @property
    def cost(self) -> float | None:
        """Price of the GPU-seconds held; None if some were on a type without a price."""
        if self.ledger.unpriced():
            return None
        used = self.ledger.by_type > 0
        return float(self.ledger.by_type[used] @ self.cluster.prices[used]) / 3600.0

    def __getstate__(self) -> dict[str, Any]:
        """A checkpoint has no catalogue in it; it is attached again when the run goes on."""
        return {**self.__dict__, "speeds": None}

    def settle(self) -> SteadyWindow | None:
        """The jobs that count of a workload without an end, as soon as that is known.

        Asked once in a round.
        """
        looking = self.auto and self._endless and self._window is None
        if looking and len(self.table) >= self._next_look:
            self._window = on_the_way(self.table)
            self._next_look = next_look(len(self.table))
        return self._window

    def window(self) -> SteadyWindow | None:
        """The jobs that count with `measure="auto"`, from what is known now."""
        if not self.auto:
            return None
        settled = on_the_way(self.table) if self._endless else None
        return settled or at_the_end(self.table)

    def observe(self, event: Event) -> None:
        """Take an event into account; events come in the order in which they happened."""
        handler = self._HANDLERS.get(type(event))
        if handler is not None:
            handler(self, event)

    def handler(self, kind: type) -> Callable[[Any], None] | None:
        """The part of `observe` for events of a kind."""
        handler = self._HANDLERS.get(kind)
        return None if handler is None else partial(handler, self)

    def _planned(self, event: Planned) -> None:
        placement = event.plan.placement
        self.continuing += self._leases_still_there()
        self._just_planned = 1
        self._leases = 0
        if placement.fraction is None:  # the ideal mechanism has no slots to keep
            self.kept += how_many(placement.kept)
            self._leases = len(placement.first)
        if placement is not self._placement:
            self._placement = placement
            self._alone = not placement.shared

    def _ran(self, event: RoundsRan) -> None:
        self.rounds += event.rounds
        self.ledger.ran(self._placement, event.seconds, event.alone)
        if len(event.seconds):
            self._last_run = self._placement, event
        if event.rounds == 0:  # time was up in the middle of a round
            return
        unchanged = (event.rounds - self._just_planned) * self._leases
        self.kept += unchanged
        self.continuing += unchanged
        self._just_planned = 0

    def _leases_still_there(self) -> int:
        if not self._gone:
            return self._leases
        gone = np.concatenate(self._gone)
        self._gone.clear()
        if self._alone:  # jobs that ended were running, each as a task of its own
            return max(0, self._leases - len(gone))
        ended = np.isin(self._placement.first, gone) | np.isin(self._placement.second, gone)
        return max(0, self._leases - int(np.count_nonzero(ended)))

    def _submitted(self, event: JobsSubmitted) -> None:
        self.table.add(event.first_id, event.jobs)

    def _finished(self, event: JobsFinished) -> None:
        self.table.finish(event.jobs, event.finished_at)
        self._gone.append(event.jobs)

    def _dropped(self, event: JobsDropped) -> None:
        self.table.give_up(event.jobs, DROPPED, event.at, self._held_until(event.jobs))
        self._gone.append(event.jobs)

    def _held_until(self, jobs: IntArray) -> FloatArray:
        """When jobs held their slots for the last time; NaN for those that were not in the last rounds."""
        until = np.full(len(jobs), np.nan)
        if self._last_run is None:
            return until
        placement, ran = self._last_run
        ends = np.minimum(ran.start + ran.seconds, ran.at)
        for members in (placement.first, placement.second):
            of_job = dict(zip(members.tolist(), ends.tolist(), strict=True))
            until = np.fmax(until, [of_job.get(job, np.nan) for job in jobs.tolist()])
        return until

    def _rejected(self, event: JobsRejected) -> None:
        self.table.give_up(event.jobs, REJECTED, event.at)

    def _allocated(self, _event: Allocated) -> None:
        self.solves += 1

    def _solve_failed(self, _event: SolveFailed) -> None:
        self.solve_failures += 1

    def _capacity_changed(self, event: CapacityChanged) -> None:
        self._up_since.append((event.at, event.capacity / self.cluster.capacity))

    def summary(self, now: float) -> dict[str, Any]:
        """The numbers of the run up to `now`; None where nothing was measured."""
        table = self.table
        arrival = table.floats("arrival_s")
        finish = table.floats("finish_s")
        window = self.window()
        counted = table.counted(self.measure if window is None else window.range)
        measured = counted & (table.ints("status") == FINISHED)
        jct = (finish - arrival)[measured]
        rho = finish_time_fairness(table, self.cluster, self.speeds)
        tenant = table.ints("tenant")
        tenants = list(table.tenants.known)
        span = self._span(now)
        up_s = self._up_s(span)
        there_gpu_s = float(self.cluster.capacity @ up_s)
        return {
            "mean_jct_s": float(jct.mean()) if len(jct) else None,
            **{name: float(np.percentile(jct, p)) if len(jct) else None for name, p in PERCENTILES},
            "makespan_s": span[1] - span[0],
            "utilization": self.busy_gpu_s / there_gpu_s if there_gpu_s > 0 else 0.0,
            **self._beside_gpus(up_s),
            "cost": self.cost,
            "jobs_measured": len(jct),
            "jobs_submitted": int(np.count_nonzero(table.submitted())),
            "jobs_finished": table.with_status(FINISHED),
            "jobs_dropped": table.with_status(DROPPED),
            "jobs_rejected": table.with_status(REJECTED),
            "rounds": self.rounds,
            "solves": self.solves,
            "solve_failures": self.solve_failures,
            "lease_extension_fraction": self.kept / self.continuing if self.continuing else None,
            **self._deadlines(counted, now),
            **asdict(fairness(rho[measured])),
            "measured_from": None if window is None else window.first,
            "measured_to": None if window is None else window.last,
            "steady": None if window is None else window.steady,
            "mean_jct_s_by_weight": _means(jct, table.floats("weight")[measured], "{:g}".format),
            "mean_jct_s_by_tenant": _means(jct, tenant[measured], tenants.__getitem__),
            **breakdown(table, self.ledger, rho, counted, now),
        }

    def _span(self, now: float) -> tuple[float, float]:
        """The first arrival, and the end of the last job that ran, or of the run if jobs are left then."""
        table = self.table
        if len(table) == 0:
            return 0.0, float(now)
        first = float(table.floats("arrival_s")[table.submitted()].min())
        if table.with_status(UNFINISHED) > 0:
            return first, float(now)
        return first, float(np.fmax.reduce(table.floats("ran_until_s"), initial=first))

    def _up_s(self, span: tuple[float, float]) -> FloatArray:
        """[T] seconds of this time in which GPUs of a type were up, on average over them."""
        begin, end = span
        since = [max(at, begin) for at, _ in self._up_since]
        until = [*since[1:], end]
        up_s: FloatArray = np.zeros(len(self.cluster.types))
        for start, stop, (_, up) in zip(since, until, self._up_since, strict=True):
            up_s += up * max(0.0, min(stop, end) - start)
        return up_s

    def _beside_gpus(self, up_s: FloatArray) -> dict[str, float | None]:
        """Utilisation of CPUs and memory; servers are up as far as GPUs of their type are."""
        ledger = self.ledger
        cluster = self.cluster
        server_up_s = up_s[cluster.server_type]
        there = {
            "cpu_utilization": cluster.server_cpus @ server_up_s,
            "memory_utilization": cluster.server_memory_gb @ server_up_s,
        }
        held = {
            "cpu_utilization": ledger.cpu_s if ledger.knows_cpus else None,
            "memory_utilization": ledger.memory_gb_s if ledger.knows_memory else None,
        }
        return {name: _part(amount, float(there[name])) for name, amount in held.items()}

    def _deadlines(self, counted: BoolArray, now: float) -> dict[str, int]:
        bound, missed = self.table.deadlines(counted, now)
        violations = int(np.count_nonzero(missed))
        return {"slo_jobs": int(np.count_nonzero(bound)), "slo_violations": violations}

    def jobs(self) -> dict[str, NDArray[Any]]:
        """One array per column, one entry per job that was submitted; NaN where a job has no finish."""
        table = self.table
        arrival = table.floats("arrival_s")
        finish = table.floats("finish_s")
        status = table.ints("status")
        window = self.window()
        counted = table.counted(self.measure if window is None else window.range)
        names = table.names()
        columns = {
            "job_id": np.arange(len(table)),
            **({} if names is None else {"name": names}),
            "arrival_s": arrival.copy(),
            "finish_s": finish.copy(),
            "jct_s": finish - arrival,
            "profile": table.profiles.text(table.ints("profile")),
            "gpus": table.ints("gpus").copy(),
            "weight": table.floats("weight").copy(),
            "tenant": table.tenants.text(table.ints("tenant")),
            "steps": table.floats("steps").copy(),
            "deadline_s": table.floats("deadline_s").copy(),
            "status": np.array(STATUS_NAMES, dtype=object)[status],
            "measured": counted & (status == FINISHED),
            "ftf": finish_time_fairness(table, self.cluster, self.speeds),
            "gpu_s": self.ledger.gpu_s(len(table)),
            "cost": self.ledger.price(len(table)),
        }
        there = table.submitted()
        return columns if there.all() else {name: column[there] for name, column in columns.items()}

    _HANDLERS: ClassVar[Mapping[type, Callable[[Metrics, Any], None]]] = {
        Planned: _planned,
        RoundsRan: _ran,
        JobsSubmitted: _submitted,
        JobsFinished: _finished,
        JobsDropped: _dropped,
        JobsRejected: _rejected,
        Allocated: _allocated,
        SolveFailed: _solve_failed,
        CapacityChanged: _capacity_changed,
    }


def _part(held: float | None, there: float) -> float | None:
    if held is None:
        return None
    return held / there if there > 0 else 0.0


def _means(values: FloatArray, group: NDArray[Any], name: Callable[[Any], str]) -> dict[str, float]:
    if not len(values):
        return {}
    groups, index = np.unique(group, return_inverse=True)
    means = np.bincount(index, weights=values) / np.bincount(index)
    return {name(g): float(m) for g, m in zip(groups, means, strict=True)}
