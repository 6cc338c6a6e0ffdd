"""Runs on an existing Ray cluster. Needs Ray (the extra `ray`), and Rota installed on its nodes.

The address is Ray's business: `RAY_ADDRESS`, else the cluster of this machine. Only this process
writes the store; a node that dies takes its runs with it, and they are tried again on another one.
"""

from __future__ import annotations

import contextlib
import time
from typing import Any

from rota.core.errors import ConfigError
from rota.experiments.execution import FAILED, RunOutcome, execute
from rota.experiments.executors import Ending, Lost
from rota.experiments.pool import timed_out
from rota.experiments.tasks import SweepTask

_LOOK_EVERY_S = 2.0


class RayCluster:
    """One run per CPU of the cluster, or as many as asked for."""

    def __init__(self, workers: int | None = None, timeout_s: float | None = None) -> None:
        try:
            import ray  # an extra
        except ImportError as error:
            problem = "the executor ray needs Ray, which is not installed: pip install '.[ray]' in a checkout of Rota"
            raise ConfigError(problem) from error
        self._ray: Any = ray
        self._started = not ray.is_initialized()
        if self._started:
            try:
                ray.init(address="auto", log_to_driver=False, logging_level="error")
            except ConnectionError as error:
                raise ConfigError(
                    "there is no Ray cluster to be found: start one (`ray start --head`), or set RAY_ADDRESS"
                ) from error
        # Retries are ours: Rota counts them, and says so in the result.
        self._execute = ray.remote(num_cpus=1, max_retries=0, max_calls=0)(execute)
        self._workers = workers
        self._timeout_s = timeout_s
        self._tasks: dict[Any, tuple[SweepTask, float]] = {}
        self._cpus = 1
        self._look_at = 0.0

    def slots(self) -> int:
        """CPUs of the nodes that are there now."""
        if time.monotonic() >= self._look_at:
            self._look_at = time.monotonic() + _LOOK_EVERY_S
            self._cpus = max(1, int(self._ray.cluster_resources().get("CPU", 1)))
        return self._cpus if self._workers is None else min(self._workers, self._cpus)

    def free(self) -> int:
        """CPUs without a run."""
        return self.slots() - len(self._tasks)

    def submit(self, task: SweepTask) -> None:
        """Start a run somewhere."""
        self._tasks[self._execute.remote(task.parameters, task.overload)] = (task, time.monotonic())

    def wait(self, seconds: float) -> list[tuple[SweepTask, Ending]]:
        """What has ended; also looks at time-outs."""
        if not self._tasks:
            return []
        ready, _ = self._ray.wait(list(self._tasks), num_returns=1, timeout=seconds)
        ended = [(self._tasks.pop(ref)[0], self._ending(ref)) for ref in ready]
        return ended + self._overdue()

    def close(self) -> None:
        """Give up what is under way; the cluster stays."""
        for ref in self._tasks:
            with contextlib.suppress(Exception):
                self._ray.cancel(ref, force=True)
        self._tasks.clear()
        if self._started:
            self._ray.shutdown()

    def _ending(self, ref: Any) -> Ending:
        gone = self._ray.exceptions
        try:
            outcome: RunOutcome = self._ray.get(ref)
        except gone.RayTaskError as error:
            return RunOutcome(
                status=FAILED,
                error=f"{type(error).__name__}: {error}",
                started=time.time(),
            )
        except gone.RayError as error:
            return Lost(reason=f"Ray lost the run ({type(error).__name__})")
        return outcome

    def _overdue(self) -> list[tuple[SweepTask, Ending]]:
        limit = self._timeout_s
        if limit is None:
            return []
        late = [ref for ref, (_, since) in self._tasks.items() if time.monotonic() - since >= limit]
        ended: list[tuple[SweepTask, Ending]] = []
        for ref in late:
            with contextlib.suppress(Exception):
                self._ray.cancel(ref, force=True)
            ended.append((self._tasks.pop(ref)[0], timed_out(limit)))
        return ended
