"""What an agent has observed of the ranks that run on its server."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Any, NamedTuple

from rota.client.stalls import NOTHING_SPENT, StallTimes
from rota.client.wire import whole

_LONGEST_TEXT = 4096
_LONGEST_S = 86400.0
_LATEST_S = 1e10
_LONGEST_ATTEMPT_S = 1e9


class RankPhase(str, Enum):
    """Where in its life a rank is, as it told. The last three are last words."""

    STARTING = "starting"
    RUNNING = "running"
    STOPPED = "stopped"
    DONE = "done"
    FAILED = "failed"


_LAST_WORDS = frozenset({RankPhase.STOPPED, RankPhase.DONE, RankPhase.FAILED})
_PHASE_AFTER = {"hello": RankPhase.RUNNING, "done": RankPhase.DONE, "stopped": RankPhase.STOPPED}


class AttemptId(NamedTuple):
    """One attempt of a job; a later one has a larger epoch."""

    job: str
    epoch: int


class RankId(NamedTuple):
    """One process of an attempt."""

    attempt: AttemptId
    rank: int


@dataclass(frozen=True, slots=True)
class Rank:
    """One process of an attempt, as far as it told. A new value for every change."""

    attempt: AttemptId
    rank: int
    phase: RankPhase = RankPhase.STARTING
    step: int = 0
    step_at: float = 0.0
    """When it finished that step, in seconds since boot; 0 if it did not say."""
    saved: int | None = None
    saved_path: str | None = None
    failure: str | None = None
    detail: str | None = None
    connected: bool = False
    pid: int | None = None
    saves: bool = False
    """Whether it uses the client and did not say that it makes no checkpoints."""
    saving: bool = False
    """Whether it writes a checkpoint now."""
    written: int = 0
    """How much of it is written, in any unit."""
    longest_save_s: float = 0.0
    spent: StallTimes = NOTHING_SPENT
    """What its loop spent so far; nothing if it does not say."""

    @property
    def over(self) -> bool:
        """Whether it said its last word."""
        return self.phase in _LAST_WORDS


@dataclass(slots=True)
class IgnoredMessages:
    """How many messages were ignored, by reason."""

    bad_lines: int = 0
    unknown_operations: int = 0
    strangers: int = 0
    floods: int = 0
    replaced: int = 0


@dataclass(slots=True)
class TokenBucket:
    """Lets `burst` messages through at once and `rate` per second after that.

    What comes beyond that is a debt: who floods is not heard until it is paid.
    """

    rate: float = 200.0
    burst: float = 400.0
    level: float = field(default=400.0)
    at: float = 0.0

    def take(self, now: float, count: int = 1) -> bool:
        """Count messages; whether they may pass."""
        self.level = min(self.burst, self.level + (now - self.at) * self.rate) - count
        self.at = now
        return self.level >= 0.0


def read_identity(message: dict[str, Any]) -> RankId | None:
    """Who says hello, or None when that cannot be read."""
    job = message.get("job")
    epoch = whole(message, "epoch")
    rank = whole(message, "rank")
    if isinstance(job, bool) or not isinstance(job, (str, int)) or epoch is None or rank is None:
        return None
    return RankId(AttemptId(str(job), epoch), rank)


def after_message(rank: Rank, message: dict[str, Any]) -> Rank | None:
    """The rank after what it said, or None when it said nothing known.

    Steps never go back, last words stand.
    """
    operation = message["op"]
    if operation == "failed":
        return rank if rank.over else _failed(rank, message)
    step = whole(message, "step")
    if step is None:
        return None
    if operation in {"saved", "saving"}:
        return (_saved if operation == "saved" else _saving)(rank, step, message)
    if operation == "progress":
        phase = rank.phase
    elif operation in _PHASE_AFTER:
        phase = rank.phase if rank.over else _PHASE_AFTER[operation]
    else:
        return None
    moved = replace(rank, step=max(step, rank.step), phase=phase, spent=_spent(rank, message))
    if operation == "progress":
        moved = replace(moved, step_at=_instant(message.get("at")))
    if operation == "hello":
        saves = message.get("saves") is not False
        return replace(moved, connected=True, pid=whole(message, "pid"), saves=saves)
    return replace(moved, saving=False) if moved.over else moved


def _spent(rank: Rank, message: dict[str, Any]) -> StallTimes:
    """What it says that its loop spent, which never becomes less."""
    said = (_seconds(message.get(name), _LONGEST_ATTEMPT_S) for name in StallTimes._fields)
    return StallTimes(*(max(now, before) for now, before in zip(said, rank.spent, strict=True)))


def _failed(rank: Rank, message: dict[str, Any]) -> Rank:
    reason = _text(message.get("reason")) or "exception"
    return replace(
        rank,
        phase=RankPhase.FAILED,
        failure=reason,
        detail=_text(message.get("detail")),
        saving=False,
    )


def _saving(rank: Rank, step: int, message: dict[str, Any]) -> Rank:
    if rank.over:
        return rank
    written = whole(message, "written") or 0
    return replace(rank, step=max(step, rank.step), saving=True, written=written)


def _saved(rank: Rank, step: int, message: dict[str, Any]) -> Rank | None:
    path = _inside(message.get("path"))
    if path is None:
        return None
    longest_s = max(rank.longest_save_s, _seconds(message.get("seconds")))
    done = replace(rank, saving=False, written=0, longest_save_s=longest_s)
    if rank.saved is not None and rank.saved > step:
        return done
    return replace(done, saved=step, saved_path=path)


def _instant(value: object) -> float:
    """A time in a message, seconds since boot; 0 when it is missing or cannot be one."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return 0.0
    return float(value) if 0 < value < _LATEST_S else 0.0


def _seconds(value: object, longest_s: float = _LONGEST_S) -> float:
    """A duration in a message; 0 when it is missing or cannot be one."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return 0.0
    return float(value) if 0 < value < longest_s else 0.0


def _text(value: object) -> str | None:
    """A text that can be told on: JSON may hold halves of characters, which messages cannot."""
    if not isinstance(value, str):
        return None
    return value[:_LONGEST_TEXT].encode("utf-8", "replace").decode("utf-8")


def _inside(value: object) -> str | None:
    """A relative path that stays in the folder of checkpoints."""
    path = _text(value)
    if not path or path.startswith("/") or "\0" in path or ".." in path.split("/"):
        return None
    return path
