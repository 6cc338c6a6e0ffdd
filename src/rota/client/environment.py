"""What the agent tells a rank through its environment, read once and checked."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from rota.core.errors import ConfigError

if TYPE_CHECKING:
    from pathlib import Path

CHECKPOINT_EVERY_S = 60.0

_MOST_DIGITS = 18
_Default = TypeVar("_Default", int, float, None)


class JobEnvironment(NamedTuple):
    """The place of this process in a job. `job` is None outside Rota."""

    job: str | None
    epoch: int
    rank: int
    world_size: int
    local_rank: int
    socket: str | None
    key: str
    """What proves to the agent that this process is who it says."""
    checkpoints: Path | None
    resume: Path | None
    steps: int | None
    checkpoint_every_s: float
    lease_s: float | None
    replay: int | None = None
    """Hand out the first items again and again: how fast is the loop without its data?"""


def read(environ: Mapping[str, str]) -> JobEnvironment:
    """The surroundings of this process.

    Without ROTA_JOB there is no lease, no agent and no checkpoint.
    """
    if not environ.get("ROTA_JOB"):
        return _outside_rota(environ)
    rank = _whole(environ, "ROTA_RANK", 0)
    size = _whole(environ, "ROTA_WORLD_SIZE", 1)
    if rank >= size:
        raise ConfigError(
            f"ROTA_RANK is {rank}, but ROTA_WORLD_SIZE is {size}; ranks count from 0 to the size "
            "less 1."
        )
    return JobEnvironment(
        job=environ["ROTA_JOB"],
        epoch=_whole(environ, "ROTA_EPOCH", 0),
        rank=rank,
        world_size=size,
        local_rank=_whole(environ, "ROTA_LOCAL_RANK", 0),
        socket=environ.get("ROTA_SOCKET") or None,
        key=environ.get("ROTA_TASK_KEY", ""),
        checkpoints=_folder(environ, "ROTA_CHECKPOINTS"),
        resume=_folder(environ, "ROTA_RESUME"),
        steps=_whole(environ, "ROTA_STEPS", None),
        checkpoint_every_s=_seconds(environ, "ROTA_CHECKPOINT_EVERY_S", CHECKPOINT_EVERY_S),
        lease_s=_seconds(environ, "ROTA_LEASE_S", None),
        replay=_whole(environ, "ROTA_REPLAY_ITEMS", None) or None,
    )


def _outside_rota(environ: Mapping[str, str]) -> JobEnvironment:
    rank = _lenient(environ, "RANK", 0)
    return JobEnvironment(
        job=None,
        epoch=0,
        rank=rank,
        world_size=max(_lenient(environ, "WORLD_SIZE", 1), rank + 1),
        local_rank=_lenient(environ, "LOCAL_RANK", 0),
        socket=None,
        key="",
        checkpoints=None,
        resume=None,
        steps=None,
        checkpoint_every_s=CHECKPOINT_EVERY_S,
        lease_s=None,
    )


def _is_count(text: str) -> bool:
    """As in core.parsing, which loads more than training code should have to wait for."""
    return text.isdecimal() and len(text) <= _MOST_DIGITS


def _lenient(environ: Mapping[str, str], name: str, default: int) -> int:
    """Outside Rota nobody promised these names to us, so nonsense is not an error."""
    text = environ.get(name, "")
    return int(text) if _is_count(text) else default


def _whole(environ: Mapping[str, str], name: str, default: _Default) -> int | _Default:
    text = environ.get(name, "").strip()
    if not text:
        return default
    if not _is_count(text):
        raise ConfigError(
            f"{name}={text!r}: expected a whole number, 0 or more; the agent sets it."
        )
    return int(text)


def _seconds(environ: Mapping[str, str], name: str, default: _Default) -> float | _Default:
    text = environ.get(name, "").strip()
    if not text:
        return default
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0.0 <= value < float("inf"):
        raise ConfigError(f"{name}={text!r}: expected a number of seconds, 0 or more.")
    return value


def _folder(environ: Mapping[str, str], name: str) -> Path | None:
    text = environ.get(name, "")
    if not text:
        return None
    from pathlib import Path  # slow to import, and outside Rota never needed

    path = Path(text)
    if not path.is_dir():
        raise ConfigError(
            f"{name}={text!r}: there is no such folder; the agent makes it before it starts the "
            "job."
        )
    return path
