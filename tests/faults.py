"""A deployment as real processes, for tests of what happens when parts of it fail.

Scheduler and agents run as `rota serve` and `rota agent` on loopback, or behind certificates on any address. Only
processes started here are ended, by their numbers.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

from chaos import free_port
from rota.core.errors import RotaError
from rota.deploy.control import Client

STEPPER = """
import fcntl, os, sys, time
import rota.client

PAUSE = float(os.environ.get("PAUSE", "0.05"))
ORDER = os.environ.get("ORDER")
total = 0

def save(path):
    (path / "total").write_text(str(total))

def load(path):
    global total
    total = int((path / "total").read_text())

rank = os.environ.get("ROTA_RANK", "0")
log = open(f"{sys.argv[1]}/{os.environ.get('ROTA_JOB', 'alone')}.{rank}", "a", buffering=1)
try:
    fcntl.flock(log, fcntl.LOCK_EX | fcntl.LOCK_NB)
except OSError:
    open(f"{sys.argv[1]}/overlaps", "a").write(f"attempt {os.environ['ROTA_EPOCH']} of job {os.environ['ROTA_JOB']}\\n")
with rota.client.lease(save=save, load=load, steps=int(os.environ.get("STEPS", "0")) or None) as lease:
    while lease.next():
        total = (total * 31 + lease.step * 7 + 1) % 1000003
        log.write(f"{os.environ.get('ROTA_EPOCH', '0')} {lease.step} {time.time():.6f} {os.getpid()} {total}\\n")
        time.sleep(PAUSE)
"""
"""Steps that depend on all steps before, each with a line: attempt, step, time, process, result.

