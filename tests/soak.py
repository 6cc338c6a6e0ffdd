"""A week of a small cluster in an hour: everything that happens to one, and then a look at every job, file and process.

Real scheduler and agents as processes, three tenants, emulated jobs, commands with and without `rota.client`, gangs.
Meanwhile servers join, are drained, freeze, are lost and removed; everything is killed, stopped and started again; wall
clocks are set; disks fill up. `python tests/soak.py` is the long form (`make soak`); the test suite runs a short one.
Only processes started here are ended, by their numbers, and everything stays on loopback.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import shutil
import signal
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from faults import Site, results
from mishaps import Clocks, SmallDisk
from rota.core.errors import RotaError

MINUTE = 60.0
HOUR = 60 * MINUTE
DAY = 24 * HOUR
WEEK_S = 7 * DAY
TENANTS = ("speech", "text", "vision")
PROFILE = "ResNet-18 (batch size 32)"
STEPS_PER_S = {1: 33.0, 2: 75.0, 4: 105.0}
"""Steps per engine second of an emulated job by its GPUs, about: only to size jobs."""
HAPPENS = {
    "kill of an agent": 4,
    "kill of the scheduler": 4,
    "stop of an agent": 2,
    "stop of the scheduler": 2,
    "drain": 3,
    "join": 2,
    "leave": 2,
    "clock set": 3,
    "clock set while down": 2,
    "frozen agent": 2,
    "power loss": 1,
    "full disk of the scheduler": 1,
    "full disk of an agent": 1,
}
"""What happens to a cluster, and how often, relative to the rest."""
PLAIN = """
import fcntl, os, sys, time
folder, seconds = sys.argv[1], float(sys.argv[2])
job = os.environ["ROTA_JOB"]
log = open(f"{folder}/{job}.plain", "a", buffering=1)
try:
    fcntl.flock(log, fcntl.LOCK_EX | fcntl.LOCK_NB)
except OSError:
    open(f"{folder}/overlaps", "a").write(f"attempt {os.environ['ROTA_EPOCH']} of job {job}\\n")
print("began", os.environ["ROTA_EPOCH"], flush=True)
time.sleep(seconds)
log.write("result\\n")
print("result", job, os.environ["ROTA_EPOCH"], flush=True)
"""
"""A command that knows nothing of Rota: it sleeps and leaves a line."""


@dataclass(frozen=True, kw_only=True)
class Plan:
    """How long and how much."""

    seconds: float
    """Wall seconds in which jobs are submitted and things happen."""
    servers: int = 3
    gpus: int = 4
    seed: int = 0
    busy: float = 1.3
    """Work that arrives, relative to what the servers can do."""
    most_jobs: int = 60
    """Jobs that are not over: no more are submitted then."""
    drain_s: float = 240.0
    """Wall seconds that everything may take to end after that."""
    pauses: tuple[float, float] = (2.0, 8.0)
    """Wall seconds between two things that happen."""
    once: bool = False
    """Whether everything happens equally often."""
    state_mb: int = 48
    time_scale: float = 168.0


@dataclass
class Report:
    """What was found."""

    jobs: Counter = field(default_factory=Counter)
    happened: Counter = field(default_factory=Counter)
    problems: list[str] = field(default_factory=list)
    seconds: float = 0.0
    attempts: int = 0
    preempted: int = 0
    thrown_back: int = 0
    samples: int = 0
    reasons: Counter = field(default_factory=Counter)
    scheduler_mb: list[float] = field(default_factory=list)
    state_mb: list[float] = field(default_factory=list)
    log_mb: list[float] = field(default_factory=list)
    """SQLite's write-ahead log, which may be large for as long as somebody reads."""
    disk_mb: list[float] = field(default_factory=list)

    def __str__(self):
        memory, state, disk, log = (
            max(v, default=0.0) for v in (self.scheduler_mb, self.state_mb, self.disk_mb, self.log_mb)
        )
        said = [
            f"{self.seconds:.0f} s; jobs: {_counts(self.jobs)}",
            f"{self.attempts} attempts, {self.preempted} preempted, {self.thrown_back} thrown back",
            f"happened: {_counts(self.happened)}",
            f"{self.samples} looks at waiting jobs: {_counts(self.reasons)}",
            f"scheduler up to {memory:.0f} MB of memory, state file {state:.1f} MB (log {log:.1f}), all {disk:.1f} MB",
        ]
        return "\n".join([*said, *(f"  PROBLEM: {p}" for p in self.problems[:40])])


