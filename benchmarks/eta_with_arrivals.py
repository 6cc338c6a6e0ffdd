"""How often jobs start within the band that `rota eta` gives when others keep coming, and how far off its median is.

    python benchmarks/eta_with_arrivals.py [--starts 300] [policy ...]

A simulated cluster with jobs that arrive at random, forked at many moments by way of its journal; every job that waits
then is estimated from what had been submitted until then, and compared with what came. A line of JSON per policy.
"""

from __future__ import annotations

import argparse
import json
import math
import random
import statistics
import time
from typing import Any

import numpy as np

from rota import clusters
from rota.assembly import make_policy, make_throughputs
from rota.clusters import types_by_speed
from rota.core.events import JobsSubmitted, Planned
from rota.core.jobs import Jobs, TableSource, table
from rota.core.ports import EveryEvent
from rota.core.rules import Rules
from rota.deploy.questions.eta import FUTURES, estimates
from rota.deploy.questions.facts import JobFacts
from rota.deploy.questions.fork import Fork
from rota.deploy.questions.futures import MOST_REMEMBERED, History, Submission
from rota.deploy.questions.setup import Setup
from rota.deploy.scheduler.catalogue import opened
from rota.deploy.tenants import Tenants
from rota.engine.live_state import LiveState
from rota.engine.log import LineReader, LineWriter
from rota.engine.loop import Engine
from rota.engine.state import State
from rota.engine.trigger import Trigger
from rota.mechanisms.registry import build
from rota.sim.world import World

POLICIES = ("fifo", "srtf", "las", "max-min-fairness", "finish-time-fairness")
PROFILES = ("ResNet-18 (batch size 32)", "ResNet-50 (batch size 64)", "Transformer (batch size 64)")
CATALOGUE = opened(make_throughputs("gavel"))
RULES = Rules()
CLUSTER = types_by_speed(clusters.load("v100=16/4"), CATALOGUE)


def workload(seed: int, count: int, load: float) -> Jobs:
    """Poisson arrivals, lengths over two orders of magnitude, some gangs."""
    draw = random.Random(seed)
    gpus = [draw.choice([1, 1, 1, 2, 4]) for _ in range(count)]
    profiles = [draw.choice(PROFILES) for _ in range(count)]
    seconds = [10 ** draw.uniform(2.5, 4.5) for _ in range(count)]
    work = statistics.fmean(s * g for s, g in zip(seconds, gpus, strict=True))
    gap = work / (CLUSTER.gpus * load)
    arrivals = np.cumsum([draw.expovariate(1 / gap) for _ in range(count)])
    steps = [
        max(1.0, np.floor(CATALOGUE.rate(p, g, "v100") * s)) for p, g, s in zip(profiles, gpus, seconds, strict=True)
    ]
    return table(profile_names=profiles, gpus=gpus, total_steps=steps, submitted=arrivals)


def simulated(policy: str, jobs: Jobs) -> list[tuple[str, float]]:
    """(line, when) of all events."""
    mechanism = build("proportional", RULES, 0, {}, watched=True)
    world = World(TableSource(jobs), RULES)
    writer = LineWriter(memory=True)
    lines: list[tuple[str, float]] = []
    Engine(
        state=State(CLUSTER, CATALOGUE, RULES, by_need=mechanism.by_need),
        policy=make_policy(policy, {}, 0, RULES),
        mechanism=mechanism,
        clock=world,
        executor=world,
        observers=[EveryEvent(lambda event: lines.append((writer.write(event), event.at)))],
    ).run(lambda: False)
    return lines


class Replay:
    """The state that a journal leads to, line after line."""

    def __init__(self, policy: str, jobs: Jobs) -> None:
        self.state = LiveState(CLUSTER, CATALOGUE, RULES)
        self.trigger = Trigger(RULES)
        self.starts: dict[int, float] = {}
        self.taken = 0
        self._reader = LineReader()
        self._policy = policy
        self._jobs = jobs

    def apply(self, line: str) -> Any:
        """Take over one line; its event."""
        event = self._reader.read(json.loads(line))
        self.state.apply(event)
        self.trigger.observe(event)
        if isinstance(event, JobsSubmitted):
            self.taken += len(event.jobs)
        if isinstance(event, Planned):
            for job in event.plan.placement.first.tolist():
                self.starts.setdefault(job, event.at)
        return event

    def fork(self, now: float) -> Fork:
        """The fork of this moment."""
        view = self.state.view(now)
        placed = set() if self.state.placement is None else set(self.state.placement.first.tolist())
        facts = {
            job: JobFacts(
                job=job,
                tenant="default",
                gpus=int(view.gpus[at]),
                weight=1.0,
                submitted=float(view.submitted[at]),
                total=float(view.total_steps[at]),
                done=float(view.steps_done[at]),
                saved=float(view.steps_done[at]),
                runs=job in placed,
            )
            for at, job in enumerate(view.jobs.tolist())
        }
        config = {"policy": self._policy, "mechanism": "proportional", "seed": 0}
        setup = Setup(config=config, rules=RULES, catalogue=CATALOGUE, tenants=Tenants())
        return Fork(
            setup=setup,
            registry=None,
            state=self.state,
            trigger=self.trigger,
            facts=facts,
            now=now,
            since=now,
            next_job=self.taken,
        )

    def history(self) -> History:
        """What was submitted until now."""
        jobs = self._jobs
        rows = range(max(0, self.taken - MOST_REMEMBERED), self.taken)
        submissions = tuple(
            Submission(
                at=float(jobs.submitted[row]),
                profile=jobs.profiles[int(jobs.profile[row])],
                gpus=int(jobs.gpus[row]),
                steps=float(jobs.total_steps[row]),
                weight=1.0,
                tenant="default",
            )
            for row in rows
        )
        starts = tuple(sorted(at for job, at in self.starts.items() if job in rows))
        return History(submissions=submissions, lengths=(), starts=starts)