It holds a lock for as long as it lives; a second attempt beside it leaves a line in `overlaps`."""

FAST = {"round": "1", "heartbeat": "0.3", "dead-after": "3", "lease": "6"}


def until(holds, seconds=30.0, what="it"):
    """Wait for something that is about to happen; its value."""
    end = time.monotonic() + seconds
    while not (found := holds()):
        assert time.monotonic() < end, f"{what} did not happen within {seconds} s"
        time.sleep(0.05)
    return found


class Site:
    """Scheduler and agents in a folder; use it as a context, so that nothing is left."""

    def __init__(self, folder, *, certs=None, host="127.0.0.1", policy="fifo", prefix=(), **settings):
        self.folder = Path(folder)
        self.address = f"{host}:{free_port()}"
        self.certs = certs
        self.security = ["--insecure"] if certs is None else ["--certs", str(certs)]
        self.programs = {}
        (self.folder / "steps").mkdir(exist_ok=True)
        (self.folder / "stepper.py").write_text(STEPPER)
        options = {**FAST, **{name.replace("_", "-"): str(value) for name, value in settings.items()}}
        self._serve = [
            "serve", "--state", f"{folder}/state.db", "--listen", self.address, *self.security, "--policy", policy,
            "--checkpoints", f"{folder}/checkpoints", *(x for k, v in options.items() for x in (f"--{k}", v)),
        ]  # fmt: skip
        self._prefix = list(prefix)
        self.client = None if certs is not None else Client(self.address, insecure=True)

    def __enter__(self):
        self.serve()
        return self

    def __exit__(self, kind, *_):
        if self.client is not None:
            self.client.close()
        for name in [n for n in self.programs if n != "scheduler"]:
            self.stop(name)
        if "scheduler" in self.programs:
            self.stop("scheduler")
        for number in self.tasks():
            with contextlib.suppress(OSError):
                os.kill(number, signal.SIGKILL)
        assert kind is not None or self.overlaps() == [], "two attempts of a job ran at the same time"

    # Processes

    def serve(self):
        self._start("scheduler", self._serve, self._prefix)
        if self.client is not None:
            until(self._answers, 120, "the scheduler's answer")

    def serve_once(self):
        """A scheduler that is expected to end by itself; what became of it."""
        command = [*self._prefix, sys.executable, "-m", "rota.cli", *self._serve]
        return subprocess.run(command, check=False, capture_output=True, text=True, timeout=60)

    def agent(
        self, name, gpus="emulate:v100=1", *, prefix=(), certs=None, wait=True, folder=None,
        isolation=("--trust-tenants",), **popen,
    ):  # fmt: skip
        security = self.security if certs is None else ["--certs", str(certs)]
        arguments = ["agent", "--scheduler", self.address, *security, "--gpus", gpus, "--name", name]
        arguments += [*isolation, "--folder", folder or f"{self.folder}/{name}"]
        self._start(name, arguments, list(prefix), **popen)
        if wait:
            until(lambda: self.node(name) == "up", 120, f"agent {name}")

    def _start(self, name, arguments, prefix, **popen):
        with (self.folder / f"{name}.log").open("ab") as log:
            self.programs[name] = subprocess.Popen(
                [*prefix, sys.executable, "-m", "rota.cli", *arguments], stdin=subprocess.DEVNULL, stdout=log,
                stderr=log, **popen,
            )  # fmt: skip

    def kill(self, name):
        process = self.programs.pop(name)
        process.kill()
        process.wait()

    def stop(self, name):
        process = self.programs.pop(name)
        process.terminate()
        try:
            process.wait(15)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    def log(self, name):
        return (self.folder / f"{name}.log").read_text()

    def tasks(self, job=None):
        """Numbers of the processes of jobs that run here, their supervisors included."""
        mark = f"ROTA_TASK_FOLDER={self.folder}".encode()
        found = []
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit():
                with contextlib.suppress(OSError):
                    environ = (entry / "environ").read_bytes().split(b"\0")
                    mine = any(e.startswith(mark) for e in environ)
                    if mine and (job is None or f"ROTA_JOB={job}".encode() in environ):
                        found.append(int(entry.name))
        return found

    # Questions

    def _answers(self):
        with contextlib.suppress(RotaError):
            return self.client.status() is not None
        return False

    def node(self, name):
        return next((node.state for node in self.client.nodes() if node.node == name), "")

    def busy(self):
        return {node.node: node.busy for node in self.client.nodes()}

    def submit(self, **fields):
        """A real job of the stepper unless told otherwise; its number."""
        env = {"PAUSE": str(fields.pop("pause", 0.05)), "PYTHONPATH": os.environ.get("PYTHONPATH", "")}
        spec = {
            "argv": [sys.executable, f"{self.folder}/stepper.py", f"{self.folder}/steps"], "cwd": str(self.folder),
            "checkpoint_every_s": 1.0, "env": env, **fields,
        }  # fmt: skip
        if spec.get("emulated"):
            del spec["argv"], spec["env"], spec["cwd"]
            spec.setdefault("profile", "ResNet-18 (batch size 32)")
        return self.client.submit([spec])[0]

    def job(self, number):
        return self.client.job(number)

    def done(self, *numbers, seconds=60.0):
        """Jobs once they are over."""
        return self.client.wait(numbers, seconds, every_s=0.1)

    def steps(self, job, rank=0):
        """(attempt, step, time, process, result) of every step that was done."""
        path = self.folder / "steps" / f"{job}.{rank}"
        lines = path.read_text().splitlines() if path.exists() else []
        rows = [line.split() for line in lines]
        return [(int(a), int(s), float(t), int(p), int(r)) for a, s, t, p, r in rows]

    def events(self, *kinds, job=None):
        """What the journal has, in order."""
        with contextlib.closing(sqlite3.connect(self.folder / "state.db")) as journal:
            lines = [json.loads(body) for (body,) in journal.execute("SELECT body FROM events ORDER BY seq")]
        return [e for e in lines if (not kinds or e["event"] in kinds) and (job is None or e.get("job") == job)]

    def overlaps(self):
        """Attempts of the stepper that began while another one of their job was still alive."""
        path = self.folder / "steps" / "overlaps"
        return path.read_text().splitlines() if path.exists() else []

    def begun(self):
        """The second 0 of the scheduler's clock, as wall time."""
        return self.events("ServiceStarted")[0]["begun"]

    def credited_in_order(self, job):
        """The steps credited to a job; each amount once, and never by an attempt that is over."""
        current, saved = 0, []
        for event in self.events("AttemptStarted", "AttemptEnded", "StepsSaved", job=job):
            if event["event"] == "AttemptStarted":
                current = event["epoch"]
            elif event["event"] == "AttemptEnded":
                current = 0
            else:
                assert event["epoch"] == current, f"attempt {event['epoch']} credited while {current} runs"
                saved.append(event["step"])
        assert saved == sorted(set(saved))
        return saved


def results(steps):
    """What the stepper computes, without any interruption."""
    total, found = 0, []
    for step in range(steps):
        total = (total * 31 + step * 7 + 1) % 1000003
        found.append(total)
    return found


def tell(what, seconds):
    """Figures for `pytest -rP`."""
    ordered = sorted(seconds)
    middle = ordered[len(ordered) // 2]
    sys.stdout.write(
        f"{what}: {len(ordered)} times, median {middle:.3f} s, from {ordered[0]:.3f} to {ordered[-1]:.3f}\n"
    )
