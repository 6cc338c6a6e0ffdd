"""The loop of a sweep: hand out runs, keep what comes back, go on after whatever fails."""

from __future__ import annotations

import signal
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import FrameType

from rota.experiments.execution import FAILED, OK, UNSTABLE, RunOutcome
from rota.experiments.executors import Ending, Lost, SweepExecutor
from rota.experiments.store import ResultStore, Run
from rota.experiments.tasks import SweepTask, version

TRIES = 2
"""Processes that may die under a run before it counts as failed."""
_TICK_S = 0.2
_RENEW_S = 15.0
_ASK_OTHERS_S = 0.5

Follow = Callable[[SweepTask, Run], Sequence[SweepTask]]
"""Runs that are wanted because of a result."""


@dataclass(frozen=True, kw_only=True)
class SweepProgress:
    """How far a sweep is."""

    done: int
    total: int
    reused: int
    """Results that were in the store already."""
    counts: dict[str, int]
    eta_s: float | None
    task: SweepTask | None
    """The run that has just ended, with its result."""
    run: Run | None


@dataclass
class RunPace:
    """How long runs take, by policy, to say how long the rest will."""

    seconds: Counter[str] = field(default_factory=Counter)
    ended: Counter[str] = field(default_factory=Counter)
    left: Counter[str] = field(default_factory=Counter)

    def took(self, policy: str, seconds: float) -> None:
        """A run has ended."""
        self.seconds[policy] += seconds  # type: ignore[assignment]  # a Counter adds floats as well
        self.ended[policy] += 1

    def eta(self, slots: int) -> float | None:
        """Seconds until all is done; None before the first result."""
        every = sum(self.ended.values())
        if not every:
            return None
        usual = sum(self.seconds.values()) / every
        means = {p: self.seconds[p] / self.ended[p] if self.ended[p] else usual for p in self.left}
        return sum(count * means[p] for p, count in self.left.items()) / max(1, slots)


