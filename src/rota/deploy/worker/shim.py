"""The supervisor of one task: a small process that outlives the agent and knows how the task ended.

It is run by path (`python -S -E shim.py FOLDER LOCK_FD`) and imports only the standard library. It
reads `launch.json`, starts the command in a session of its own, copies its output into files of
frames that cannot grow without bound, and writes `status.json` twice: when the command runs and
when it has ended. The first process returns as soon as the first of the two is on disk, so that
whoever started it need not wait for anything else.
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

_CHUNK = 65536  # what a pipe holds; a piece of output has at most 20 bits of length
_MOST_READS = 1024  # more than a pipe holds, from pipes that someone outside the task keeps open
_HANDLED = (signal.SIGHUP, signal.SIGINT, signal.SIGTERM, signal.SIGPIPE, signal.SIGXFSZ)
_KILL_SECONDS = 5.0
_LOOK_MS = 1000  # between looks whether the task may still run
_LOOK_OFTEN_MS = 100  # the same where its end is only seen by looking
_AGENT_SECONDS = 1.0  # what a living agent has to act first
_ENGINE_SECONDS = 20.0  # what the engine of a container has to end it
_AT_ONCE = 256  # processes that are ended together, each with a handle
_AGAIN_SECONDS = 0.5  # between attempts to write the last status


class SegmentedLog:
    """Both outputs of the command in one row of files; together they never exceed the bound.

    Each piece of output is a frame with its time and stream (see `frames.py` beside this file). The
    oldest file goes when there are too many. The agent takes away what it has sent. A full disk
    drops output, not the task.
    """

    def __init__(self, folder: str, bound: int, segment: int) -> None:
        self.folder = folder
        self.bound = bound
        self.segment = max(1, min(segment, bound // 2))
        self.kept: list[tuple[str, int]] = []  # closed files, the oldest first, and their sizes
        self.kept_size = 0
        self.number = 0
        self.path = ""
        self.size = 0
        self.came = 0
        self.dropped = 0
        self.fd = -1
        self._turn()

    def write(self, stream: bytes, data: bytes) -> None:
        """Append what came from a stream (`o` or `e`)."""
        if self.size >= self.segment or self.fd < 0:
            self._turn()
        header = b"%013x%b%05x" % (time.time_ns() // 1000, stream, len(data))
        if self._append(header, data):
            self.size += len(header) + len(data)
        else:
            self.dropped += len(data)
            self._close()  # the next file says how much came before it, and so what is missing
        self.came += len(data)

    def _append(self, header: bytes, data: bytes) -> bool:
        """Write a frame, all of it or nothing; False without room."""
        try:
            if os.writev(self.fd, (header, data)) == len(header) + len(data):
                return True
            os.ftruncate(self.fd, self.size)
        except OSError:
            pass
        return False

    def _turn(self) -> None:
        self._close()
        while self.kept and self.kept_size + self.segment > self.bound:
            path, size = self.kept.pop(0)
            self.kept_size -= size
            remove(path)
        self.path = os.path.join(self.folder, f"{self.number:06d}-{self.came}")
        try:
            flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW
            self.fd = os.open(self.path, flags, 0o640)
        except OSError:
            return
        self.number += 1

    def _close(self) -> None:
        if self.fd < 0:
            return
        os.close(self.fd)
        self.fd = -1
        if self.size:
            self.kept.append((self.path, self.size))
            self.kept_size += self.size
            self.size = 0
        else:  # on a full disk there would be one after the other
            remove(self.path)


def remove(path: str) -> None:
    """Take a file away, if it is there."""
    try:
        os.unlink(path)
    except OSError:
        pass


def start_time(pid: int) -> int:
    """Ticks since boot when a process started: with its number, the identity of a process."""
    with open(f"/proc/{pid}/stat", "rb") as file:
        return int(file.read().rpartition(b")")[2].split()[19])


def boot_id() -> str:
    """A text that changes when the machine starts again."""
    return text_of("/proc/sys/kernel/random/boot_id").strip()


def text_of(path: str) -> str:
    """The content of a small file; empty if it cannot be read."""
    try:
        with open(path, encoding="ascii") as file:
            return file.read()
    except OSError:
        return ""


def write_status(folder: str, status: dict[str, Any], patient: bool) -> str:
    """Put a status on disk in one piece, waiting for room if `patient`; why not, if that fails."""
    path = os.path.join(folder, "status.json")
    data = json.dumps(status).encode()
    while True:
        try:
            if replace_file(path, data):
                sync_folder(folder)
                return ""
            reason = "no room"
        except FileNotFoundError:
            return "the folder is gone"  # nobody wants to know any more
        except OSError as error:
            reason = str(error.strerror)
        if not patient:
            return f"cannot write {path}: {reason}"
        reserve = os.path.join(folder, "reserve")
        if os.path.exists(reserve):
            remove(reserve)  # room that was kept for this moment
        else:
            time.sleep(_AGAIN_SECONDS)


def replace_file(path: str, data: bytes) -> bool:
    """Write beside the place, sync, rename; False without room. By hand: there is no Rota here."""
    fd = os.open(path + ".part", os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o640)
    try:
        os.write(fd, data)
        os.fsync(fd)
        whole = os.fstat(fd).st_size == len(data)
    finally:
        os.close(fd)
    if whole:
        os.replace(path + ".part", path)
    return whole


def sync_folder(folder: str) -> None:
    """Make a rename durable."""
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def become(plan: dict[str, Any], gate: int, errors: int, outputs: tuple[int, int]) -> None:
    """The child: wait until it is enclosed and on record, take limits, become the command.

    Never returns.
    """
    action = "start"
    try:
        os.setsid()
        for target, source in ((1, outputs[0]), (2, outputs[1])):
            os.dup2(source, target)
        if os.read(gate, 1) != b"1":
            os._exit(125)
        action = "pin"
        if plan["affinity"]:
            os.sched_setaffinity(0, plan["affinity"])
        action = "limit the memory of"
        if plan["data_limit"]:
            resource.setrlimit(resource.RLIMIT_DATA, (plan["data_limit"], plan["data_limit"]))
        action = "change the user for"
        if plan["user"]:
            change_user(plan["user"])
        action = f"enter {plan['cwd'][:200]!r} for"
        os.chdir(plan["cwd"])
        for number in _HANDLED:
            signal.signal(number, signal.SIG_DFL)
        action = "run"
        os.execvpe(plan["argv"][0], plan["argv"], plan["env"])
    except OSError as error:
        # Short: nobody may be there any more to read more than fits into the pipe.
        os.write(
            errors, f"cannot {action} {plan['argv'][0][:200]!r}: {error.strerror}".encode()[:2048]
        )
        os._exit(126 if isinstance(error, PermissionError) else 127)
    finally:
        os._exit(127)


def change_user(user: dict[str, Any]) -> None:
    """Give up all rights of the agent's user, and be one that cannot use up all processes."""
    resource.setrlimit(resource.RLIMIT_NPROC, (user["processes"], user["processes"]))
    os.setgroups(user["groups"])
    os.setresgid(user["gid"], user["gid"], user["gid"])
    os.setresuid(user["uid"], user["uid"], user["uid"])
    os.umask(0o077)


