"""A pilot on its machine: joins, runs the agent, and leaves nothing behind.

This process is the batch job. It has a private folder on a local disk, exchanges the join ticket for a certificate
there, and starts the agent. Signals are passed on to it. Should the agent die, it is started again and takes over what
it had started; when that is of no use, all of it is killed before this process ends, and with it the job: then the
machine is somebody else's. The devices are locked meanwhile, so a
second pilot that is given them by mistake waits, and gives up.

Standard library only, beside the locks: it is there as long as the agent is.
"""

from __future__ import annotations

import argparse
import contextlib
import fcntl
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import FrameType
from typing import IO

FAILED_TO_JOIN = 3
DEVICES_TAKEN = 4
_FINAL = (0, 2)
"""Exit codes of an agent that left, and of one that would say the same again."""
_RESTARTS = 3
_SETTLED_S = 60.0
"""An agent that ran so long gets all its restarts back."""
_LOCK_S = 60.0
"""Seconds to wait for devices that another pilot still has."""
_CODE = "import sys; sys.path[:] = filter(None, sys.path); from {module} import {name}; sys.exit({name}())"
_PASSED_ON = (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1)


def program(module: str, name: str = "main") -> tuple[str, ...]:
    """A function of ours as a process. Unlike with `-m`, nothing is imported from the folder it is started in."""
    return (sys.executable, "-c", _CODE.format(module=module, name=name))


ROTA = program("rota.cli.main")


class Pilot:
    """One child after the other, with the signals that came."""

    def __init__(self) -> None:
        self._child: subprocess.Popen[bytes] | None = None
        self.told: list[int] = []
        """Signals that came, the last one last."""
        for number in _PASSED_ON:
            signal.signal(number, self._pass_on)

    def _pass_on(self, number: int, frame: FrameType | None) -> None:
        del frame
        self.told.append(number)
        if self._child is not None:
            self._pass_on_to(self._child, number)

    @staticmethod
    def _pass_on_to(child: subprocess.Popen[bytes], number: int) -> None:
        with contextlib.suppress(ProcessLookupError):
            child.send_signal(number)

    def run_undisturbed(self, command: Sequence[str]) -> None:
        """Run a last program to its end. No signal of those that are passed on ends it, nor us, any more."""
        for number in _PASSED_ON:
            signal.signal(number, signal.SIG_IGN)  # which a child inherits
        subprocess.run(list(command), stdin=subprocess.DEVNULL, check=False)  # noqa: S603 - our own program

    def run(self, command: Sequence[str]) -> int:
        """Run a program to its end; its exit code."""
        self._child = subprocess.Popen(list(command), stdin=subprocess.DEVNULL)  # noqa: S603 - our own program
        for number in self.told:  # before there was a child to pass it on to
            self._pass_on_to(self._child, number)
        try:
            return self._child.wait()
        finally:
            self._child = None

    def run_again_and_again(self, command: Sequence[str]) -> int:
        """Run the agent; start it again if it dies without having been told to go. Its last exit code."""
        restarts = 0
        while True:
            began = time.monotonic()
            code = self.run(command)
            if time.monotonic() - began > _SETTLED_S:
                restarts = 0
            if code in _FINAL or self.told or restarts >= _RESTARTS:
                return code
            restarts += 1
            sys.stderr.write(f"rota: the agent ended with code {code} and is started again\n")
            time.sleep(0.5 * restarts)


def main(arguments: Sequence[str] | None = None) -> int:
    """Join, run the agent, clean up; the exit code."""
    parser = argparse.ArgumentParser(prog="rota-pilot")
    parser.add_argument("--ticket", required=True, help="folder of the join ticket")
    parser.add_argument("--scheduler", required=True, help="address of the scheduler")
    parser.add_argument("--valid", type=float, default=86_400.0, help="seconds for which a certificate is needed")
    parser.add_argument("--work", default="", help="folder on a local disk in which the agent has its own")
    parser.add_argument(
        "--whole-node",
        type=float,
        default=0.0,
        help="seconds to wait until no other pilot offers the GPUs of this node",
    )
    parser.add_argument("agent", nargs="+", help="options of `rota agent`")
    asked = parser.parse_args(arguments)
    pilot = Pilot()
    with (
        _locked_devices(_base(asked.work), asked.whole_node, pilot.told) as free,
        _folder(asked.work, asked.agent) as folder,
    ):
        if not free:
            sys.stderr.write("rota: another pilot still has the GPUs that Slurm gave to this job; it gives up\n")
            return DEVICES_TAKEN
        certs = folder / "certs"
        joined = pilot.run([
            *ROTA, "certs", "join", asked.ticket, "--out", str(certs), "--scheduler", asked.scheduler,
            "--valid", str(asked.valid),
        ])  # fmt: skip
        if joined or pilot.told:
            return FAILED_TO_JOIN
        own = folder / "agent"
        code = pilot.run_again_and_again([
            *ROTA, "agent", "--scheduler", asked.scheduler, "--certs", str(certs), "--folder", str(own), *asked.agent
        ])  # fmt: skip
        if code:  # it did not leave in order
            pilot.run_undisturbed([*program("rota.deploy.agent.sweep"), str(own)])
        return code


def _base(work: str) -> Path:
    return Path(work or tempfile.gettempdir())


@contextlib.contextmanager
def _folder(work: str, agent: Sequence[str]) -> Iterator[Path]:
    """A folder for the agent, removed at the end. Users of jobs have to get through it if they are kept apart."""
    folder = Path(tempfile.mkdtemp(prefix="rota-pilot-", dir=_base(work)))
    if os.geteuid() == 0 and "--trust-tenants" not in agent:
        folder.chmod(0o711)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextlib.contextmanager
def _locked_devices(base: Path, whole_node_s: float = 0.0, told: Sequence[int] = ()) -> Iterator[bool]:
    """Hold a lock for every device that this job was given; False if another process of ours has one of them.

    Devices are named as on the whole node: in CUDA_VISIBLE_DEVICES every job of a node begins with 0 where Slurm hides
    the others' (ConstrainDevices).
    `whole_node_s`: there are none, and one lock for the node is waited for as long, or until a signal comes (`told`).
    """
    node = f"{os.environ.get('SLURM_CLUSTER_NAME', '')}.{os.environ.get('SLURMD_NODENAME', 'local')}"
    named = os.environ.get("SLURM_JOB_GPUS") or os.environ.get("CUDA_VISIBLE_DEVICES", "")
    given = [word for word in named.split(",") if word]
    devices = ["whole-node"] if whole_node_s else given
    place = base / f"rota-devices-{os.geteuid()}"
    place.mkdir(mode=0o700, exist_ok=True)
    if place.is_symlink() or place.stat().st_uid != os.geteuid():
        raise SystemExit(f"rota: {place} belongs to another user, or leads elsewhere; give another --work-dir")
    until = time.monotonic() + (whole_node_s or _LOCK_S)
    with contextlib.ExitStack() as stack:
        locks = [
            stack.enter_context((place / f"{node}.{device}.lock".replace("/", "_")).open("a")) for device in devices
        ]
        yield all(_lock(lock, until, told) for lock in locks)


def _lock(lock: IO[str], until: float, told: Sequence[int]) -> bool:
    if not _locked(lock):
        sys.stderr.write(f"rota: waits for a GPU that another pilot still has ({lock.name})\n")
    while not _locked(lock):
        if told or time.monotonic() >= until:
            return False
        time.sleep(0.2)
    return True


def _locked(lock: IO[str]) -> bool:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


if __name__ == "__main__":
    sys.exit(main())