class SweepRunner:
    """Carries out the runs of one sweep."""

    def __init__(
        self,
        store: ResultStore,
        executor: SweepExecutor,
        *,
        follow: Follow | None = None,
        progress: Callable[[SweepProgress], None] | None = None,
        retry: bool = True,
    ) -> None:
        self.interrupted = False
        self._store = store
        self._executor = executor
        self._follow = follow
        self._progress = progress
        self._retry = retry
        self._pending: deque[SweepTask] = deque()
        self._elsewhere: list[SweepTask] = []
        self._running = 0
        self._known: set[str] = set()
        self._lost: Counter[str] = Counter()
        self._fresh: set[str] = set()
        self._counts: Counter[str] = Counter()
        self._reused = 0
        self._pace = RunPace()
        self._renew_at = time.monotonic() + _RENEW_S
        self._ask_at = 0.0

    def run(self, tasks: Sequence[SweepTask]) -> None:
        """Until every run has a result, or Ctrl-C."""
        self._add(tasks)
        with _asked_to_stop() as asked:
            while (self._pending or self._elsewhere or self._running) and not asked:
                self._hand_out()
                ended = self._executor.wait(_TICK_S) if self._running else []
                self._running -= len(ended)
                ready = [(task, ending) for task, ending in ended if not self._again(task, ending)]
                self._hand_out()  # before writing: nobody has to wait for the disk
                for task, ending in ready:
                    self._keep(task, ending)
                self._look_after_claims()
            self.interrupted = bool(asked)

    def _add(self, tasks: Sequence[SweepTask]) -> None:
        for task in tasks:
            if task.key not in self._known:
                self._known.add(task.key)
                self._pending.append(task)
                self._pace.left[_policy(task)] += 1

    def _final(self, task: SweepTask) -> bool:
        """Whether the store has a result that need not be computed again."""
        status = self._store.status(task.key)
        if status is None or task.key in self._fresh:
            return status is not None
        return status in {OK, UNSTABLE} or not self._retry

    def _hand_out(self) -> None:
        while self._pending and self._executor.free() > 0:
            task = self._pending.popleft()
            if self._final(task):
                self._reuse(task)
            elif not self._store.claim(task.key):
                self._elsewhere.append(task)
            elif self._final(task):  # another sweep was faster by a hair
                self._reuse(task)
            elif task.problem is not None:
                self._keep(task, RunOutcome(status=FAILED, error=task.problem, started=time.time()))
            else:
                self._running += 1
                self._executor.submit(task)

    def _again(self, task: SweepTask, ending: Ending) -> bool:
        """Whether a run whose process died gets another one."""
        if not isinstance(ending, Lost):
            return False
        self._lost[task.key] += 1
        if self._lost[task.key] >= TRIES:
            return False
        self._pending.appendleft(task)
        return True

    def _keep(self, task: SweepTask, ending: Ending) -> None:
        if isinstance(ending, Lost):
            reason = f"{ending.reason}; tried {TRIES} times (out of memory?)"
            ending = RunOutcome(status=FAILED, error=reason, started=time.time())
        if ending.version != version():
            other = f"{ending.host} runs Rota {ending.version}"
            said = f"{other}, this is {version()}; install the same there"
            ending = RunOutcome(status=FAILED, error=said, started=ending.started, host=ending.host)
        if ending.own_code and ending.own_code != {key: task.config.get(key) for key in ending.own_code}:
            files = ", ".join(str(task.config[key.removesuffix("_sha256")]) for key in ending.own_code)
            said = f"{files}: the code was edited while the sweep ran, or is another one on {ending.host}; run it again"
            ending = RunOutcome(status=FAILED, error=said, started=ending.started, host=ending.host)
        self._store.write(task.key, task.config, ending)
        self._fresh.add(task.key)
        self._pace.took(_policy(task), ending.wall_s)
        self._end(task, _as_run(task, ending))

    def _reuse(self, task: SweepTask) -> None:
        self._reused += 1
        run = self._store.result(task.key)
        if run is not None:
            self._end(task, run)

    def _end(self, task: SweepTask, run: Run) -> None:
        self._counts[run.status or FAILED] += 1
        self._pace.left[_policy(task)] -= 1
        if self._follow is not None:
            self._add(self._follow(task, run))
        if self._progress is not None:
            done = sum(self._counts.values())
            self._progress(
                SweepProgress(
                    done=done,
                    total=len(self._known),
                    reused=self._reused,
                    counts=dict(self._counts),
                    eta_s=self._pace.eta(self._executor.slots()),
                    task=task,
                    run=run,
                )
            )

    def _look_after_claims(self) -> None:
        now = time.monotonic()
        if now >= self._renew_at:
            self._store.renew_claims()
            self._renew_at = now + _RENEW_S
        if self._elsewhere and now >= self._ask_at:
            self._ask_at = now + _ASK_OTHERS_S
            free = [t for t in self._elsewhere if self._store.status(t.key) or not self._store.claimed(t.key)]
            self._elsewhere = [t for t in self._elsewhere if t not in free]
            self._fresh |= {t.key for t in free if self._store.status(t.key)}
            self._pending.extend(free)
        if not self._running and not self._pending and self._elsewhere:
            time.sleep(_TICK_S)


def _policy(task: SweepTask) -> str:
    return str(task.parameters["policy"])


def _as_run(task: SweepTask, outcome: RunOutcome) -> Run:
    return Run(
        key=task.key,
        point={},
        status=outcome.status,
        metrics=outcome.metrics,
        error=outcome.error,
        config=task.config,
        wall_s=outcome.wall_s,
    )


@contextmanager
def _asked_to_stop() -> Iterator[list[int]]:
    """A list that Ctrl-C fills, so that nothing is cut off in the middle.

    A second Ctrl-C raises.
    """
    asked: list[int] = []
    if threading.current_thread() is not threading.main_thread():
        yield asked
        return

    def note(number: int, _frame: FrameType | None) -> None:
        if asked:
            raise KeyboardInterrupt
        asked.append(number)

    before = signal.signal(signal.SIGINT, note)
    try:
        yield asked
    finally:
        signal.signal(signal.SIGINT, before)