def enclosed(plan: dict[str, Any]) -> list[int]:
    """Processes in the control groups of the task and in those below them."""
    pids: set[int] = set()
    for top in plan["groups"]:
        for folder, _, _ in os.walk(top):  # groups may vanish meanwhile
            pids.update(map(int, text_of(os.path.join(folder, "cgroup.procs")).split()))
    return sorted(pids)


def kill_what_is_left(plan: dict[str, Any], pid: int) -> None:
    """End what the command left behind. It is not reaped yet, so its number is still its own."""
    send(-pid, signal.SIGKILL)
    end = time.monotonic() + _KILL_SECONDS
    while time.monotonic() < end:
        left = [p for p in enclosed(plan) if p != pid]
        if not left:
            return
        for start in range(0, len(left), _AT_ONCE):
            kill_members(plan, left[start : start + _AT_ONCE])
        time.sleep(0.01)


def kill_members(plan: dict[str, Any], pids: list[int]) -> None:
    """KILL for processes of the task, by handle: a number may be another one's meanwhile."""
    handles: dict[int, int] = {}
    for pid in pids:
        try:
            handles[pid] = os.pidfd_open(pid)
        except OSError:
            pass
    members = set(enclosed(plan)) if handles else set()
    for pid, handle in handles.items():
        try:
            if pid in members:  # asked after the handle was taken, so it is this very process
                signal.pidfd_send_signal(handle, signal.SIGKILL)
        except OSError:
            pass
        os.close(handle)