def _counts(counter):
    return ", ".join(f"{count} {name}" for name, count in sorted(counter.items())) or "none"


class Events:
    """All events of the journal, read as they come: old ones are removed from the file in time."""

    def __init__(self, path):
        self._path = path
        self._last = 0
        self.all = []
        self.missed = 0

    def read(self):
        with contextlib.suppress(sqlite3.Error), contextlib.closing(sqlite3.connect(self._path, timeout=1.0)) as db:
            rows = db.execute("SELECT seq, body FROM events WHERE seq > ? ORDER BY seq", (self._last,)).fetchall()
            for number, body in rows:
                self.missed += number - self._last - 1
                self._last = number
                self.all.append(json.loads(body))

    def of(self, *kinds):
        return [event for event in self.all if event["event"] in kinds]


class Week(Site):
    """The cluster."""

    def __init__(self, folder, plan):
        folder = Path(folder)
        self.plan = plan
        self.random = random.Random(plan.seed)
        self.clocks = Clocks(folder)
        self.disk = SmallDisk(folder / "disk", plan.state_mb)
        self.agent_disk = SmallDisk(folder / "agent-disk", 64)
        (folder / "plain.py").write_text(PLAIN)
        super().__init__(
            folder, policy="max-min-fairness-perf", prefix=self.clocks.prefix("scheduler"),
            state=self.disk.path / "state.db", logs=folder / "output", time_scale=plan.time_scale, round=360,
            heartbeat=0.5, dead_after=4, lease=12, keep_rounds=30, keep_events="10m", keep_jobs="5m", keep_finished=20,
            keep_checkpoints=20, keep_size="8MB", keep_job_logs="1MB", keep_logs="16MB", log_segment="100kB",
        )  # fmt: skip
        self.journal = Events(self.disk.path / "state.db")
        self.report = Report()
        self.wanted = {}
        self.cancelled = set()
        self.ended = {}
        self.unheard = set()
        self.joined = 0
        self.extra = []
        self.deck = []
        self.since_free = {}
        self.disturbed_at = time.monotonic()

    def __exit__(self, *how):
        try:
            super().__exit__(*how)
            for path in self.disk.path.glob("state.db*"):
                shutil.copy(path, self.folder / path.name.replace("state", "kept"))
        finally:
            self.disk.close()
            self.agent_disk.close()

    def agent(self, name, gpus=None, **how):
        folder = str(self.agent_disk.path / name) if name == "v0" else f"{self.folder}/{name}"
        gpus = gpus or f"emulate:v100={self.plan.gpus}"
        super().agent(name, gpus, prefix=self.clocks.prefix("agents"), folder=folder, **how)

    def patiently(self, call, timeout=60.0):
        """Ask again while the scheduler is away."""
        end = time.monotonic() + timeout
        while True:
            try:
                return call()
            except RotaError:  # noqa: PERF203
                if time.monotonic() > end:
                    raise
                time.sleep(0.2)

    # Jobs

    def a_job(self):
        """A job of a random kind and tenant: its fields, and wall seconds times GPUs that it takes."""
        tenant = self.random.choices(TENANTS, (1, 2, 5))[0]
        kind = self.random.choices(("emulated", "client", "plain", "gang"), (6, 2, 2, 1))[0]
        seconds = self.random.uniform(1.0, min(40.0, self.plan.seconds / 6))
        gpus = 1
        env = {"PAUSE": "0.05", "PYTHONPATH": os.environ.get("PYTHONPATH", "")}
        stepper = [sys.executable, f"{self.folder}/stepper.py", f"{self.folder}/steps"]
        fields = {"name": kind, "tenant": tenant, "cwd": str(self.folder), "checkpoint_every_s": 1.0}
        if kind == "emulated":
            gpus = self.random.choice((1, 1, 2, 4))
            steps = int(seconds * self.plan.time_scale * STEPS_PER_S[gpus])
            fields = {**fields, "emulated": True, "profile": PROFILE, "gpus": gpus, "steps": steps}
            del fields["cwd"]
        elif kind == "plain":
            argv = [sys.executable, f"{self.folder}/plain.py", f"{self.folder}/steps", f"{seconds:.2f}"]
            fields = {**fields, "argv": argv, "env": env, "max_restarts": 20}
        else:
            gpus = 2 if kind == "gang" else 1
            fields = {**fields, "argv": stepper, "env": env, "steps": int(seconds * 20) + 1, "gpus": gpus}
            fields |= {"max_restarts": 20, **({"ranks": "gpu"} if kind == "gang" else {})}
        return fields, seconds * gpus

    work = 0.0
    """GPU seconds that were submitted."""

    def submit_some(self, until_work):
        """Jobs until as much work was submitted as should have arrived by now."""
        while self.work < until_work and len(self.wanted) - len(self.ended) < self.plan.most_jobs:
            fields, work = self.a_job()
            request = f"soak-{len(self.wanted)}"
            (number,) = self.patiently(lambda f=fields, r=request: self.client.submit([f], request=r))
            self.wanted[number] = fields
            self.work += work
            if self.random.random() < 0.03:
                self.patiently(lambda n=number: self.client.cancel([n]))
                self.cancelled.add(number)

    # What happens

    def strike(self):
        """One thing that happens to a cluster."""
        if not self.deck:
            self.deck = self._shuffled()
        kind = self.deck.pop()
        getattr(self, "_" + kind.replace(" ", "_"))()
        self.report.happened[kind] += 1
        self.disturbed_at = time.monotonic()

    def _shuffled(self):
        """Everything that may happen, in a random order; in the short form once each."""
        times = {kind: 1 if self.plan.once else count for kind, count in HAPPENS.items()}
        if not (self.disk.mounted and self.agent_disk.mounted):
            times = {kind: count for kind, count in times.items() if "full disk" not in kind}
        deck = [kind for kind, count in times.items() for _ in range(count)]
        self.random.shuffle(deck)
        return deck

    def _some_agent(self):
        return self.random.choice([name for name in self.programs if name != "scheduler"])

    def _shortly(self, most=1.5):
        time.sleep(self.random.uniform(0.0, most))

    def _kill_of_an_agent(self):
        name = self._some_agent()
        self.kill(name)
        self._shortly(6.0)
        self.agent(name, wait=False)

    def _stop_of_an_agent(self):
        name = self._some_agent()
        self.stop(name)
        self._shortly()
        self.agent(name, wait=False)

    def _kill_of_the_scheduler(self):
        self.kill("scheduler")
        self._shortly(3.0)
        self.serve()

    def _stop_of_the_scheduler(self):
        self.stop("scheduler")
        self._shortly()
        self.serve()

    def _drain(self):
        name = self._some_agent()
        with contextlib.suppress(RotaError):
            self.client.drain(name)
            self._shortly(6.0)
        self.patiently(lambda: self._undrain(name))

    def _undrain(self, name):
        if self.node(name) in ("draining", "drained"):
            self.client.drain(name, undo=True)

    def _join(self):
        name = f"x{self.joined}"
        self.joined += 1
        self.agent(name, "emulate:v100=2", wait=False)
        self.extra.append(name)

    def _leave(self):
        """A server that joined is drained, stopped, lost and forgotten."""
        if not self.extra:
            return
        name = self.extra.pop(0)
        self.stop(name)
        end = time.monotonic() + 45.0
        while time.monotonic() < end:
            if self.patiently(lambda: self.node(name)) in ("lost", ""):
                break
            time.sleep(0.3)
        else:
            self.report.problems.append(f"server {name} was stopped and is not lost after 45 s")
            return
        if self.node(name) == "lost":
            self.patiently(lambda: self.client.remove_node(name))

    def _clock_set(self):
        who = self.random.choice(("scheduler", "agents"))
        self.clocks.set(who, self.random.choice((0.0, HOUR, -HOUR, DAY, -DAY, 20.0, -20.0)))
        self._shortly()

    def _clock_set_while_down(self):
        who = self.random.choice(("scheduler", self._some_agent()))
        self.kill(who)
        ahead = self.random.choice((0.0, HOUR, -HOUR, DAY, -DAY, -300.0))
        self.clocks.set("scheduler" if who == "scheduler" else "agents", ahead)
        self._shortly()
        self.serve() if who == "scheduler" else self.agent(who, wait=False)

    def _frozen_agent(self):
        process = self.programs[self._some_agent()]
        process.send_signal(signal.SIGSTOP)
        time.sleep(self.random.choice((1.0, 3.0, 8.0)))
        process.send_signal(signal.SIGCONT)

    def _power_loss(self):
        names = [name for name in self.programs if name != "scheduler"]
        for name in self.random.sample(["scheduler", *names], len(names) + 1):
            self.kill(name)
        self._shortly()
        self.serve()
        for name in names:
            self.agent(name, wait=False)

    def _full_disk_of_the_scheduler(self):
        """It ends with one message; with room again it goes on."""
        self.disk.fill()
        process = self.programs["scheduler"]
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(5.0)
        self.disk.free()
        if process.poll() is None:
            return
        if process.returncode != 2:
            self.report.problems.append(f"the scheduler ended with {process.returncode} on a full disk")
        self.programs.pop("scheduler")
        self.serve()

    def _full_disk_of_an_agent(self):
        """The server is as good as lost, and comes back by itself or is started again."""
        self.agent_disk.fill()
        self._shortly(4.0)
        self.agent_disk.free()
        if self.programs["v0"].poll() is not None:
            self.report.happened["agent ended on a full disk"] += 1
            self.programs.pop("v0")
            self.agent("v0", wait=False)

    # Looking

    def look(self):
        """Every waiting job has a reason, none waits beside GPUs that it could have, memory and disk are bounded."""
        self.journal.read()
        try:
            jobs = self.client.jobs(["queued", "waiting", "running", "stopping"])
            nodes = self.client.nodes()
        except RotaError:
            return
        self.report.samples += 1
        for job in jobs:
            if job.phase in ("queued", "waiting"):
                self.report.reasons[job.reason_code] += 1
                if not job.reason_code or not job.reason:
                    self.report.problems.append(f"job {job.job} is {job.phase} without a reason")
        self._look_at_free(jobs, nodes)
        self._look_at_ends()
        self._measure()

    def _look_at_ends(self):
        """Jobs that are over are forgotten after a while, so they are looked at when they are."""
        with contextlib.suppress(RotaError):
            left = dict.fromkeys(number for number in self.wanted if number not in self.ended)
            for info in self.client._over(left):
                self.ended[info.job] = info
                if self.wanted[info.job]["name"] == "plain" and info.phase == "finished":
                    self.unheard.add(info.job)
            self.unheard = {job for job in self.unheard if not self._heard(job)}

    def _heard(self, job):
        """Whether the last line of a command has arrived."""
        return f"result {job} " in b"".join(self.client.logs(job)).decode()

    def _look_at_free(self, jobs, nodes):
        """A job that waits although GPUs are free for long, while nothing happens."""
        free = sum(node.gpus - node.busy for node in nodes if node.state == "up")
        waiting = {job.job for job in jobs if job.phase == "queued" and job.spec.gpus <= free}
        now = time.monotonic()
        self.since_free = {job: self.since_free.get(job, now) for job in waiting}
        for job, since in self.since_free.items():
            quiet_since = max(since, self.disturbed_at)
            if now - quiet_since > 20.0:
                told = next(j for j in jobs if j.job == job)
                self.report.problems.append(f"job {job} waits beside {free} free GPUs for 20 s ({told.reason})")
                self.since_free[job] = now + DAY

    def _measure(self):
        with contextlib.suppress(OSError):
            status = Path(f"/proc/{self.programs['scheduler'].pid}/status").read_text()
            line = next((line for line in status.splitlines() if line.startswith("VmRSS:")), None)
            if line:
                self.report.scheduler_mb.append(int(line.split()[1]) / 1000)
        log = self.disk.path / "state.db-wal"
        self.report.state_mb.append(_megabytes(set(self.disk.path.glob("state.db*")) - {log}))
        self.report.log_mb.append(_megabytes([log]))
        self.report.disk_mb.append(_megabytes(self._files()))

    def _files(self):
        """What Rota keeps, not what the jobs of this test write down for it."""
        servers = [name for name in self.programs if name != "scheduler"]
        for place in ("checkpoints", "output", "disk", "agent-disk", *servers):
            for folder, _, names in os.walk(self.folder / place):  # which does not mind what vanishes meanwhile
                yield from (Path(folder) / name for name in names if name != "filler")


