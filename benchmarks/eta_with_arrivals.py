"""How often jobs start within the band that `rota eta` gives when others keep coming, and how far off its median is.

    python benchmarks/eta_with_arrivals.py [--load 0.8] [--starts 300] [--first-seed 1001] [policy ...]

A simulated cluster with jobs that arrive at random, forked by way of its journal at random moments. Jobs that wait
then, for their first turn or their next, are estimated from what had been submitted until then, and compared with what
came. The stream of jobs is the same all the time: the queue warms up before the first moment, and jobs go on coming for
long after the last one, as in the sampled futures. A line of JSON per policy.

Two numbers say how good bands are. `band` is the part of starts whose round is one of those from p10 to p90, which is
above 80 % for a perfect forecast, too, where futures agree on a round. `rank` is 80 % for every perfect forecast: the
rank of the start among the sampled ones is neither in the lowest tenth nor in the highest, and where sampled starts are
in the same round as the real one, each rank among them counts in part (the ties of a rank histogram). Starts after the
end of the stream count as later than all sampled ones that are known. `narrowest` is the part within the fewest rounds
that hold four of five places among the sampled ones, `rounds_differ` all numbers where p10 and p90 are in two rounds.
"""

from __future__ import annotations

import argparse
import json
import math
import random
import statistics
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from rota import clusters
from rota.assembly import make_policy, make_throughputs
from rota.clusters import types_by_speed
from rota.core.events import JobsSubmitted, Planned
from rota.core.jobs import Jobs, TableSource, table
from rota.core.ports import EveryEvent
from rota.core.rules import Rules
from rota.deploy.questions.eta import FUTURES, estimates, quantile
from rota.deploy.questions.facts import JobFacts
from rota.deploy.questions.fork import Fork
from rota.deploy.questions.futures import MOST_REMEMBERED, History, Submission
from rota.deploy.questions.setup import Setup
from rota.deploy.scheduler.catalogue import opened
from rota.deploy.scheduler.job_kinds import JobKind
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
TRUTH = 20_000
"""Submissions in the place of the true distribution."""
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

    def __init__(self, policy: str, jobs: Jobs, older: History) -> None:
        """`older` are submissions before the first of these jobs."""
        self.state = LiveState(CLUSTER, CATALOGUE, RULES)
        self.trigger = Trigger(RULES)
        self.starts: dict[int, float] = {}
        self.taken = 0
        self._reader = LineReader()
        self._policy = policy
        self._jobs = jobs
        self._older = older

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
        known = submitted(self._jobs, 0, self.taken).submissions
        newest = (*self._older.submissions, *known)[-MOST_REMEMBERED:]
        return History(submissions=newest, lengths=(), starts=tuple(sorted(self.starts.values())))


def submitted(jobs: Jobs, first: int, last: int) -> History:
    """The jobs of a table from one row up to another as a history."""
    rows = range(first, last)
    kinds = [JobKind(jobs.profiles[int(jobs.profile[row])], int(jobs.gpus[row])) for row in rows]
    submissions = tuple(
        Submission(
            at=float(jobs.submitted[row]),
            profile=kind.profile,
            gpus=kind.gpus,
            steps=float(jobs.total_steps[row]),
            weight=1.0,
            tenant="default",
            kind=kind,
            priority=0,
        )
        for row, kind in zip(rows, kinds, strict=True)
    )
    return History(submissions=submissions, lengths=(), starts=())


@dataclass(frozen=True)
class Run:
    """A whole stream, and what came of it."""

    lines: list[tuple[str, float]]
    turns: Mapping[int, list[float]]
    """When jobs were given GPUs that did not have them before."""
    last: float
    """The last arrival: what starts later is not known."""

    def next_turn(self, job: int, now: float) -> float:
        """When a job that waits starts; infinity if that is after the end of the stream."""
        at = next((at for at in self.turns.get(job, []) if at > now), math.inf)
        return at if at <= self.last else math.inf


