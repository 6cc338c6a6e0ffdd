"""One simulation under way: progress, remarks, Ctrl-C and checkpoints."""

from __future__ import annotations

import contextvars
import ctypes
import math
import signal
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from rota.analysis.guard import Guard
from rota.analysis.job_table import UNFINISHED
from rota.analysis.metrics import Metrics
from rota.analysis.waiting import Waiting
from rota.core.allocation import Allocation
from rota.core.arrays import how_many
from rota.core.events import Event, JobsDropped, JobsFinished, JobsRejected, RunEnded, RunStarted
from rota.core.jobs import Source
from rota.core.placement import Placement
from rota.core.ports import Beliefs, Handler, Mechanism, Observer, Policy, Throughputs
from rota.core.view import View
from rota.engine import checkpoint as checkpoints
from rota.engine.loop import Engine
from rota.engine.sense import Checks
from rota.engine.state import State
from rota.mechanisms.registry import ComposedMechanism
from rota.sim.world import World

_REPORT_EVERY_S = 0.1
RUN_THREAD = "rota-run"
_LOOK_EVERY_S = 0.1
_PATIENCE_S = 0.25
"""For how long Ctrl-C waits for the end of a round, and for that of a decision that was told to end."""
_SAVED = ("done", "finished", "notes", "target", "_measure")
"""Of a `Watch`, in a checkpoint."""


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a run is: of the measured jobs, or of all if none are singled out."""

    now: float
    finished: int
    target: int | None
    active: int
    rounds: int
    over: int = 0
    """Jobs that are done, dropped or refused, of those that the run waits for."""
    total: int | None = None
    """How many jobs the run waits for; None where that is not known."""
    until: float | None = None
    """Simulated time at which the run ends at the latest."""

    @property
    def part(self) -> float | None:
        """Of the run, from 0 to 1: jobs that are over, or simulated time, whichever is further."""
        parts = []
        if self.total:
            parts.append(self.over / self.total)
        if self.until is not None:
            parts.append(self.now / self.until)
        return min(1.0, max(parts)) if parts else None


class Watch:
    """Counts measured jobs, reports progress and remembers what happened to jobs that did not finish."""

    def __init__(
        self,
        measure: tuple[int, int] | None,
        progress: Callable[[Progress], None] | None = None,
        waiting: Waiting | None = None,
        guard: Guard | None = None,
    ) -> None:
        """`waiting` looks at who waits beside idle GPUs, for mechanisms under which that happens."""
        self.stop_asked = False
        self.finished = 0
        self.target = None if measure is None else measure[1] - measure[0]
        self.done = 0
        self.notes: dict[str, list[int]] = {}
        self._measure = measure
        self._waiting = waiting
        self._progress = progress
        self._guard = guard
        self._next_report = 0.0

    def observers(self) -> list[Observer]:
        """Who of this has to hear of events."""
        return [part for part in (self._waiting, self._guard) if part is not None] + [self]

    def handler(self, kind: type[Event]) -> Handler | None:
        """Counts jobs that are done, in whatever way."""
        return self._done if kind in (JobsFinished, JobsDropped, JobsRejected) else None

    def _done(self, event: JobsFinished | JobsDropped | JobsRejected) -> None:
        if isinstance(event, JobsFinished):
            self.finished += len(event.jobs)
        else:
            self.notes.setdefault(event.reason, []).extend(event.jobs.tolist())
        if self._measure is not None:
            first, last = self._measure
            self.done += sum(first <= job < last for job in event.jobs.tolist())

    def singled_out(self, measure: tuple[int, int], done: int) -> None:
        """From now on these jobs are waited for; so many of them are done."""
        self._measure = measure
        self.target = measure[1] - measure[0]
        self.done = done

    def follow(self, state: State) -> None:
        """Show the state of the run to a guard."""
        if self._guard is not None:
            self._guard.follow(state)

    def satisfied(self) -> bool:
        """Whether the run can stop."""
        return self.stop_asked or self.done == self.target or self.stopped() is not None

    def stopped(self) -> str | None:
        """Why the guard ended the run, if it did."""
        return None if self._guard is None else self._guard.verdict()

    def last_job(self, session: Session) -> int | None:
        """The run ends when all jobs before this one are over; None where that is not known."""
        if self._measure is not None:
            return self._measure[1]
        source = session.source
        all_there = not source.endless and source.peek() == math.inf
        return len(session.metrics.table) if all_there else source.count

    def report(self, session: Session, until: float | None) -> None:
        """Tell how far the run is, some ten times a second."""
        if self._progress is None or time.monotonic() < self._next_report:
            return
        total = self.last_job(session)
        progress = Progress(
            now=session.world.now(),
            finished=self.finished if self.target is None else self.done,
            target=self.target,
            active=len(session.engine.state),
            rounds=session.metrics.rounds,
            over=how_many(session.metrics.table.ints("status")[:total] != UNFINISHED),
            total=total,
            until=until,
        )
        self._progress(progress)
        self._next_report = time.monotonic() + _REPORT_EVERY_S

    def remarks(self) -> list[str]:
        """What a user should know: jobs that did not run to the end or waited beside idle GPUs, a load at the limit."""
        said = []
        for reason, jobs in self.notes.items():
            names = ", ".join(str(j) for j in jobs[:5]) + (", ..." if len(jobs) > 5 else "")
            said.append(f"{len(jobs)} job{'s' if len(jobs) > 1 else ''} did not run to the end ({names}): {reason}")
        if self._waiting is not None:
            said += self._waiting.remarks()
        remark = None if self._guard is None else self._guard.remark()
        return said if remark is None else [*said, remark]

    def saved(self) -> dict[str, Any]:
        """What a checkpoint must hold."""
        return {
            **{name: getattr(self, name) for name in _SAVED},
            "waiting": None if self._waiting is None else self._waiting.saved(),
            "guard": None if self._guard is None else self._guard.saved(),
        }

    def restore(self, saved: Mapping[str, Any]) -> None:
        """Go on from a checkpoint."""
        self.__dict__.update({name: saved[name] for name in _SAVED})
        if self._waiting is not None:
            self._waiting.restore(saved["waiting"])
        if self._guard is not None:
            self._guard.restore(saved["guard"])


@dataclass(frozen=True, kw_only=True)
class Session:
    """The parts of one simulation."""

    engine: Engine
    mechanism: ComposedMechanism
    world: World
    source: Source
    metrics: Metrics
    watch: Watch
    config: dict[str, Any]
    checks: Checks
    deciding: Deciding
    about_the_trace: Sequence[str] = ()
    """What its reader had to say: lines that were left out, and the like."""

    def run(self, until: float | None, save_to: str | Path | None, every: float | None, *, fresh: bool) -> float:
        """Run to the end; CPU seconds."""
        saver = Saver(self, save_to, every)

        def finished() -> bool:
            if save_to is not None:
                saver.maybe(time_is_up=until is not None and self.world.now() >= until)
            self.watch.report(self, until)
            if self.metrics.auto and self.watch.target is None:
                self._settle()
            return self.watch.satisfied()

        start = time.process_time()

        def work() -> None:
            if fresh:
                self.engine.emit(RunStarted(at=0.0, config=self.config))
            self.engine.run(finished, math.inf if until is None else until)

        if threading.current_thread() is threading.main_thread() and sys.getprofile() is sys.gettrace() is None:
            if _RunThread(work, self.deciding).run(self.watch):
                self.engine.emit(RunEnded(at=self.world.now(), reason="interrupted in the middle of a decision"))
        else:
            work()
        if self.watch.stop_asked:
            saver.save()
        return time.process_time() - start

    def _settle(self) -> None:
        """End the run with the jobs that count, as soon as it is known which these are."""
        window = self.metrics.settle()
        if window is not None:
            status = self.metrics.table.ints("status")[window.first : window.last]
            self.watch.singled_out(window.range, int(np.count_nonzero(status != UNFINISHED)))

    def parts(self) -> dict[str, Any]:
        """What a checkpoint must hold."""
        return {
            "state": self.engine.state,
            "trigger": self.engine.trigger,
            "loop": self.engine.saved(),
            "metrics": self.metrics,
            "world": self.world.snapshot(),
            "source": self.source.snapshot(),
            "watch": self.watch.saved(),
            "mechanism": self.mechanism.saved(),
        }

    def remarks(self) -> list[str]:
        """What the reader of the trace had to say, and what the mechanism has about the run so far."""
        return [*self.about_the_trace, *self.mechanism.remarks()]

    def resumed(self, parts: Mapping[str, Any], policy: Policy, speeds: Throughputs) -> Session:
        """The same session with the parts of a checkpoint in the place of fresh ones."""
        state: State = parts["state"]
        metrics: Metrics = parts["metrics"]
        metrics.speeds = speeds
        state.attach(speeds)
        self.watch.restore(parts["watch"])
        self.watch.follow(state)
        self.source.restore(parts["source"])
        world = World(self.source, state.rules, speeds if isinstance(speeds, Beliefs) else None)
        world.restore(parts["world"])
        self.mechanism.restore(parts["mechanism"])
        deciding = Deciding(policy, self.mechanism)
        engine = Engine(
            state=state,
            policy=deciding,
            mechanism=deciding,
            clock=world,
            executor=world,
            observers=[metrics, world, *self.watch.observers()],
            trigger=parts["trigger"],
            checks=self.checks,
        )
        engine.restore(parts["loop"])
        return replace(self, engine=engine, world=world, metrics=metrics, deciding=deciding)


class Saver:
    """Writes checkpoints when it is time."""

    def __init__(self, session: Session, path: str | Path | None, every: float | None) -> None:
        self._session = session
        self._path = path
        self._every = math.inf if every is None else every
        self._next = session.world.now() + self._every

    def maybe(self, *, time_is_up: bool) -> None:
        """Save if the time has come, or the run ends before its jobs do."""
        if self._path is not None and (time_is_up or self._session.world.now() >= self._next):
            self.save()
            self._next = self._session.world.now() + self._every

    def save(self) -> None:
        """Save now."""
        if self._path is not None:
            saved = checkpoints.Checkpoint(config=self._session.config, parts=self._session.parts())
            checkpoints.save(self._path, saved)


class Deciding:
    """A policy and a mechanism that say whether one of them is at work: then nothing changes but what they return."""

    def __init__(self, policy: Policy, mechanism: Mechanism) -> None:
        self._allocate = policy.allocate
        self._place = mechanism.place
        self.busy = False

    def allocate(self, view: View) -> Allocation:
        """The policy's answer."""
        self.busy = True
        try:
            return self._allocate(view)
        finally:
            self.busy = False

    def place(self, view: View, allocation: Allocation) -> Placement:
        """The mechanism's answer."""
        self.busy = True
        try:
            return self._place(view, allocation)
        finally:
            self.busy = False