def _megabytes(paths):
    total = 0
    for path in paths:
        with contextlib.suppress(OSError):
            total += path.stat().st_blocks * 512 if path.is_file() else 0
    return total / 1e6


def run(folder, plan, say=lambda _text: None):
    """The whole thing; a Report."""
    began = time.monotonic()
    with Week(folder, plan) as week:
        report = week.report
        for i in range(plan.servers):
            week.agent(f"v{i}")
        rate = plan.busy * plan.servers * plan.gpus
        start = time.monotonic()
        strike_at = start + 2 * plan.pauses[1]
        while (now := time.monotonic()) - start < plan.seconds:
            week.submit_some(rate * (now - start) * 0.9 + rate * 2)
            if now >= strike_at:
                week.strike()
                strike_at = time.monotonic() + week.random.uniform(*plan.pauses)
            week.look()
            say(f"{now - start:.0f} of {plan.seconds:.0f} s, {len(week.wanted)} jobs, {_counts(report.happened)}")
            time.sleep(0.3)
        for who in week.clocks.paths:
            week.clocks.set(who, 0.0)
        _let_end(week, say)
        week.journal.read()
        _judge(week)
    report.problems += _leftovers(folder)
    _judge_state(week)
    report.seconds = time.monotonic() - began
    return report


def _let_end(week, say):
    end = time.monotonic() + week.plan.drain_s
    while time.monotonic() < end:
        week.look()
        left = week.patiently(lambda: week.client.jobs(["queued", "waiting", "running", "stopping"]))
        say(f"{len(left)} jobs left")
        if not left and not week.unheard and len(week.ended) == len(week.wanted):
            return
        time.sleep(0.5)


