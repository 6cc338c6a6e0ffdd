"""A scheduler without a network: agents are played by the test, through the same requests that serve real ones."""

from __future__ import annotations

import copy
import time

from rota.core.job_spec import spec_from
from rota.core.lifecycle import AttemptOutcome, TaskCommand, TaskPhase
from rota.deploy.scheduler.heartbeats import AgentReport, TaskReport
from rota.deploy.scheduler.options import Options
from rota.deploy.scheduler.requests import OfferedNode
from rota.deploy.scheduler.service import Scheduler

PROFILE = "ResNet-18 (batch size 32)"
SCALE = 600.0


def a_scheduler(path, **options):
    """A scheduler whose rounds last a tenth of a second."""
    settings = {"policy": "las", "round_s": 60.0, "time_scale": SCALE, "profiles": "gavel", **options}
    return Scheduler(Options(state=path, **settings))


def ask(scheduler, work, timeout=10.0):
    """Let the owner do something and wait until it is durable."""
    return scheduler.post("test", work).result(timeout)


def look(scheduler, question, timeout=10.0):
    """A value that the owner makes of its registry."""
    return scheduler.look("test", lambda registry: copy.deepcopy(question(registry))).result(timeout)


def jobs_of(scheduler):
    """All jobs in memory, as they are now."""
    return look(scheduler, lambda registry: registry.jobs)


def running_jobs(scheduler):
    """Numbers of the jobs that run."""
    return look(scheduler, lambda registry: set(registry.running))


def submit(scheduler, *specs, by="tester", request=""):
    defaults = {"name": "a job", "gpus": 1, "steps": 2000, "profile": PROFILE, "emulated": True}
    given = [spec_from({**defaults, **spec}) for spec in specs]
    return ask(scheduler, lambda now: scheduler.requests.submit(given, by, request, now))


def ended(outcome, **fields):
    """A task that has ended, as its agent reports it."""
    return TaskReport(phase=TaskPhase.ENDED, outcome=AttemptOutcome(outcome), **fields)


class PlayedAgent:
    """An agent that does what it is told, at the speed it is told."""

    def __init__(self, scheduler, node, kind="v100", gpus=4):
        self.node, self.kind, self.gpus = node, kind, gpus
        self.began: dict[tuple[int, int], tuple[float, float]] = {}
        self.ended: dict[tuple[int, int], TaskReport] = {}
        self.sequence = 0
        self.register(scheduler)

    def register(self, scheduler, identity="its folder"):
        offered = OfferedNode(
            node=self.node,
            type=self.kind,
            devices=tuple(f"gpu{i}" for i in range(self.gpus)),
            cpus=8.0,
            memory_gb=64.0,
            storage_mbps=500.0,
            network_gbps=10.0,
            host="localhost",
            emulated=True,
            limits="none",
            identity=identity,
        )
        self.session = ask(scheduler, lambda now: scheduler.requests.register(offered, now))

    def states(self, scheduler):
        orders, now = scheduler.published.get(self.node), time.monotonic()
        found = {}
        for order in () if orders is None else orders.tasks:
            key = (order.job, order.epoch)
            step, since = self.began.setdefault(key, (order.resume_step, now))
            step = min(int(step + (now - since) * order.rate * SCALE), order.spec.steps)
            if key not in self.ended:
                if step >= order.spec.steps:
                    self.ended[key] = ended("completed", step=step, saved_step=step)
                elif order.command is TaskCommand.STOP:
                    self.ended[key] = ended("stopped", step=step, saved_step=step)
            found[key] = self.ended.get(key) or TaskReport(phase=TaskPhase.RUNNING, step=step, saved_step=step)
        return found, 0 if orders is None else orders.version

    def report(self, scheduler, **changes):
        tasks, version = self.states(scheduler)
        self.sequence += 1
        fields = {
            "node": self.node, "session": self.session, "sequence": self.sequence, "acknowledged": version,
            "tasks": tasks, **changes,
        }  # fmt: skip
        return ask(scheduler, lambda now: scheduler.requests.report(AgentReport(**fields), now))


def until(test, scheduler, agents=(), timeout=20.0):
    """Let agents report until something holds."""
    end = time.monotonic() + timeout
    while not test():
        assert time.monotonic() < end, "it took too long"
        assert scheduler.failure is None
        for agent in agents:
            agent.report(scheduler)
        time.sleep(0.02)
