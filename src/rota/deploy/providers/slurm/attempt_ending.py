"""Ends the batch job of an attempt after a rank of it has ended, in order if possible: then Slurm knows the exit code.

It is run by the supervisor of the rank (`python -S -E attempt_ending.py SCANCEL NUMBER FOLDER RANKS...`) while the
`srun` of the rank is not reaped yet, so that its exit code can be read. When all ranks of the attempt on this server
have ended, it waits until no process of the batch job is left: before that the supervisor does not say that the rank
has ended.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

_IN_ORDER_S = 6.0
"""Seconds for the batch job to end by itself."""
_BY_FORCE_S = 12.0
"""Seconds for Slurm to end it after that."""
_UNKNOWN = 1
_PROC = Path("/proc")


def main(scancel: str, number: str, folder: Path, ranks: list[Path]) -> int:
    """Write the exit code down; wait for the end of the batch job if this was its last rank."""
    write_code(folder, exit_code_of_sibling())
    if not all((rank / "code").exists() for rank in ranks):
        return 0
    user = user_of(ranks[0])
    if wait_for_end(number, _IN_ORDER_S, user):
        return 0
    subprocess.run([scancel, "--quiet", "--full", "--signal=KILL", number], check=False)  # noqa: S603 - the agent found it
    return 0 if wait_for_end(number, _BY_FORCE_S, user) else 1


def write_code(folder: Path, code: int) -> None:
    """In one piece: the holder reads it."""
    path = folder / "code.part"
    path.write_text(str(code), encoding="ascii")
    path.chmod(0o644)
    path.replace(folder / "code")


def exit_code_of_sibling() -> int:
    """The exit code of the process that our parent supervised and has not reaped yet, as a shell would tell it."""
    parent = str(os.getppid()).encode()
    for _, stat in _every("stat"):
        fields = stat.rpartition(b")")[2].split()
        if fields[:2] == [b"Z", parent]:
            status = int(fields[49])
            return os.WEXITSTATUS(status) if os.WIFEXITED(status) else 128 + os.WTERMSIG(status)
    return _UNKNOWN


def user_of(first_rank: Path) -> int | None:
    """Whose the attempt is: the user who may write into its folder for notices; None: not known any more."""
    try:
        return (first_rank / "notice").stat().st_uid
    except OSError:
        return None


def wait_for_end(number: str, seconds: float, user: int | None) -> bool:
    """Whether nothing of the batch job runs on this server within so many seconds."""
    end = time.monotonic() + seconds
    while processes_of(number, user):
        if time.monotonic() > end:
            return False
        time.sleep(0.1)
    return True


def processes_of(number: str, user: int | None) -> list[int]:
    """Processes that Slurm started in a batch job, and their children, as far as their environment tells.

    Those of another user than that of the job (None: not known) and ours only say so: anybody may write an environment.
    """
    users = None if user is None else {user, os.geteuid()}
    wanted = {f"SLURM_JOB_ID={number}".encode()}
    if cluster := os.environ.get("SLURM_CLUSTER_NAME"):
        wanted.add(f"SLURM_CLUSTER_NAME={cluster}".encode())
    found = [process for process, environ in _every("environ") if wanted <= set(environ.split(b"\0"))]
    return found if users is None else [process for process in found if _real_user(process) in users]


def _real_user(process: int) -> int | None:
    """Who started a process. Its folder in /proc may belong to root, if it says that it is not to be looked at."""
    try:
        lines = (_PROC / str(process) / "status").read_bytes().splitlines()
    except OSError:
        return None
    return next((int(line.split()[1]) for line in lines if line.startswith(b"Uid:")), None)


def _every(name: str) -> Iterator[tuple[int, bytes]]:
    """A file of every process that may be read."""
    for entry in _PROC.iterdir():
        if entry.name.isdigit():
            try:
                content = (entry / name).read_bytes()
            except OSError:
                continue
            yield int(entry.name), content


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2], Path(sys.argv[3]), [Path(word) for word in sys.argv[4:]]))
