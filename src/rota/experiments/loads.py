"""Raising the load until the cluster cannot follow: after each run, the next one or none."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence

from rota.experiments.execution import OK
from rota.experiments.keys import LOAD, plain
from rota.experiments.spec import AutoLoad, Values
from rota.experiments.store import Run
from rota.experiments.tasks import SweepTask


class LoadSearch:
    """For each combination of the other settings a chain of runs with growing load.

    A chain ends with the first run that is unstable or failed, or that keeps the GPUs busy beyond
    the threshold.
    """

    def __init__(self, how: AutoLoad, make: Callable[[Values], SweepTask | None]) -> None:
        self._how = how
        self._make = make
        self._length: Counter[str] = Counter()

    def follow(self, task: SweepTask, run: Run) -> Sequence[SweepTask]:
        """The run after this one."""
        rest = repr(plain({key: value for key, value in task.values.items() if key != LOAD}))
        self._length[rest] += 1
        busy = run.metrics.get("utilization") or 0.0
        is_full = busy >= self._how.utilization
        if run.status != OK or is_full or self._length[rest] >= self._how.most:
            return ()
        following = self._make({**task.values, LOAD: self._how.after(float(task.values[LOAD]))})
        return () if following is None else (following,)