def run_ending(plan: dict[str, Any]) -> None:
    """Let an engine end the container: it is not below its program, which may have been killed."""
    argv = plan["ending"]
    if not argv:
        return
    quiet = [(os.POSIX_SPAWN_OPEN, 2, os.devnull, os.O_WRONLY, 0)]  # mostly it has ended already
    try:
        pid = os.posix_spawnp(argv[0], argv, plan["ending_env"], file_actions=quiet)
    except OSError:
        return
    end = time.monotonic() + _ENGINE_SECONDS
    while os.waitpid(pid, os.WNOHANG)[0] == 0:
        if time.monotonic() > end:
            send(pid, signal.SIGKILL)
        time.sleep(0.02)


def oom_kills(path: str | None) -> int:
    """How often the kernel ended a process of this task for want of memory."""
    lines = text_of(path or "").splitlines()
    return sum(int(line.split()[1]) for line in lines if line.startswith("oom_kill "))


def drain(pipes: dict[int, bytes], log: SegmentedLog) -> None:
    """Read what is in the pipes now, without waiting for whoever may still hold them."""
    for fd, stream in pipes.items():
        for _ in range(_MOST_READS):
            if not copy_some(fd, stream, log):
                break


def send(target: int, number: int) -> None:
    """A signal to a process, or to the group of the command if its number is negated."""
    try:
        os.kill(target, number)
    except OSError:
        pass


def may_run(folder: str) -> bool:
    """Whether the task is known and its lease has not ended.

    The lease holds its end in seconds since boot, and seconds of patience. It is there before the
    task runs, so a task without one is as good as unknown.
    """
    try:
        end, patience = map(float, text_of(os.path.join(folder, "lease")).split())
    except ValueError:
        return False
    return time.clock_gettime(time.CLOCK_BOOTTIME) < end + patience + _AGENT_SECONDS


def copy_output_until_exit(
    pid: int, pipes: dict[int, bytes], log: SegmentedLog, folder: str
) -> None:
    """Copy output into the log until the command has ended. It is left unreaped.

    Pipes are read in the order in which they were written to: that is the order in which epoll
    names them, if it names each once (EPOLLET). It is ended when its lease ends and no agent is
    there to see to that, and when its folder was removed, because no agent will ever find it again.
    """
    epoll = select.epoll()
    for fd in pipes:
        epoll.register(fd, select.EPOLLIN | select.EPOLLET)
    pause_s = (_LOOK_MS if wake_at_exit(epoll, pid) else _LOOK_OFTEN_MS) / 1000
    waiting: list[int] = []  # pipes with something to read
    term_sent_at = 0.0
    looked_at = 0.0
    while True:
        now = time.monotonic()
        if term_sent_at and now - term_sent_at > _KILL_SECONDS:
            send(-pid, signal.SIGKILL)  # what left the group follows once it has ended
        elif not term_sent_at and now - looked_at >= _LOOK_OFTEN_MS / 1000:
            looked_at = now
            if not may_run(folder):
                term_sent_at = now
                send(-pid, signal.SIGTERM)
        ready = [fd for fd, _ in epoll.poll(0 if waiting else pause_s) if fd in pipes]
        waiting += [fd for fd in ready if fd not in waiting]
        waiting = [fd for fd in waiting if copy_some(fd, pipes[fd], log)]
        if os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None:
            return


def wake_at_exit(epoll: select.epoll, pid: int) -> bool:
    """Let a poll return when a process ends; False if the kernel is too old for that."""
    try:
        epoll.register(os.pidfd_open(pid), select.EPOLLIN)
    except (OSError, AttributeError):
        return False
    return True


