"""A real Slurm on this machine: munged, slurmctld and some slurmd on loopback, in one temporary folder.

For tests, and by hand: `python tests/real_slurm.py --nodes 3` starts one, prints the SLURM_CONF to use, and stops it
with Ctrl-C. Everything runs in the foreground as a child of this process and is ended by its number. It needs root,
because munged and slurmd do, and Slurm's programs; `missing()` says what is not there.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

PROGRAMS = ("munged", "slurmctld", "slurmd", "sbatch", "squeue", "scancel", "scontrol", "sinfo", "setpriv")
GPU_MAJOR = 195
_LATEST_WRITE_S = 8.0
"""Seconds within which slurmctld writes down what changed; five by its sources."""
"""Number of NVIDIA's character devices: Slurm counts devices, nobody opens them."""


def missing():
    """Why Slurm cannot run here; empty if it can."""
    absent = [name for name in PROGRAMS if shutil.which(name) is None]
    if absent:
        return f"{', '.join(absent)} not installed (scripts/system-packages.sh)"
    return "" if os.geteuid() == 0 else "munged and slurmd need root"


def as_user(number):
    """What makes a command run as another user. Not by `user=` of subprocess: that forks, and gRPC then waits 60 s."""
    return () if number is None else ("setpriv", f"--reuid={number}", f"--regid={number}", "--clear-groups")


def free_ports(count):
    """Ports that nobody uses now, and that no outgoing connection gets while a daemon of ours is down."""
    found = []
    while len(found) < count:
        port = random.randrange(15_000, 32_000)
        with socket.socket() as one, contextlib.suppress(OSError):
            one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            one.bind(("127.0.0.1", port))
            found += [port] if port not in found else []
    return found


