"""Processes by identity.

A number alone may belong to somebody else by now, a number with a start time may not.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

PROC = Path("/proc")
_PAGE = os.sysconf("SC_PAGE_SIZE")
_TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True)
class Process:
    """A process that was seen: its number and its start in ticks since boot."""

    pid: int
    start: int


@dataclass(frozen=True, slots=True)
class Usage:
    """What processes have used: CPU seconds so far, resident bytes now."""

    cpu_seconds: float = 0.0
    rss_bytes: int = 0


def boot_id() -> str:
    """A text that changes when the machine starts again."""
    try:
        return (PROC / "sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except OSError:
        return ""


def _stat(pid: int) -> list[bytes]:
    """The fields of /proc/PID/stat after the name (which may hold spaces).

    Empty if there is no such process.
    """
    try:
        return (PROC / str(pid) / "stat").read_bytes().rpartition(b")")[2].split()
    except OSError:
        return []


def identify(pid: int) -> Process | None:
    """The process that has this number now.

    None if there is none or it is only waiting to be reaped.
    """
    fields = _stat(pid)
    return Process(pid, int(fields[19])) if fields and fields[0] not in (b"Z", b"X") else None


def is_alive(process: Process) -> bool:
    """Whether this very process still runs."""
    return identify(process.pid) == process


def send(process: Process, number: int) -> bool:
    """Signal this very process; False if it is gone.

    A successor with the same number is never touched.
    """
    try:
        handle = os.pidfd_open(process.pid)
    except OSError:
        return False
    try:
        if not is_alive(
            process
        ):  # the handle was taken first, so it cannot come to mean another process
            return False
        signal.pidfd_send_signal(handle, number)
    except ProcessLookupError:
        return False
    else:
        return True
    finally:
        os.close(handle)


def everyone() -> Iterator[Process]:
    """All processes of the machine that this one can see."""
    for entry in PROC.iterdir():
        if entry.name.isdigit() and (process := identify(int(entry.name))) is not None:
            yield process


def in_session(leader: Process) -> list[Process]:
    """Processes in the session of a leader, as long as the leader is there to vouch for it."""
    if not is_alive(leader):
        return []
    return [p for p in everyone() if _session(p) == leader.pid and p.start >= leader.start]


def in_group(leader: Process) -> list[Process]:
    """Processes in the process group of a leader, as long as the leader is there."""
    if not is_alive(leader):
        return []
    return [p for p in everyone() if _group(p) == leader.pid and p.start >= leader.start]


def with_environment(entry: str) -> list[Process]:
    """Processes that were started with this `NAME=value` in their environment."""
    wanted = entry.encode()
    return [p for p in everyone() if wanted in _environment(p.pid)]


def by_number(pids: Iterable[int]) -> list[Process]:
    """The living among these numbers."""
    return [p for pid in pids if (p := identify(pid)) is not None]


def usage(processes: Iterable[Process]) -> Usage:
    """What processes use, children they waited for included."""
    ticks = rss = 0
    for process in processes:
        fields = _stat(process.pid)
        if fields:
            ticks += sum(int(f) for f in fields[11:15])
            rss += int(fields[21]) * _PAGE
    return Usage(ticks / _TICKS, rss)


def _environment(pid: int) -> list[bytes]:
    try:
        return (PROC / str(pid) / "environ").read_bytes().split(b"\0")
    except OSError:
        return []


def parent(process: Process) -> int:
    """The number of its parent; -1 if it is gone."""
    fields = _stat(process.pid)
    return int(fields[1]) if fields else -1


def name_of(process: Process) -> str:
    """The name of its program, as far as the kernel keeps it; empty if it is gone."""
    try:
        return (PROC / str(process.pid) / "comm").read_text(encoding="utf-8").strip()
    except OSError:
        return ""


def _group(process: Process) -> int:
    fields = _stat(process.pid)
    return int(fields[2]) if fields else -1


def _session(process: Process) -> int:
    fields = _stat(process.pid)
    return int(fields[3]) if fields else -1
