"""The supervisor of one task: a small process that outlives the agent and knows how the task ended.

It is run by path (`python -S -E shim.py FOLDER LOCK_FD`) and imports only the standard library. It reads
`launch.json`, starts the command in a session of its own, copies its output into log files that cannot grow without
bound, and writes `status.json` twice: when the command runs and when it has ended. The first process returns as soon as
the first of the two is on disk, so that whoever started it need not wait for anything else.
"""

# Without pathlib, contextlib and typing, which cost time and memory that every task would pay.

from __future__ import annotations

import json
import os
import resource
import select
import signal
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_CHUNK = 16384
_DRAIN_BYTES = 16 << 20  # what is still read from pipes that someone outside the task keeps open
_KILL_SECONDS = 5.0
_LOOK_MS = 1000  # between looks whether the task may still run
_AGENT_SECONDS = 1.0  # what a living agent has to act first
_AGAIN_SECONDS = 0.5  # between attempts to write the last status


class RotatingLog:
    """A log file and its predecessor; together they never exceed the bound. A full disk drops output, not the task."""

    def __init__(self, path: str, bound: int) -> None:
        self.path, self.half, self.dropped = path, max(1, bound // 2), 0
        self.fd = self._open()
        self.size = os.fstat(self.fd).st_size if self.fd >= 0 else 0

    def _open(self) -> int:
        try:
            return os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o640)
        except OSError:
            return -1

    def write(self, data: bytes) -> None:
        """Append, turning the page where the file is full; keep the end when one piece is larger than a page."""
        if self.fd < 0:
            self.dropped += len(data)
            return
        try:
            while data:
                if self.size >= self.half:
                    self._turn()
                done = os.write(self.fd, data[: self.half - self.size])
                data, self.size = data[done:], self.size + done
        except OSError:
            self.dropped += len(data)

    def _turn(self) -> None:
        os.replace(self.path, self.path + ".1")
        os.close(self.fd)
        self.fd, self.size = self._open(), 0


def start_time(pid: int) -> int:
    """Ticks since boot when a process started: with its number, the identity of a process."""
    with open(f"/proc/{pid}/stat", "rb") as file:
        return int(file.read().rpartition(b")")[2].split()[19])


def boot_id() -> str:
    """A text that changes when the machine starts again."""
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
            return file.read().strip()
    except OSError:
        return ""


def write_status(folder: str, status: dict[str, Any], patient: bool) -> str:
    """Put a status on disk in one piece; why not, if that fails. With patience, a full disk is waited for."""
    path = os.path.join(folder, "status.json")
    data = json.dumps(status).encode()
    while True:
        try:
            fd = os.open(path + ".part", os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o640)
            try:
                os.write(fd, data)
                os.fsync(fd)
                whole = os.fstat(fd).st_size == len(data)
            finally:
                os.close(fd)
            if whole:
                os.replace(path + ".part", path)
                sync_folder(folder)
                return ""
            reason = "no room"
        except FileNotFoundError:
            return "the folder is gone"  # nobody wants to know any more
        except OSError as error:
            reason = str(error.strerror)
        if not patient:
            return f"cannot write {path}: {reason}"
        time.sleep(_AGAIN_SECONDS)


def sync_folder(folder: str) -> None:
    """Make a rename durable."""
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def become(plan: dict[str, Any], gate: int, errors: int, outputs: tuple[int, int]) -> None:
    """The child: wait until it is enclosed and on record, take limits, become the command. Never returns."""
    what = "start"
    try:
        os.setsid()
        for target, source in ((1, outputs[0]), (2, outputs[1])):
            os.dup2(source, target)
        if os.read(gate, 1) != b"1":
            os._exit(125)
        what = "pin"
        if plan["affinity"]:
            os.sched_setaffinity(0, plan["affinity"])
        what = "limit the memory of"
        if plan["data_limit"]:
            resource.setrlimit(resource.RLIMIT_DATA, (plan["data_limit"], plan["data_limit"]))
        what = f"enter {plan['cwd']!r} for"
        os.chdir(plan["cwd"])
        for number in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM, signal.SIGPIPE, signal.SIGXFSZ):
            signal.signal(number, signal.SIG_DFL)
        what = "run"
        os.execvpe(plan["argv"][0], plan["argv"], plan["env"])
    except OSError as error:
        os.write(errors, f"cannot {what} {plan['argv'][0]!r}: {error.strerror}".encode())
        os._exit(126 if isinstance(error, PermissionError) else 127)
    finally:
        os._exit(127)