def ran(policy: str, jobs: Jobs) -> Run:
    """Simulate a stream."""
    lines = simulated(policy, jobs)
    turns: dict[int, list[float]] = {}
    running: set[int] = set()
    reader = LineReader()
    for line, _ in lines:
        event = reader.read(json.loads(line))
        if isinstance(event, Planned):
            placed = set(event.plan.placement.first.tolist())
            for job in placed - running:
                turns.setdefault(job, []).append(event.at)
            running = placed
    return Run(lines=lines, turns=turns, last=float(jobs.submitted[-1]))


def measured(policy: str, settings: argparse.Namespace) -> dict[str, Any]:
    rows: list[dict[str, Any]] = []
    cpu_s: list[float] = []
    seeds = 0
    while len(rows) < settings.starts and seeds < settings.most_seeds:
        seed = settings.first_seed + seeds
        seeds += 1
        rows += of_stream(policy, seed, settings, cpu_s)
    question_s = round(statistics.median(cpu_s), 2) if cpu_s else None
    told = {"policy": policy, "load": settings.load, "truth": settings.truth, "seeds": seeds}
    return {**told, **scores(rows), "question_cpu_s": question_s}


def of_stream(policy: str, seed: int, settings: argparse.Namespace, cpu_s: list[float]) -> list[dict[str, Any]]:
    """The starts of one stream: what is known of its past, the warm-up of the queue, moments, and what comes then."""
    warm_up, middle, after = settings.warm_up, settings.middle, settings.after
    whole = workload(seed, MOST_REMEMBERED + warm_up + middle + after, settings.load)
    older = submitted(whole, 0, MOST_REMEMBERED)
    jobs = whole.rows(MOST_REMEMBERED, len(whole))
    run = ran(policy, jobs)
    draw = random.Random(seed)
    first, last = (float(jobs.submitted[row]) for row in (warm_up, warm_up + middle))
    moments = sorted(draw.uniform(first, last) for _ in range(settings.moments))
    truth = submitted(workload(-seed, TRUTH, settings.load), 0, TRUTH) if settings.truth else None
    replay = Replay(policy, jobs, older)
    rows = []
    for at, (line, when) in enumerate(run.lines[:-1]):
        event = replay.apply(line)
        if not moments:
            break
        if when < moments[0] or not isinstance(event, Planned) or run.lines[at + 1][1] <= when:
            continue
        while moments and moments[0] <= when:
            moments.pop(0)
        found = compared(replay, when, run, seed, truth, settings.question_cpu, cpu_s)
        rows += found
        if settings.rows:
            with Path(settings.rows).open("a", encoding="utf-8") as file:
                file.writelines(json.dumps({"policy": policy, "load": settings.load, **row}) + "\n" for row in found)
    return rows


def compared(
    replay: Replay,
    now: float,
    run: Run,
    seed: int,
    truth: History | None,
    question_cpu_s: float,
    cpu_s: list[float],
) -> list[dict[str, Any]]:
    """Jobs that wait for a turn now."""
    fork = replay.fork(now)
    waiting = [job for job, fact in fork.facts.items() if not fact.runs]
    if not waiting:
        return []
    history = replay.history()
    if truth is not None:  # so many submissions that what is drawn from them is drawn from the truth
        moved = now - truth.submissions[-1].at
        shifted = tuple(replace(one, at=one.at + moved) for one in truth.submissions)
        history = replace(history, submissions=shifted)
    began = time.process_time()
    found = estimates(fork, history, waiting, futures=FUTURES, cpu_s=question_cpu_s)
    cpu_s.append(time.process_time() - began)
    return [
        {
            "seed": seed,
            "now": now,
            "job": estimate.job,
            "samples": estimate.starts,
            "alone": estimate.start,
            "naive": estimate.naive,
            "real": run.next_turn(estimate.job, now),
        }
        for estimate in found
        if estimate.band("starts") is not None and estimate.naive is not None
    ]


def round_of(at: float) -> float:
    """The round of a start."""
    return at // RULES.round_s if math.isfinite(at) else math.inf


def within_rank(row: Mapping[str, Any]) -> float:
    """The part of the ranks that the start may have among sampled ones that is in no tenth at an end."""
    rounds = [round_of(at) for at in row["samples"]]
    real = round_of(row["real"])
    ranks = len(rounds) + 1
    low = sum(at < real for at in rounds) / ranks
    high = (sum(at <= real for at in rounds) + 1) / ranks
    return max(0.0, min(high, 0.9) - max(low, 0.1)) / (high - low)