# What has to be true in the end


def _judge(week):
    report = week.report
    problems = report.problems
    if week.journal.missed:
        problems.append(f"{week.journal.missed} events were removed before they were read")
    _judge_attempts(week)
    for job, fields in week.wanted.items():
        end = week.ended.get(job)
        phase = "not over" if end is None else end.phase
        report.jobs[phase] += 1
        expected = ("cancelled", "finished") if job in week.cancelled else ("finished",)
        if phase not in expected:
            problems.append(f"job {job} ({fields['name']}) is {phase}: {'' if end is None else end.reason}")
        elif phase == "finished":
            problems += [f"job {job} ({fields['name']}): {what}" for what in _wrong(week, job, fields)]
    report.preempted = sum(end.preemptions for end in week.ended.values())
    report.thrown_back = sum(end.thrown_back for end in week.ended.values())
    problems += [f"two attempts at once: {line}" for line in week.overlaps()]
    nodes = week.client.nodes()
    problems += [f"server {n.node} is {n.state}, {n.busy} GPUs busy" for n in nodes if n.state != "up" or n.busy]
    _judge_growth(week)


def _judge_attempts(week):
    """Attempts of a job follow each other, and steps are credited once, to the attempt that runs."""
    problems = week.report.problems
    saved = {}
    running = {}
    for event in week.journal.of("AttemptStarted", "AttemptEnded", "StepsSaved"):
        job = event["job"]
        if event["event"] == "AttemptStarted":
            week.report.attempts += 1
            if job in running:
                problems.append(f"job {job}: attempt {event['epoch']} began before {running[job]} had ended")
            running[job] = event["epoch"]
        elif event["event"] == "AttemptEnded":
            running.pop(job, None)
        elif running.get(job) != event["epoch"] or event["step"] <= saved.get(job, -1):
            problems.append(f"job {job}: step {event['step']} credited to attempt {event['epoch']}")
        else:
            saved[job] = event["step"]