def enclosed(plan: dict[str, Any]) -> list[int]:
    """Processes in the control groups of the task and in those below them."""
    found: set[int] = set()
    for top in plan["groups"]:
        for folder, _, files in os.walk(top):
            if "cgroup.procs" in files:
                try:
                    with open(os.path.join(folder, "cgroup.procs"), encoding="ascii") as file:
                        found.update(int(line) for line in file)
                except OSError:
                    continue
    return sorted(found)


def kill_what_is_left(plan: dict[str, Any], pid: int) -> None:
    """End everything the command left behind. It is not reaped yet, so its number is still its own."""
    try:
        os.killpg(pid, signal.SIGKILL)
    except OSError:
        pass
    end = time.monotonic() + _KILL_SECONDS
    while time.monotonic() < end:
        left = [p for p in enclosed(plan) if p != pid]
        if not left:
            return
        for other in left:
            try:
                os.kill(other, signal.SIGKILL)
            except OSError:
                continue
        time.sleep(0.01)


def oom_kills(path: str | None) -> int:
    """How often the kernel ended a process of this task for want of memory."""
    try:
        with open(path or "", encoding="ascii") as file:
            return sum(int(line.split()[1]) for line in file if line.startswith("oom_kill "))
    except (OSError, ValueError, IndexError):
        return 0


def drain(pipes: dict[int, RotatingLog]) -> None:
    """Read what is in the pipes now, without waiting for whoever may still hold them."""
    for fd, log in pipes.items():
        os.set_blocking(fd, False)
        left = _DRAIN_BYTES
        while left > 0:
            try:
                data = os.read(fd, _CHUNK)
            except OSError:
                break
            if not data:
                break
            log.write(data)
            left -= len(data)


def send(pid: int, number: int) -> None:
    """A signal to the command and its group."""
    try:
        os.killpg(pid, number)
    except OSError:
        pass


def may_run(folder: str) -> bool:
    """Whether the task is known and its lease, if it has one, has not ended: seconds since boot, and of patience."""
    try:
        with open(os.path.join(folder, "lease"), encoding="ascii") as file:
            end, patience = file.read().split()
        return time.clock_gettime(time.CLOCK_BOOTTIME) < float(end) + float(patience) + _AGENT_SECONDS
    except (OSError, ValueError):
        return os.path.exists(folder)


def copy_output_until_exit(pid: int, pipes: dict[int, RotatingLog], folder: str) -> None:
    """Copy output into the logs until the command has ended. It is left unreaped.

    It is ended when its lease ends and no agent is there to see to that, and when its folder was removed, because no
    agent will ever find it again.
    """
    over = 0.0
    ended = -1
    poll = select.poll()
    for fd in pipes:
        poll.register(fd, select.POLLIN)
    try:
        ended = os.pidfd_open(pid)
        poll.register(ended, select.POLLIN)
    except (OSError, AttributeError):
        pass  # an old kernel: look ten times a second
    while True:
        if not over and not may_run(folder):
            over = time.monotonic()
            send(pid, signal.SIGTERM)
        elif over and time.monotonic() - over > _KILL_SECONDS:
            send(pid, signal.SIGKILL)  # what left the group follows once it has ended
        for fd, _ in poll.poll(_LOOK_MS if ended >= 0 else 100):
            if fd != ended:
                data = os.read(fd, _CHUNK)
                if data:
                    pipes[fd].write(data)
                else:
                    poll.unregister(fd)
        if os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None:
            return