def measured(policy: str, settings: argparse.Namespace) -> dict[str, Any]:
    rows: list[dict[str, Any]] = []
    cpu_s: list[float] = []
    for seed in range(1, 50):
        if len(rows) >= settings.starts:
            break
        jobs = workload(seed, settings.jobs, settings.load)
        lines = simulated(policy, jobs)
        real = final_starts(lines)
        draw = random.Random(seed)
        last = float(jobs.submitted[-1])
        moments = sorted(draw.uniform(0.2, 0.6) * last for _ in range(settings.moments))
        replay = Replay(policy, jobs)
        for at, (line, when) in enumerate(lines[:-1]):
            event = replay.apply(line)
            if not (moments and isinstance(event, Planned) and when >= moments[0] and lines[at + 1][1] > when):
                continue
            moments.pop(0)
            rows += compared(replay, when, real, cpu_s)
    return {"policy": policy, **scores(rows), "median_question_cpu_s": round(statistics.median(cpu_s), 3)}


def final_starts(lines: list[tuple[str, float]]) -> dict[int, float]:
    starts: dict[int, float] = {}
    reader = LineReader()
    for line, _ in lines:
        event = reader.read(json.loads(line))
        if isinstance(event, Planned):
            for job in event.plan.placement.first.tolist():
                starts.setdefault(job, event.at)
    return starts


def compared(replay: Replay, now: float, real: dict[int, float], cpu_s: list[float]) -> list[dict[str, Any]]:
    """Jobs that wait for their first start now."""
    fork = replay.fork(now)
    waiting = [job for job, fact in fork.facts.items() if not fact.runs and real.get(job, -1.0) > now]
    if not waiting:
        return []
    began = time.process_time()
    found = estimates(fork, replay.history(), waiting, futures=FUTURES)
    cpu_s.append(time.process_time() - began)
    rows = []
    for estimate in found:
        band = estimate.band("starts")
        if band is not None:
            rows.append(
                {"band": band, "alone": estimate.start, "naive": estimate.naive, "now": now, "real": real[estimate.job]}
            )
    return rows


def scores(rows: list[dict[str, Any]]) -> dict[str, Any]:
    def round_of(at: float) -> float:
        return at // RULES.round_s if math.isfinite(at) else math.inf

    inside = [round_of(row["band"][0]) <= round_of(row["real"]) <= round_of(row["band"][2]) for row in rows]
    wide = [row["band"][2] - row["band"][0] for row in rows if row["band"][2] < 1e15]

    def error(value: Any) -> float:
        errors = [abs(value(row) - row["real"]) for row in rows if value(row) is not None]
        return round(statistics.median(errors), 1)

    return {
        "starts": len(rows),
        "band_coverage": round(sum(inside) / len(rows), 3),
        "early": sum(round_of(row["real"]) < round_of(row["band"][0]) for row in rows),
        "late": sum(round_of(row["real"]) > round_of(row["band"][2]) for row in rows),
        "median_band_s": round(statistics.median(wide), 1) if wide else None,
        "median_error_s": error(lambda row: row["band"][1]),
        "median_error_if_nobody_comes_s": error(lambda row: row["alone"]),
        "median_naive_error_s": error(lambda row: row["naive"]),
        "median_wait_s": round(statistics.median(row["real"] - row["now"] for row in rows), 1),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("policies", nargs="*", default=list(POLICIES))
    parser.add_argument("--starts", type=int, default=300)
    parser.add_argument("--jobs", type=int, default=600)
    parser.add_argument("--moments", type=int, default=8)
    parser.add_argument("--load", type=float, default=0.85)
    settings = parser.parse_args()
    for policy in settings.policies:
        print(json.dumps(measured(policy, settings)), flush=True)


if __name__ == "__main__":
    main()
