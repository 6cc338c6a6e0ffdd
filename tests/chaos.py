"""Kill -9 everything, again and again, under a running trace; then look whether anything was lost.

Between the kills wall clocks jump by up to an hour, back and forth, agents freeze for a while, and disks are full.

A real scheduler and real agents as processes, emulated jobs and real ones. `python tests/chaos.py` is the long form
(`make chaos`); the test suite runs a short one. Only processes started here are killed, by their numbers.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import signal
import socket
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections import Counter
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

from mishaps import Clocks, SmallDisk
from rota.core.errors import RotaError
from rota.deploy.control import Client

STEPPER = """
import os, sys, time
import rota.client

def save(path):
    (path / "step").write_text(str(lease.step))

def load(path):
    pass

log = open(sys.argv[1] + "/" + os.environ["ROTA_JOB"], "a", buffering=1)
with rota.client.lease(save=save, load=load) as lease:
    while lease.next():
        log.write(f"{lease.step}\\n")
        time.sleep(0.02)
"""


def free_port():
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


@dataclass
class Program:
    """One `rota ...` that is killed and started again."""

    arguments: list[str]
    log: Path
    prefix: tuple[str, ...] = ()
    process: subprocess.Popen | None = None
    killed: int = 0
    born: float = 0.0

    def start(self):
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [*self.prefix, sys.executable, "-m", "rota.cli", *self.arguments],
                stdout=log, stderr=log, stdin=subprocess.DEVNULL,
            )  # fmt: skip
        self.born = time.monotonic()

    def kill(self):
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()
        self.killed += 1

    def stop(self):
        if self.process is None or self.process.poll() is not None:
            return
        self.process.terminate()
        try:
            self.process.wait(15)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


@dataclass
class Report:
    """What was found."""

    jobs: int
    finished: int
    scheduler_kills: int
    agent_kills: int
    seconds: float
    problems: list[str] = field(default_factory=list)
    attempts: int = 0
    jolts: Counter = field(default_factory=Counter)

    def __str__(self):
        head = (
            f"{self.finished} of {self.jobs} jobs finished in {self.seconds:.0f} s under {self.scheduler_kills} kills "
            f"of the scheduler and {self.agent_kills} of agents; {self.attempts} attempts"
        )
        head += "".join(f"; {count} x {what}" for what, count in sorted(self.jolts.items()))
        return "\n".join([head, *(f"  PROBLEM: {p}" for p in self.problems[:20])])


class Storm:
    """A cluster in a folder, and somebody who kills it. The scheduler and the first agent have disks of their own."""

    def __init__(self, folder, *, agents=4, gpus=4, seed=0, policy="fifo", round_s=2.0):
        self.folder, self.random = Path(folder), random.Random(seed)
        self.port = free_port()
        address = f"127.0.0.1:{self.port}"
        (self.folder / "steps").mkdir()
        (self.folder / "stepper.py").write_text(STEPPER)
        self.clocks = Clocks(self.folder)
        self.disks = [SmallDisk(self.folder / "disk", 128), SmallDisk(self.folder / "agent-disk", 64)]
        self.jolts = Counter()
        serve = [
            "serve", "--state", f"{self.disks[0].path}/state.db", "--listen", address, "--insecure", "--policy", policy,
            "--round", str(round_s), "--checkpoints", f"{folder}/checkpoints", "--dead-after", "20", "--lease", "60",
        ]  # fmt: skip
        self.scheduler = Program(serve, self.folder / "scheduler.log", self.clocks.prefix("scheduler"))
        self.agents = [
            Program(
                ["agent", "--scheduler", address, "--insecure", "--gpus", f"emulate:v100={gpus}", "--name", f"n{i}",
                 "--folder", f"{self.disks[1].path if i == 0 else folder}/n{i}"],
                self.folder / f"n{i}.log",
                self.clocks.prefix("agents"),
            )
            for i in range(agents)
        ]  # fmt: skip
        self.client = Client(address, insecure=True)

    def __enter__(self):
        self.scheduler.start()
        for agent in self.agents:
            agent.start()
        return self

    def __exit__(self, *_):
        try:
            for program in (*self.agents, self.scheduler):
                program.stop()
            self.client.close()
            for path in self.disks[0].path.glob("state.db*"):
                if path.is_file():
                    shutil.copy(path, self.folder / path.name)
        finally:
            for disk in self.disks:
                disk.close()

    def patiently(self, call, timeout=60.0):
        """Ask again while the scheduler is dead."""
        end = time.monotonic() + timeout
        while True:
            try:
                return call()
            except RotaError:  # noqa: PERF203
                if time.monotonic() > end:
                    raise
                time.sleep(0.1)

    def submit(self, emulated, real, steps):
        specs = [
            {"name": f"e{i}", "emulated": True, "profile": "ResNet-18 (batch size 32)", "gpus": 1,
             "steps": steps + 7 * i, "checkpoint_every_s": 1.0}
            for i in range(emulated)
        ]  # fmt: skip
        specs += [
            {"name": f"r{i}", "argv": [sys.executable, f"{self.folder}/stepper.py", f"{self.folder}/steps"],
             "steps": 100 + i, "checkpoint_every_s": 1.0, "cwd": str(self.folder)}
            for i in range(real)
        ]  # fmt: skip
        self.random.shuffle(specs)
        self.specs = {}
        for at in range(0, len(specs), 5):
            part = specs[at : at + 5]
            numbers = self.patiently(lambda part=part, at=at: self.client.submit(part, request=f"chaos-{at}"))
            self.specs.update(zip(numbers, part, strict=True))
        return list(self.specs)

    def strike(self, scheduler_left, agents_left):
        """One kill at a random moment; the victim is started again."""
        time.sleep(self.random.uniform(0.1, 1.2))
        if self.random.random() < scheduler_left / max(1, scheduler_left + agents_left):
            self.scheduler.kill()
            time.sleep(self.random.uniform(0.0, 0.5))
            self.scheduler.start()
            # Half of the next kills come while it is still reading its journal, half when it serves.
            if self.random.random() < 0.5:
                self.patiently(self.client.status)
            return scheduler_left - 1, agents_left
        agent = self.random.choice(self.agents)
        agent.kill()
        time.sleep(self.random.uniform(0.0, 1.0))
        agent.start()
        return scheduler_left, agents_left - 1

    def jolt(self):
        """Something that happens to machines and ends no process; it is over when this returns, but for clocks."""
        kinds = ["clock set", "frozen agent"] + ["full disk"] * all(disk.mounted for disk in self.disks)
        kind = self.random.choice(kinds)
        if kind == "clock set":
            who = self.random.choice(["scheduler", "agents"])
            self.clocks.set(who, self.random.choice([-3600.0, 0.0, 3600.0]))
        elif kind == "frozen agent":
            self._freeze(self.random.choice(self.agents), self.random.uniform(0.5, 5.0))
        else:
            disk = self.random.choice(self.disks)
            disk.fill()
            time.sleep(self.random.uniform(0.5, 4.0))
            disk.free()
        self.jolts[kind] += 1

    def _freeze(self, agent, seconds):
        agent.process.send_signal(signal.SIGSTOP)
        time.sleep(seconds)
        agent.process.send_signal(signal.SIGCONT)

    def over(self):
        jobs = self.patiently(self.client.jobs)
        return all(job.phase in ("finished", "failed", "cancelled") for job in jobs)


def run(
    folder, *, emulated, real, steps, scheduler_kills, agent_kills, jolts=0, agents=4, seed=0, limit_s=900.0, say=None
):
    """The whole thing; a Report."""
    began = time.monotonic()
    with Storm(folder, agents=agents, seed=seed) as storm:
        storm.patiently(lambda: _all_up(storm, agents))
        storm.submit(emulated, real, steps)
        left = (scheduler_kills, agent_kills)
        while sum(left) + jolts:
            if storm.random.random() < jolts / (sum(left) + jolts):
                storm.jolt()
                jolts -= 1
            else:
                left = storm.strike(*left)
            if say:
                say(f"{sum(left)} kills and {jolts} other mishaps to come")
        while not storm.over():
            if time.monotonic() - began > limit_s:
                break
            time.sleep(0.5)
        jobs = storm.patiently(storm.client.jobs)
        nodes = storm.patiently(storm.client.nodes)
        report = Report(
            jobs=len(jobs), finished=sum(job.phase == "finished" for job in jobs),
            scheduler_kills=storm.scheduler.killed, agent_kills=sum(a.killed for a in storm.agents),
            seconds=time.monotonic() - began, jolts=storm.jolts,
        )  # fmt: skip
        _judge(storm, jobs, nodes, report)
    report.problems += _leftovers(folder)
    return report


def _all_up(storm, count):
    if sum(node.state == "up" for node in storm.client.nodes()) < count:
        raise RotaError("not all agents are up")


def _judge(storm, jobs, nodes, report):
    problems = report.problems
    for job in jobs:
        if job.phase != "finished":
            problems.append(f"job {job.job} is {job.phase} ({job.reason})")
        elif job.saved_step != storm.specs[job.job]["steps"]:
            problems.append(f"job {job.job}: {job.saved_step} of {storm.specs[job.job]['steps']} steps credited")
    problems += [f"node {n.node} still holds {n.busy} GPUs" for n in nodes if n.busy]
    lines = [
        json.loads(body)
        for (body,) in sqlite3.connect(storm.disks[0].path / "state.db").execute("SELECT body FROM events ORDER BY seq")
    ]
    attempts = Counter(line["job"] for line in lines if line["event"] == "AttemptStarted")
    report.attempts = sum(attempts.values())
    problems += [f"job {job} was started {n} times" for job, n in attempts.items() if n != 1]
    for number, spec in storm.specs.items():
        saved = [line["step"] for line in lines if line["event"] == "StepsSaved" and line["job"] == number]
        if saved != sorted(set(saved)):
            problems.append(f"job {number}: steps credited out of order: {saved}")
        if "argv" in spec:
            done = (storm.folder / "steps" / str(number)).read_text().split()
            if done != [str(i) for i in range(spec["steps"])]:
                problems.append(f"job {number} did {len(done)} steps instead of {spec['steps']}, each once")


def _leftovers(folder):
    """Processes of jobs that outlived everything."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                environ = (entry / "environ").read_bytes()
            except OSError:
                continue
            if f"ROTA_TASK_FOLDER={folder}".encode() in environ and int(entry.name) != os.getpid():
                found.append(f"process {entry.name} was left behind")
    return found


def main():
    asked = argparse.ArgumentParser(description=__doc__)
    asked.add_argument("--jobs", type=int, default=100)
    asked.add_argument("--scheduler-kills", type=int, default=50)
    asked.add_argument("--agent-kills", type=int, default=20)
    asked.add_argument("--jolts", type=int, default=30, help="clocks set, agents frozen, disks filled up")
    asked.add_argument("--seed", type=int, default=0)
    given = asked.parse_args()
    with ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="rota-chaos-"))
        real = given.jobs // 5
        report = run(
            folder, emulated=given.jobs - real, real=real, steps=250, scheduler_kills=given.scheduler_kills,
            agent_kills=given.agent_kills, jolts=given.jolts, seed=given.seed,
            say=lambda text: sys.stderr.write(f"\r{text} "),
        )  # fmt: skip
        sys.stdout.write(f"\n{report}\n")
        if report.problems:
            kept = tempfile.mkdtemp(prefix="rota-chaos-kept-")
            shutil.copytree(folder, kept, dirs_exist_ok=True)
            sys.stdout.write(f"kept in {kept}\n")
    return 1 if report.problems else 0


if __name__ == "__main__":
    sys.exit(main())
