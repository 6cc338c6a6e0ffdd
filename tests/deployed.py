"""A scheduler without a network: agents are played by the test, through the same desk that serves real ones."""

from __future__ import annotations

import time

from rota.deploy.contacts import Report, Seen
from rota.deploy.scheduler import Options, Scheduler

PROFILE = "ResNet-18 (batch size 32)"
SCALE = 600.0


def a_scheduler(path, **options):
    """A scheduler whose rounds last a tenth of a second."""
    settings = {"policy": "las", "round_s": 60.0, "time_scale": SCALE, "profiles": "gavel", **options}
    return Scheduler(Options(state=path, **settings))


def ask(scheduler, work, timeout=10.0):
    """Do something at the desk and wait until it is durable."""
    return scheduler.floor.post(work).result(timeout)


def submit(scheduler, *specs, by="tester", request=""):
    given = [{"name": "a job", "gpus": 1, "steps": 2000, "profile": PROFILE, "emulated": True, **s} for s in specs]
    return ask(scheduler, lambda now: scheduler.floor.desk.submit(given, by, request, now))


class PlayedAgent:
    """An agent that does what it is told, at the speed it is told."""

    def __init__(self, scheduler, node, kind="v100", gpus=4):
        self.node, self.kind, self.gpus = node, kind, gpus
        self.began: dict[tuple[int, int], tuple[float, float]] = {}
        self.ended: dict[tuple[int, int], Seen] = {}
        self.sequence = 0
        self.register(scheduler)

    def register(self, scheduler):
        fields = {
            "node": self.node, "type": self.kind, "devices": [f"gpu{i}" for i in range(self.gpus)], "cpus": 8.0,
            "memory_gb": 64.0, "storage_mbps": 500.0, "network_gbps": 10.0, "rack": "", "host": "localhost",
            "emulated": True, "limits": "none",
        }  # fmt: skip
        self.session = ask(scheduler, lambda now: scheduler.floor.desk.register(fields, now))

    def states(self, scheduler):
        sheet, now = scheduler.board.sheet(self.node), time.monotonic()
        found = {}
        for order in () if sheet is None else sheet.orders:
            key = (order.job, order.epoch)
            step, since = self.began.setdefault(key, (order.resume_step, now))
            step = min(int(step + (now - since) * order.rate * SCALE), order.spec["steps"])
            if key not in self.ended:
                if step >= order.spec["steps"]:
                    self.ended[key] = Seen(phase="ended", outcome="completed", step=step, saved_step=step)
                elif order.state == "stop":
                    self.ended[key] = Seen(phase="ended", outcome="stopped", step=step, saved_step=step)
            found[key] = self.ended.get(key) or Seen(phase="running", step=step, saved_step=step)
        return found, 0 if sheet is None else sheet.version

    def report(self, scheduler, **changes):
        tasks, version = self.states(scheduler)
        self.sequence += 1
        fields = {
            "node": self.node, "session": self.session, "sequence": self.sequence, "taken_over": version,
            "tasks": tasks, **changes,
        }  # fmt: skip
        return ask(scheduler, lambda now: scheduler.floor.desk.report(Report(**fields), now, SCALE))


def until(test, scheduler, agents=(), timeout=20.0):
    """Let agents report until something holds."""
    end = time.monotonic() + timeout
    while not test():
        assert time.monotonic() < end, "it took too long"
        assert scheduler.failure is None
        for agent in agents:
            agent.report(scheduler)
        time.sleep(0.02)
