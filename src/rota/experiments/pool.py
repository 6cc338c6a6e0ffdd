"""Runs in processes of this machine that stay.

Imports are paid once, and a process that dies is replaced.
"""

from __future__ import annotations

import contextlib
import os
import platform
import selectors
import subprocess
import sys
import time
from typing import IO, Any, cast

from rota.experiments.execution import TIMEOUT, RunOutcome
from rota.experiments.executors import Ending, Lost
from rota.experiments.tasks import SweepTask
from rota.experiments.worker import READY, receive, send


class Worker:
    """One process and what it is doing."""

    def __init__(self) -> None:
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
        # A session of its own: Ctrl-C reaches the parent only, which then decides.
        self.process = subprocess.Popen(
            [sys.executable, "-m", "rota.experiments.worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            bufsize=0,
            env=environment,
            start_new_session=True,
        )
        self.task: SweepTask | None = None
        self.ready = False
        self.since = 0.0

    @property
    def output(self) -> IO[bytes]:
        """Where outcomes come from."""
        return cast("IO[bytes]", self.process.stdout)

    def start(self, task: SweepTask) -> None:
        """Hand over a run. A process that has died meanwhile is noticed when its output ends."""
        self.task = task
        self.since = time.monotonic()
        with contextlib.suppress(OSError):
            send(cast("Any", self.process.stdin), (task.parameters, task.overload))

    def stop(self) -> int:
        """End the process now; its exit code."""
        self.process.kill()
        code = self.process.wait()
        for stream in (self.process.stdin, self.process.stdout):
            if stream is not None:
                with contextlib.suppress(OSError):
                    stream.close()
        return code


class LocalPool:
    """As many worker processes as asked for; by default one per CPU that this process may use."""

    def __init__(self, workers: int | None = None, timeout_s: float | None = None) -> None:
        self._size = workers or usable_cpus()
        self._timeout_s = timeout_s
        self._workers: list[Worker] = []
        self._selector = selectors.DefaultSelector()

    def free(self) -> int:
        """Processes without a run, those that would have to be started included."""
        return self._size - sum(w.task is not None for w in self._workers)

    def slots(self) -> int:
        """Processes."""
        return self._size

    def pids(self) -> list[int]:
        """The processes that are there."""
        return [w.process.pid for w in self._workers]

    def submit(self, task: SweepTask) -> None:
        """Give the run to an idle process, or to a new one."""
        idle = [w for w in self._workers if w.task is None]
        (idle[0] if idle else self._hire()).start(task)

    def wait(self, seconds: float) -> list[tuple[SweepTask, Ending]]:
        """What has ended; also looks at time-outs."""
        ended: list[tuple[SweepTask, Ending]] = []
        if not self._workers:
            return ended
        for ready, _ in self._selector.select(max(0.0, min(seconds, self._next_timeout()))):
            ended += self._heard(ready.data)
        return ended + self._overdue()

    def close(self) -> None:
        """Kill all processes."""
        for worker in list(self._workers):
            self._fire(worker)
        self._selector.close()

    def _hire(self) -> Worker:
        worker = Worker()
        self._workers.append(worker)
        self._selector.register(worker.output, selectors.EVENT_READ, worker)
        return worker

    def _fire(self, worker: Worker) -> int:
        self._workers.remove(worker)
        self._selector.unregister(worker.output)
        return worker.stop()

    def _heard(self, worker: Worker) -> list[tuple[SweepTask, Ending]]:
        task = worker.task
        try:
            message = receive(cast("Any", worker.output))
        except (EOFError, OSError):
            pid = worker.process.pid
            how = _in_words(worker.process.wait())
            self._fire(worker)
            when = "during the run" if worker.ready else "before it was ready"
            lost = Lost(reason=f"worker process {pid} {how} {when}")
            return [] if task is None else [(task, lost)]
        if isinstance(message, str) and message == READY:
            worker.ready = True
            worker.since = time.monotonic()
            return []
        worker.task = None
        return [] if task is None else [(task, message)]

    def _next_timeout(self) -> float:
        if self._timeout_s is None:
            return float("inf")
        busy = [w.since for w in self._workers if w.task is not None and w.ready]
        return min(busy, default=float("inf")) + self._timeout_s - time.monotonic()

    def _overdue(self) -> list[tuple[SweepTask, Ending]]:
        if self._timeout_s is None:
            return []
        late = [
            w for w in self._workers if w.task is not None and w.ready and time.monotonic() - w.since >= self._timeout_s
        ]
        ended: list[tuple[SweepTask, Ending]] = []
        for worker in late:
            self._fire(worker)
            if worker.task is not None:
                ended.append((worker.task, timed_out(self._timeout_s)))
        return ended


def timed_out(seconds: float) -> RunOutcome:
    """The outcome of a run that took too long."""
    return RunOutcome(
        status=TIMEOUT,
        error=f"stopped after {seconds:g} s; give more with --timeout",
        started=time.time() - seconds,
        wall_s=seconds,
        host=platform.node(),
    )


def usable_cpus() -> int:
    """CPUs that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _in_words(code: int) -> str:
    return f"was killed by signal {-code}" if code < 0 else f"ended with exit code {code}"
