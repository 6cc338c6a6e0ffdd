"""What an agent has observed of the ranks that run on its server."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from rota.client.wire import whole

OVER = frozenset({"stopped", "done", "failed"})
_LONGEST_TEXT = 4096


class Task(NamedTuple):
    """One attempt of a job."""

    job: str
    epoch: int


@dataclass(frozen=True, slots=True)
class Rank:
    """One process of a task, as far as it told. A new value for every change."""

    task: Task
    rank: int
    phase: str = "starting"  # then running, and at last stopped, done or failed
    step: int = 0
    saved: int | None = None
    saved_path: str | None = None
    failure: str | None = None
    detail: str | None = None
    connected: bool = False
    pid: int | None = None

    @property
    def over(self) -> bool:
        """Whether it said its last word."""
        return self.phase in OVER


@dataclass(slots=True)
class Counters:
    """What was ignored, by reason."""

    bad_lines: int = 0
    unknown_operations: int = 0
    strangers: int = 0
    floods: int = 0
    replaced: int = 0


@dataclass(slots=True)
class Bucket:
    """Lets `burst` messages through at once and `rate` per second after that."""

    rate: float = 200.0
    burst: float = 400.0
    level: float = field(default=400.0)
    at: float = 0.0

    def take(self, now: float) -> bool:
        """Whether one more message may pass."""
        self.level = min(self.burst, self.level + (now - self.at) * self.rate)
        self.at = now
        if self.level < 1.0:
            return False
        self.level -= 1.0
        return True


def identity(message: dict[str, Any]) -> tuple[Task, int] | None:
    """Who says hello, or None when that cannot be read."""
    job, epoch, rank = message.get("job"), whole(message, "epoch"), whole(message, "rank")
    if isinstance(job, bool) or not isinstance(job, (str, int)) or epoch is None or rank is None:
        return None
    return Task(str(job), epoch), rank


def heard(rank: Rank, message: dict[str, Any]) -> Rank | None:
    """The rank after what it said, or None when it said nothing known. Steps never go back, last words stand."""
    operation, step = message["op"], whole(message, "step")
    if operation == "failed":
        reason, detail = _text(message.get("reason")) or "exception", _text(message.get("detail"))
        return rank if rank.over else replace(rank, phase="failed", failure=reason, detail=detail)
    if step is None:
        return None
    if operation == "saved":
        return _saved(rank, step, _inside(message.get("path")))
    phases = {"hello": "running", "progress": rank.phase, "done": "done", "stopped": "stopped"}
    if operation not in phases:
        return None
    rank = replace(rank, step=max(step, rank.step), phase=rank.phase if rank.over else phases[operation])
    return rank if operation != "hello" else replace(rank, connected=True, pid=whole(message, "pid"))


def _saved(rank: Rank, step: int, path: str | None) -> Rank | None:
    if path is None:
        return None
    return rank if rank.saved is not None and rank.saved > step else replace(rank, saved=step, saved_path=path)


def _text(value: object) -> str | None:
    return value[:_LONGEST_TEXT] if isinstance(value, str) else None


def _inside(value: object) -> str | None:
    """A relative path that stays in the folder of checkpoints."""
    path = _text(value)
    if not path or path.startswith("/") or "\0" in path or ".." in path.split("/"):
        return None
    return path