def _wrong(week, job, fields):
    """What is not as it should be about a finished job."""
    if fields["name"] == "plain":
        lines = (week.folder / "steps" / f"{job}.plain").read_text().splitlines()
        if lines[-1:] != ["result"]:
            yield f"its result is {lines}"
        if job in week.unheard:
            yield "its output is not complete"
        return
    if week.ended[job].saved_step != fields["steps"]:
        yield f"{week.ended[job].saved_step} of {fields['steps']} steps credited"
    if "emulated" in fields:
        return
    right = results(fields["steps"])
    for rank in range(fields["gpus"]):
        done = week.steps(job, rank)
        wrong = [line for line in done if line[4] != right[line[1]]]
        if wrong or not done or done[-1][1] != fields["steps"] - 1:
            yield f"rank {rank} ended at step {done[-1][1] if done else None}, wrong results {wrong[:2]}"


def _judge_growth(week):
    """Memory and disk of the second half are those of the first."""
    report = week.report
    for what, values, slack in (
        ("memory of the scheduler", report.scheduler_mb, 40.0),
        ("state file", report.state_mb, 8.0),
        ("all files", report.disk_mb, 24.0),
    ):
        half = len(values) // 2
        if half and max(values[half:]) > 1.3 * max(values[:half]) + slack:
            report.problems.append(f"{what}: up to {max(values[:half]):.0f} MB, then up to {max(values[half:]):.0f} MB")
    usual_log_mb = statistics.median(report.log_mb or [0.0])
    if usual_log_mb > 5.0:
        report.problems.append(f"the log of the state file has {usual_log_mb:.0f} MB most of the time")
    log = week.log("scheduler")
    if "Traceback" in log:
        report.problems.append("the scheduler's log has a traceback: " + log[log.index("Traceback") :][:600])