def copy_some(fd: int, stream: bytes, log: SegmentedLog) -> bool:
    """Copy what is there into the log; whether there may be more."""
    try:
        data = os.read(fd, _CHUNK)
    except OSError:
        return False
    if data:
        log.write(stream, data)
    return len(data) == _CHUNK


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


def open_pipes() -> tuple[dict[int, bytes], tuple[int, int]]:
    """A pipe for each of the two outputs: readers with the letter of each, the child's ends."""
    readers = {}
    writers = []
    for stream in (b"o", b"e"):
        reader, writer = os.pipe()
        os.set_blocking(reader, False)
        readers[reader] = stream
        writers.append(writer)
    return readers, (writers[0], writers[1])


def supervise(folder: str, plan: dict[str, Any], ready: int) -> None:
    """Start the command, stay until it has ended, and write down the truth about it."""
    pipes, outputs = open_pipes()
    log = SegmentedLog(plan["logs"], plan["log_bytes"], plan["log_segment_bytes"])
    pid, gate, errors = fork_command(plan, outputs)
    status = first_status(pid)
    error = enter_groups(plan, pid)
    if problem := write_status(folder, status, patient=False):
        os.close(gate)  # the child ends at that
        os.waitpid(pid, 0)
        os.write(ready, problem.encode())
        return
    if error:
        os.close(gate)  # the child ends at that
    else:
        error = open_gate(gate, errors)
    os.close(errors)
    if not error:
        os.write(ready, b"1")
        os.close(ready)
    copy_output_until_exit(pid, pipes, log, folder)
    kill_what_is_left(plan, pid)
    run_ending(plan)
    status.update(last_words(pid, plan, error))
    drain(pipes, log)
    status["exit"]["output_bytes_dropped"] = log.dropped
    write_status(folder, status, patient=True)  # an exit code must not get lost


def fork_command(plan: dict[str, Any], outputs: tuple[int, int]) -> tuple[int, int, int]:
    """The child that waits to become the command: its number, its gate, and where it complains."""
    gate_reader, gate = os.pipe()
    errors, errors_writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(gate)  # else it would wait for itself if this process dies
        become(plan, gate_reader, errors_writer, outputs)
    for fd in (*outputs, gate_reader, errors_writer):
        os.close(fd)
    return pid, gate, errors


def first_status(pid: int) -> dict[str, Any]:
    """What is known once the command was forked, in the words of `status.py` beside this file."""
    return {
        "phase": "running",
        "boot_id": boot_id(),
        "started_at": time.time(),
        "shim": [os.getpid(), start_time(os.getpid())],
        "process": [pid, start_time(pid)],
        "exit": None,
    }


def open_gate(gate: int, errors: int) -> str:
    """Let the child become its command; why it could not, if so."""
    os.write(gate, b"1")
    os.close(gate)
    return os.read(errors, 4096).decode(errors="replace")


def last_words(pid: int, plan: dict[str, Any], error: str) -> dict[str, Any]:
    """Reap the command and say how it ended."""
    _, code, usage = os.wait4(pid, 0)
    return {
        "phase": "ended",
        "ended_at": time.time(),
        "exit": {
            "code": os.WEXITSTATUS(code) if os.WIFEXITED(code) else None,
            "signal": os.WTERMSIG(code) if os.WIFSIGNALED(code) else None,
            "oom_kills": oom_kills(plan["oom_events"]),
            "error": error,
            "cpu_seconds": usage.ru_utime + usage.ru_stime,
            "max_rss_bytes": usage.ru_maxrss * 1024,
            "output_bytes_dropped": 0,
        },
    }


def main(folder: str, lock: int) -> int:
    """Fork away from whoever started this; come back to it once the command runs."""
    with open(os.path.join(folder, "launch.json"), encoding="utf-8") as file:
        plan = json.load(file)
    os.set_inheritable(
        lock, False
    )  # held for the life of this process: it says that the task is looked after
    answer, ready = os.pipe()
    if os.fork() > 0:
        os.close(ready)
        word = os.read(answer, 4096)
        sys.stderr.write(word.decode() if word != b"1" else "")
        return 0 if word == b"1" else 1
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