@dataclass(kw_only=True)
class RealSlurm:
    """A cluster of `nodes` nodes with `gpus` GPUs each. `types` has the type of every node."""

    nodes: int = 3
    gpus: int = 4
    types: tuple[str, ...] = ("v100",)
    proctrack: str = "linuxproc"
    kill_wait_s: int = 30
    preempt: str = "CANCEL"
    more: tuple[str, ...] = ()
    """More lines of slurm.conf."""
    cpus: int = 8
    constrain: bool = False
    """Whether a job sees its own GPUs only (ConstrainDevices, which needs `proctrack` cgroup)."""
    accounts: bool = False
    """Whether Slurm writes down every job that ended (jobcomp/filetxt, which needs no database)."""
    folder: Path = field(init=False)
    processes: dict[str, subprocess.Popen] = field(default_factory=dict)
    started_s: float = 0.0

    @property
    def conf(self):
        return self.folder / "slurm.conf"

    @property
    def cluster(self):
        """Its name, which no other one on this machine has."""
        return f"rota{self.controller_port}"

    @property
    def env(self):
        """The environment in which Slurm's commands find this cluster."""
        return {**os.environ, "SLURM_CONF": str(self.conf)}

    @property
    def names(self):
        """Of nodes. Control groups have their names, and another cluster on this machine may have any too."""
        own = f"{self.cluster}-" if self.proctrack == "cgroup" else ""
        return [f"{own}n{i + 1}" for i in range(self.nodes)]

    def __enter__(self):
        self.folder = Path(tempfile.mkdtemp(prefix="rota-slurm-"))
        self.folder.chmod(0o755)
        try:
            self.start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, *_):
        self.stop()

    # Up

    def start(self):
        began = time.monotonic()
        for name in ("run", "log", "spool", "state"):
            (self.folder / name).mkdir()
        key = self.folder / "munge.key"
        key.write_bytes(os.urandom(1024))
        key.chmod(0o400)
        self._write_conf()
        self._munged()
        self.start_controller(clean=True)
        for name in self.names:
            self.start_node(name)
        self.until(lambda: self.states().count("idle") == self.nodes, 60.0, "nodes are idle")
        self.started_s = time.monotonic() - began

    def _write_conf(self):
        ports = free_ports(self.nodes + 1)
        self.controller_port = ports[0]
        here = socket.gethostname()
        devices = [self.folder / f"gpu{i}" for i in range(self.gpus)]
        for number, path in enumerate(devices):
            os.mknod(path, 0o20666, os.makedev(GPU_MAJOR, number))
        listed = f"{self.folder}/gpu[0-{self.gpus - 1}]" if self.gpus > 1 else f"{self.folder}/gpu0"
        kinds = [self.types[i % len(self.types)] for i in range(self.nodes)]
        gres = [f"NodeName={n} Name=gpu Type={t} File={listed}" for n, t in zip(self.names, kinds, strict=True)]
        (self.folder / "gres.conf").write_text("\n".join(gres) + "\n")
        constrain = "ConstrainDevices=yes\n" if self.constrain else ""
        (self.folder / "cgroup.conf").write_text(f"CgroupAutomount=no\n{constrain}")
        run, log = self.folder / "run", self.folder / "log"
        lines = [
            f"ClusterName={self.cluster}",
            f"SlurmctldHost={here}(127.0.0.1)", "SlurmUser=root", "SlurmdUser=root",
            "AuthType=auth/munge", f"AuthInfo=socket={run}/munge.socket", "CredType=cred/munge", "MpiDefault=none",
            f"SlurmctldPort={self.controller_port}", f"ProctrackType=proctrack/{self.proctrack}",
            f"TaskPlugin=task/{'cgroup' if self.constrain else 'none'}",
            "SelectType=select/cons_tres", "SelectTypeParameters=CR_CPU_Memory", "SlurmdParameters=config_overrides",
            "GresTypes=gpu", f"SlurmctldPidFile={run}/slurmctld.pid", f"SlurmdPidFile={run}/slurmd.%n.pid",
            f"SlurmdSpoolDir={self.folder}/spool/%n", f"StateSaveLocation={self.folder}/state",
            f"SlurmctldLogFile={log}/slurmctld.log", f"SlurmdLogFile={log}/slurmd.%n.log",
            "PreemptType=preempt/partition_prio", f"PreemptMode={self.preempt}", f"KillWait={self.kill_wait_s}",
            "ReturnToService=1", "SlurmdTimeout=20", "MessageTimeout=5", "InactiveLimit=0", "MinJobAge=300",
            "SchedulerParameters=sched_interval=2,bf_interval=2",
            *(["JobCompType=jobcomp/filetxt", f"JobCompLoc={log}/jobs.txt"] if self.accounts else []),
            *self.more,
        ]  # fmt: skip
        lines += [
            f"NodeName={name} NodeHostname={here} NodeAddr=127.0.0.1 Port={port} CPUs={self.cpus} RealMemory=32000 "
            f"Gres=gpu:{kind}:{self.gpus}"
            for name, port, kind in zip(self.names, ports[1:], kinds, strict=True)
        ]
        every = ",".join(self.names)
        lines.append(f"PartitionName=gpu Nodes={every} Default=YES MaxTime=INFINITE State=UP PriorityTier=1")
        lines.append(f"PartitionName=urgent Nodes={every} MaxTime=INFINITE State=UP PriorityTier=10")
        self.conf.write_text("\n".join(lines) + "\n")

    def _start(self, name, *command):
        with (self.folder / "log" / f"{name}.out").open("ab") as log:
            self.processes[name] = subprocess.Popen(  # it ends when we are killed
                ["setpriv", "--pdeathsig", "TERM", *command],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=self.env,
                start_new_session=True,
            )

    def _munged(self):
        run = self.folder / "run"
        self._start(
            "munged", "munged", "--foreground", "--force", f"--key-file={self.folder}/munge.key",
            f"--socket={run}/munge.socket", f"--pid-file={run}/munged.pid", f"--log-file={self.folder}/log/munged.log",
            f"--seed-file={run}/munged.seed",
        )  # fmt: skip
        self.until((run / "munge.socket").exists, 10.0, "munged listens")

    def start_controller(self, *, clean=False):
        """Start slurmctld; `clean` forgets everything, otherwise it goes on from its state."""
        self._start("slurmctld", "slurmctld", "-D", "-f", str(self.conf), *(["-c"] if clean else []))

    def start_node(self, name):
        self._start(name, "slurmd", "-D", "-f", str(self.conf), "-N", name)

    # Use

    def run(self, *command, user=None, code=0):
        """One of Slurm's commands; its output."""
        words = [*as_user(user), *command]
        done = subprocess.run(words, check=False, capture_output=True, text=True, env=self.env, timeout=60, cwd="/")
        assert code is None or done.returncode == code, f"{command}: {done.returncode}\n{done.stdout}{done.stderr}"
        return done.stdout

    def states(self):
        """State of every node, in the order of their names."""
        said = subprocess.run(
            ["sinfo", "-h", "-N", "-p", "gpu", "-o", "%N %T"], check=False, capture_output=True, text=True, env=self.env
        ).stdout
        by_name = dict(line.split() for line in said.splitlines() if len(line.split()) == 2)
        return [by_name.get(name, "none").rstrip("*") for name in self.names]

    def jobs(self):
        """{number: state} of all jobs that Slurm still knows."""
        said = self.run("squeue", "-h", "-t", "all", "-o", "%i %T")
        return {int(number): state for number, state in (line.split() for line in said.splitlines())}

    def accounts_of_jobs(self):
        """{name: (user, state)} of all jobs that ended, as sacct shows them."""
        said = self.run("sacct", "--completion", "--parsable2", "--noheader", "--format=JobName,User,State")
        rows = [line.split("|") for line in said.splitlines()]
        return {name: (user, state) for name, user, state in rows}

    def until(self, holds, seconds=20.0, what="it"):
        end = time.monotonic() + seconds
        while not (found := holds()):
            for name, process in self.processes.items():
                said = (self.folder / "log" / f"{name}.out").read_text(errors="replace")[-2000:]
                assert process.poll() is None, f"{name} ended with {process.returncode}: {said}"
            assert time.monotonic() < end, f"{what}: not within {seconds} s"
            time.sleep(0.05)
        return found

    def until_written_down(self):
        """Until slurmctld has on its disk what it knows now.

        One that is killed before, some seconds after a job began, has forgotten it, and ends it where it runs.
        """
        now = time.time()
        state = self.folder / "state" / "job_state"

        def written():
            return time.time() > now + _LATEST_WRITE_S or (state.exists() and state.stat().st_mtime > now)

        self.until(written, 2 * _LATEST_WRITE_S, "slurmctld writes down what it knows")

    def kill(self, name):
        """kill -9 of one daemon."""
        process = self.processes.pop(name)
        process.send_signal(signal.SIGKILL)
        process.wait()

    # Down

    def stop(self):
        if "slurmctld" in self.processes and self.processes["slurmctld"].poll() is None:
            self._cancel_everything()
        for name in reversed(list(self.processes)):
            _end(self.processes.pop(name))
        for number in self._steps():
            with contextlib.suppress(ProcessLookupError):
                os.kill(number, signal.SIGKILL)
        shutil.rmtree(self.folder, ignore_errors=True)

    def _cancel_everything(self):
        for words in (("scancel", "--user=root"), ("scancel", "--signal=KILL", "--user=root")):
            with contextlib.suppress(subprocess.SubprocessError):
                subprocess.run(words, check=False, env=self.env, capture_output=True, timeout=15)
            end = time.monotonic() + self.kill_wait_s + 5
            while time.monotonic() < end:
                asked = ["squeue", "-h", "-o", "%i"]
                left = subprocess.run(asked, check=False, env=self.env, capture_output=True, text=True)
                if left.returncode or not left.stdout.strip():
                    return
                time.sleep(0.1)

    def _steps(self):
        """Processes of job steps, which outlive a slurmd: those that work below our folder."""
        found = []
        for entry in Path("/proc").iterdir():
            with contextlib.suppress(OSError):
                if entry.name.isdigit() and str((entry / "cwd").readlink()).startswith(f"{self.folder}/spool"):
                    found.append(int(entry.name))
        return found


def _end(process):
    """TERM, and KILL if that does not help."""
    if process.poll() is None:
        process.terminate()
        try:
            process.wait(5)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=3)
    parser.add_argument("--gpus", type=int, default=4)
    parser.add_argument("--proctrack", default="linuxproc", choices=("linuxproc", "cgroup"))
    asked = parser.parse_args()
    why = missing()
    if why:
        sys.exit(f"Slurm cannot run here: {why}")
    with RealSlurm(nodes=asked.nodes, gpus=asked.gpus, proctrack=asked.proctrack) as slurm:
        sys.stdout.write(f"export SLURM_CONF={slurm.conf}   # up after {slurm.started_s:.1f} s; Ctrl-C stops it\n")
        sys.stdout.flush()
        with contextlib.suppress(KeyboardInterrupt):
            signal.pause()


if __name__ == "__main__":
    main()