def within_narrowest(row: Mapping[str, Any]) -> bool:
    """Whether a job starts within the shortest run of rounds that has four of five places among the sampled starts."""
    rounds = sorted(round_of(at) for at in row["samples"])
    held = math.ceil(0.8 * (len(rounds) + 1))
    spans = [
        (high - low if math.isfinite(high) else math.inf, low, high)
        for low, high in zip(rounds, rounds[held - 1 :], strict=False)
    ]
    _, low, high = min(spans)
    return low <= round_of(row["real"]) <= high


def scores(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """The numbers of a line."""
    bands = [[quantile(row["samples"], part) for part in (0.1, 0.5, 0.9)] for row in rows]
    reals = [round_of(row["real"]) for row in rows]
    inside = [round_of(low) <= real <= round_of(high) for (low, _, high), real in zip(bands, reals, strict=True)]
    open_ = [at for at, (low, _, high) in enumerate(bands) if round_of(low) != round_of(high)]
    early = [real < round_of(low) for (low, _, _), real in zip(bands, reals, strict=True)]

    def part(values: Sequence[float]) -> float | None:
        return round(statistics.fmean(values), 3) if values else None

    def error(values: Sequence[float | None], of: Sequence[int]) -> float | None:
        errors = [abs(values[at] - rows[at]["real"]) if values[at] is not None else math.inf for at in of]
        errors = [math.inf if math.isnan(one) else one for one in errors]
        return round(statistics.median(errors), 1) if errors else None

    def told(of: Sequence[int]) -> dict[str, Any]:
        spread = [abs(at - bands[row][1]) for row in of for at in rows[row]["samples"]]
        spread = [math.inf if math.isnan(one) else one for one in spread]
        return {
            "starts": len(of),
            "rank": part([within_rank(rows[at]) for at in of]),
            "band": part([inside[at] for at in of]),
            "narrowest": part([within_narrowest(rows[at]) for at in of]),
            "early": part([early[at] for at in of]),
            "error_s": error([band[1] for band in bands], of),
            "naive_error_s": error([row["naive"] for row in rows], of),
            "alone_error_s": error([row["alone"] for row in rows], of),
            "error_if_futures_are_true_s": round(statistics.median(spread), 1) if spread else None,
            "median_wait_s": round(statistics.median(rows[at]["real"] - rows[at]["now"] for at in of), 1)
            if of
            else None,
            "beyond": sum(math.isinf(rows[at]["real"]) for at in of),
            "p50_unknown": sum(math.isinf(bands[at][1]) for at in of),
        }

    moments = len({(row["seed"], row["now"]) for row in rows})
    return {"moments": moments, "all": told(range(len(rows))), "rounds_differ": told(open_)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("policies", nargs="*", default=list(POLICIES))
    parser.add_argument("--starts", type=int, default=300)
    parser.add_argument("--first-seed", type=int, default=1001)
    parser.add_argument("--most-seeds", type=int, default=40)
    parser.add_argument("--warm-up", type=int, default=300, help="Jobs before the first moment.")
    parser.add_argument("--middle", type=int, default=200, help="Jobs between the first moment and the last.")
    parser.add_argument("--after", type=int, default=500, help="Jobs after the last moment.")
    parser.add_argument("--moments", type=int, default=6, help="Moments of every stream.")
    parser.add_argument("--load", type=float, default=0.8)
    parser.add_argument(
        "--truth", action="store_true", help="Draw futures from the truth, not from what was submitted."
    )
    parser.add_argument("--question-cpu", type=float, default=12.0, help="CPU seconds for the futures of a question.")
    parser.add_argument("--rows", default="", metavar="FILE", help="Append every start as a line of JSON.")
    parser.add_argument("--score", action="append", default=[], metavar="FILE", help="Only score such a file.")
    settings = parser.parse_args()
    for path in settings.score:
        with Path(path).open(encoding="utf-8") as file:
            print(json.dumps({"rows": path, **scores([json.loads(line) for line in file])}))
    for policy in () if settings.score else settings.policies:
        print(json.dumps(measured(policy, settings)), flush=True)


if __name__ == "__main__":
    main()