def enter_groups(plan: dict[str, Any], pid: int) -> str:
    """Put the child into its control groups; the reason if that fails."""
    for group in plan["enter"]:
        path = os.path.join(group, "cgroup.procs")
        try:
            with open(path, "w", encoding="ascii") as file:
                file.write(str(pid))
        except OSError as error:
            return f"cannot enter {path}: {error.strerror}"
    return ""


def open_logs(plan: dict[str, Any]) -> tuple[dict[int, RotatingLog], tuple[int, int]]:
    """A pipe and a log for each of the two outputs: readers, and the ends for the child."""
    pipes, ends = {}, []
    for name in ("stdout", "stderr"):
        reader, writer = os.pipe()
        path = os.path.join(plan["logs"], name + ".log")
        pipes[reader] = RotatingLog(path, plan["log_bytes"])
        ends.append(writer)
    return pipes, (ends[0], ends[1])


def supervise(folder: str, plan: dict[str, Any], ready: int) -> None:
    """Start the command, stay until it has ended, and write down the truth about it."""
    pipes, outputs = open_logs(plan)
    gate_reader, gate = os.pipe()
    errors, errors_writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(gate)  # else it would wait for itself if this process dies
        become(plan, gate_reader, errors_writer, outputs)
    for fd in (*outputs, gate_reader, errors_writer):
        os.close(fd)
    status: dict[str, Any] = {
        "phase": "running",
        "boot_id": boot_id(),
        "started_at": time.time(),
        "started_monotonic": time.monotonic(),
        "shim": [os.getpid(), start_time(os.getpid())],
        "process": [pid, start_time(pid)],
        "pgid": pid,
        "exit": None,
    }
    error = enter_groups(plan, pid)
    if problem := write_status(folder, status, patient=False):
        os.close(gate)  # the child ends at that
        os.waitpid(pid, 0)
        os.write(ready, problem.encode())
        return
    if not error:
        os.write(gate, b"1")
    os.close(gate)
    error = error or os.read(errors, 4096).decode(errors="replace")
    os.close(errors)
    if not error:
        os.write(ready, b"1")
        os.close(ready)
    copy_output_until_exit(pid, pipes, folder)
    kill_what_is_left(plan, pid)
    _, code, usage = os.wait4(pid, 0)
    drain(pipes)
    status["phase"] = "ended"
    status["ended_at"], status["ended_monotonic"] = time.time(), time.monotonic()
    status["exit"] = {
        "code": os.WEXITSTATUS(code) if os.WIFEXITED(code) else None,
        "signal": os.WTERMSIG(code) if os.WIFSIGNALED(code) else None,
        "oom_kills": oom_kills(plan["oom_events"]),
        "error": error,
        "cpu_seconds": usage.ru_utime + usage.ru_stime,
        "max_rss_bytes": usage.ru_maxrss * 1024,
        "output_bytes_dropped": sum(log.dropped for log in pipes.values()),
    }
    write_status(folder, status, patient=True)  # an exit code must not get lost


def main(folder: str, lock: int) -> int:
    """Fork away from whoever started this; come back to it once the command runs."""
    with open(os.path.join(folder, "launch.json"), encoding="utf-8") as file:
        plan = json.load(file)
    os.set_inheritable(lock, False)  # held for the life of this process: it says that the task is looked after
    answer, ready = os.pipe()
    if os.fork() > 0:
        os.close(ready)
        said = os.read(answer, 4096)
        sys.stderr.write(said.decode() if said != b"1" else "")
        return 0 if said == b"1" else 1
    os.close(answer)
    os.setsid()
    for number in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    null = os.open(os.devnull, os.O_RDWR)
    own = os.open(os.path.join(folder, "shim.log"), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o640)
    for target, source in ((0, null), (1, null), (2, own)):
        os.dup2(source, target)
    os.chdir("/")
    supervise(folder, plan, ready)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], int(sys.argv[2])))
