"""How a task is: its phase, its end, what it uses.

Read from the files that its supervisor writes.
"""

from __future__ import annotations

import fcntl
import json
import os
import signal
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any

from rota.deploy.worker.procs import Process, boot_id

STATUS = "status.json"
LOCK = "shim.lock"
STOPPING = "stopping"
_ENDED_FROM_OUTSIDE = {signal.SIGKILL, signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT}
_CODES_OF_CONTAINERS = {128 + number for number in _ENDED_FROM_OUTSIDE}


class Phase(str, Enum):
    """Where in its life a task is."""

    STARTING = "starting"
    RUNNING = "running"
    STOPPING = "stopping"
    ENDED = "ended"


class ExitReason(str, Enum):
    """Why a task ended."""

    COMPLETED = "completed"
    FAILED = "failed"
    OUT_OF_MEMORY = "out-of-memory"
    KILLED = "killed"
    LOST = "lost"


@dataclass(frozen=True, slots=True)
class Exit:
    """How a task ended.

    Code and signal are the kernel's; both are None if nobody saw the end (`lost`).
    """

    code: int | None
    signal: int | None
    reason: ExitReason
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Status:
    """All that is reported of a task.

    Times are seconds since the epoch; None where they are not known.
    """

    phase: Phase
    exit: Exit | None = None
    process: Process | None = None
    started_at: float | None = None
    ended_at: float | None = None
    cpu_seconds: float = 0.0
    rss_bytes: int = 0
    stop_requested: bool = False
    output_bytes_dropped: int = 0
    notice: str = ""
    """Why whoever lent the resources wants them back soon; empty: nobody does."""


def is_supervised(folder: Path) -> bool:
    """Whether the supervisor lives: it holds a lock from before its start to its end."""
    try:
        fd = os.open(folder / LOCK, os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(
            fd, fcntl.LOCK_SH | fcntl.LOCK_NB
        )  # shared: two readers do not take each other for it
    except BlockingIOError:
        return True
    else:
        return False
    finally:
        os.close(fd)


def read(folder: Path) -> Status:
    """The status of the task in a folder, from its files alone."""
    supervised = is_supervised(
        folder
    )  # asked first: the last status is written before the lock is left
    stopping = (folder / STOPPING).exists()
    try:
        values = json.loads((folder / STATUS).read_text(encoding="utf-8"))
        return _told(values, supervised, stopping)
    except FileNotFoundError:
        why = "it never started: the agent or its supervisor died before"
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        why = f"{folder / STATUS} is damaged ({type(error).__name__}: {error})"
    if supervised:
        return Status(Phase.STARTING, stop_requested=stopping)
    return _lost(why, stopping)


def _told(values: dict[str, Any], supervised: bool, stopping: bool) -> Status:
    """The status that a supervisor wrote, if it still holds."""
    process = Process(*values["process"])
    started = values["started_at"]
    ended = values["exit"]
    if ended is not None:
        return Status(
            Phase.ENDED,
            exit=judge(ended, stopping),
            process=process,
            started_at=started,
            ended_at=values["ended_at"],
            cpu_seconds=ended["cpu_seconds"],
            rss_bytes=ended["max_rss_bytes"],
            stop_requested=stopping,
            output_bytes_dropped=ended["output_bytes_dropped"],
        )
    if values["boot_id"] != boot_id():
        return _lost("the machine was started again meanwhile", stopping, process, started)
    if not supervised:
        return _lost("its supervisor died", stopping, process, started)
    return Status(
        Phase.STOPPING if stopping else Phase.RUNNING,
        None,
        process,
        started,
        stop_requested=stopping,
    )


def judge(ended: dict[str, Any], stopping: bool) -> Exit:
    """The reason behind an exit code or a signal, as the kernel told them."""
    code = ended["code"]
    number = ended["signal"]
    if ended["error"]:
        return Exit(code, number, ExitReason.FAILED, ended["error"])
    if code == 0:
        return Exit(code, number, ExitReason.COMPLETED)
    if ended["oom_kills"]:
        return Exit(
            code, number, ExitReason.OUT_OF_MEMORY, "the kernel ended it at its memory limit"
        )
    if stopping or number in _ENDED_FROM_OUTSIDE or code in _CODES_OF_CONTAINERS:
        return Exit(
            code, number, ExitReason.KILLED, "" if stopping else "nobody asked the agent for it"
        )
    return Exit(code, number, ExitReason.FAILED)


def _lost(
    why: str, stopping: bool, process: Process | None = None, started: float | None = None
) -> Status:
    return Status(
        Phase.ENDED,
        Exit(None, None, ExitReason.LOST, why),
        process,
        started,
        stop_requested=stopping,
    )
