"""What `pool.py` (processes of this machine) and `on_ray.py` (a Ray cluster) have in common."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from rota.experiments.execution import RunOutcome
from rota.experiments.tasks import SweepTask


@dataclass(frozen=True, kw_only=True)
class Lost:
    """A run whose process died under it."""

    reason: str


Ending = RunOutcome | Lost


class SweepExecutor(Protocol):
    """Takes as many runs as it has room for and hands back how they ended."""

    def free(self) -> int:
        """How many more runs it can take now."""

    def slots(self) -> int:
        """How many runs go on at the same time."""

    def submit(self, task: SweepTask) -> None:
        """Start a run."""

    def wait(self, seconds: float) -> list[tuple[SweepTask, Ending]]:
        """Runs that have ended, as soon as there is one; none if that takes longer."""

    def close(self) -> None:
        """Stop everything at once; what is under way is lost."""