def _judge_state(week):
    """The state file can be read; its disk is gone with the cluster, so a copy is looked at."""
    path = week.folder / "kept.db"
    if path.exists():
        done = subprocess.run(
            [sys.executable, "-m", "rota.cli", "journal", "check", str(path), "--json"],
            check=False, capture_output=True, text=True,
        )  # fmt: skip
        if done.returncode:
            week.report.problems.append(f"rota journal check: {done.stdout[:300]} {done.stderr[:300]}")


def _leftovers(folder):
    """Processes of jobs that outlived everything."""
    marks = (f"ROTA_TASK_FOLDER={folder}".encode(),)
    found = []
    for entry in Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            if entry.name.isdigit() and any(m in (entry / "environ").read_bytes() for m in marks):
                found.append(f"process {entry.name} was left behind")
    return found


def main():
    asked = argparse.ArgumentParser(description=__doc__)
    asked.add_argument("--minutes", type=float, default=60.0)
    asked.add_argument("--seed", type=int, default=0)
    given = asked.parse_args()
    folder = tempfile.mkdtemp(prefix="rota-soak-")
    seconds = given.minutes * 60
    plan = Plan(seconds=seconds, seed=given.seed, time_scale=WEEK_S / max(seconds, 600.0))
    report = run(folder, plan, say=lambda text: sys.stderr.write(f"\r\033[K{text}"))
    sys.stdout.write(f"\n{report}\n")
    if report.problems:
        sys.stdout.write(f"kept in {folder}\n")
        return 1
    shutil.rmtree(folder)
    return 0


if __name__ == "__main__":
    sys.exit(main())