class _Asked(BaseException):
    """Ctrl-C was pressed, and the decision under way is no longer wanted."""


class _RunThread:
    """A run in a thread of its own, so that the main thread hears Ctrl-C whatever a solver does."""

    def __init__(self, work: Callable[[], None], deciding: Deciding) -> None:
        self._deciding = deciding
        self._work = work
        self._over = threading.Event()
        self._failure: BaseException | None = None
        context = contextvars.copy_context()
        self._thread = threading.Thread(target=context.run, args=(self._run,), name=RUN_THREAD, daemon=True)

    def _run(self) -> None:
        try:
            self._work()
        except BaseException as error:  # noqa: BLE001 - raised again by the main thread
            self._failure = error
        finally:
            self._over.set()

    def run(self, watch: Watch) -> bool:
        """Run to the end, or to that of the round in which Ctrl-C was pressed; a decision that takes long is given up.

        Whether one was. A second Ctrl-C ends the run at once.
        """

        def asked(*_: object) -> None:
            if watch.stop_asked:
                raise KeyboardInterrupt
            watch.stop_asked = True

        before = signal.signal(signal.SIGINT, asked)
        try:
            self._thread.start()
            while not self._over.wait(_LOOK_EVERY_S):
                if watch.stop_asked and self._left():
                    break
        finally:
            signal.signal(signal.SIGINT, before)
        if isinstance(self._failure, _Asked):
            return True
        if self._failure is not None:
            raise self._failure
        return not self._over.is_set()

    def _left(self) -> bool:
        """Whether the thread is left to itself: it is in the middle of a decision that does not come to its end."""
        if self._over.wait(_PATIENCE_S):
            return False
        if not self._deciding.busy:
            if self._over.wait(_PATIENCE_S):
                return False
            if not self._deciding.busy:  # e.g. a generator that draws a million jobs: nothing of it can be used
                raise KeyboardInterrupt
        # Raised where the thread next comes to a statement of Python, and that is within the decision.
        thread = ctypes.c_ulong(self._thread.ident or 0)
        ctypes.pythonapi.PyThreadState_SetAsyncExc(thread, ctypes.py_object(_Asked))
        return not self._over.wait(_PATIENCE_S)
