"""One simulation under way: progress, remarks, Ctrl-C and checkpoints."""

from __future__ import annotations

import math
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from rota.analysis.guard import Guard
from rota.analysis.job_table import UNFINISHED
from rota.analysis.metrics import Metrics
from rota.analysis.waiting import Waiting
from rota.core.events import Event, JobsDropped, JobsFinished, JobsRejected, RunStarted
from rota.core.jobs import Source
from rota.core.ports import Handler, Observer, Policy, Throughputs
from rota.engine import checkpoint as checkpoints
from rota.engine.loop import Engine
from rota.engine.sense import Checks
from rota.engine.state import State
from rota.mechanisms.registry import ComposedMechanism
from rota.sim.world import World

_REPORT_EVERY_S = 0.1
_POLL_EVERY = 32
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
        self._polls = 0
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
            self.done += int(np.count_nonzero((event.jobs >= first) & (event.jobs < last)))

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

    def report(self, session: Session) -> None:
        """Tell how far the run is, some ten times a second."""
        self._polls += 1
        if self._progress is None or self._polls % _POLL_EVERY or time.monotonic() < self._next_report:
            return
        self._next_report = time.monotonic() + _REPORT_EVERY_S
        count = self.finished if self.target is None else self.done
        active, rounds = len(session.engine.state), session.metrics.rounds
        self._progress(Progress(session.world.now(), count, self.target, active, rounds))

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

    def run(self, until: float | None, save_to: str | Path | None, every: float | None, *, fresh: bool) -> float:
        """Run to the end; CPU seconds."""
        saver = Saver(self, save_to, every)

        def finished() -> bool:
            if save_to is not None:
                saver.maybe()
            self.watch.report(self)
            if self.metrics.auto and self.watch.target is None:
                self._settle()
            return self.watch.satisfied()

        start = time.process_time()
        with _interruptible(self.watch):
            if fresh:
                self.engine.emit(RunStarted(at=0.0, config=self.config))
            self.engine.run(finished, math.inf if until is None else until)
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
            "metrics": self.metrics,
            "world": self.world.snapshot(),
            "source": self.source.snapshot(),
            "watch": self.watch.saved(),
            "mechanism": self.mechanism.saved(),
        }

    def remarks(self) -> list[str]:
        """What the mechanism has to say about the run so far."""
        return self.mechanism.remarks()

    def resumed(self, parts: Mapping[str, Any], policy: Policy, speeds: Throughputs) -> Session:
        """The same session with the parts of a checkpoint in the place of fresh ones."""
        state: State = parts["state"]
        metrics: Metrics = parts["metrics"]
        metrics.speeds = speeds
        state.attach(speeds)
        self.watch.restore(parts["watch"])
        self.watch.follow(state)
        self.source.restore(parts["source"])
        world = World(self.source, state.rules)
        world.restore(parts["world"])
        self.mechanism.restore(parts["mechanism"])
        engine = Engine(
            state=state,
            policy=policy,
            mechanism=self.mechanism,
            clock=world,
            executor=world,
            observers=[metrics, *self.watch.observers()],
            trigger=parts["trigger"],
            checks=self.checks,
        )
        return replace(self, engine=engine, world=world, metrics=metrics)


class Saver:
    """Writes checkpoints when it is time."""

    def __init__(self, session: Session, path: str | Path | None, every: float | None) -> None:
        self._session = session
        self._path = path
        self._every = math.inf if every is None else every
        self._next = session.world.now() + self._every

    def maybe(self) -> None:
        """Save if the time has come."""
        if self._path is not None and self._session.world.now() >= self._next:
            self.save()
            self._next = self._session.world.now() + self._every

    def save(self) -> None:
        """Save now."""
        if self._path is not None:
            saved = checkpoints.Checkpoint(config=self._session.config, parts=self._session.parts())
            checkpoints.save(self._path, saved)


@contextmanager
def _interruptible(watch: Watch) -> Iterator[None]:
    """Ctrl-C ends the run after the current round; a second one ends it at once."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def asked(*_: object) -> None:
        if watch.stop_asked:
            raise KeyboardInterrupt
        watch.stop_asked = True

    before = signal.signal(signal.SIGINT, asked)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
