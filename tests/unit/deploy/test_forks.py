"""A simulation that is forked in the middle goes on as it would have: every start and every end, to the second."""

import json
import random

import numpy as np
import pytest

from rota import clusters
from rota.assembly import make_policy, make_throughputs
from rota.clusters import types_by_speed
from rota.core.events import JobsFinished, JobsSubmitted, Planned
from rota.core.jobs import TableSource, table
from rota.core.ports import EveryEvent
from rota.core.rules import Rules
from rota.deploy.questions.facts import JobFacts
from rota.deploy.questions.fork import Fork
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

CATALOGUE = opened(make_throughputs("gavel"))
PROFILES = ("ResNet-18 (batch size 32)", "ResNet-50 (batch size 64)", "Transformer (batch size 64)")


def some_jobs(seed, count):
    draw = random.Random(seed)
    arrivals = sorted(draw.choice([0.0, draw.uniform(0, 4000)]) for _ in range(count))
    kinds = [(draw.choice(PROFILES), draw.choice([1, 1, 2, 4])) for _ in arrivals]
    steps = [np.floor(CATALOGUE.rate(*kind, "v100") * draw.uniform(300, 6000)) for kind in kinds]
    return table(
        profile_names=[profile for profile, _ in kinds], gpus=[gpus for _, gpus in kinds], total_steps=steps,
        submitted=arrivals, tenant_names=[draw.choice("ab") for _ in arrivals],
    )  # fmt: skip


def simulated(policy, rules, cluster, jobs):
    """The lines of a whole run, as a journal has them."""
    mechanism = build("proportional", rules, 0, {}, watched=True)
    world, lines, writer = World(TableSource(jobs), rules), [], LineWriter(memory=True)
    engine = Engine(
        state=State(cluster, CATALOGUE, rules, by_need=mechanism.by_need), policy=make_policy(policy, {}, 0, rules),
        mechanism=mechanism, clock=world, executor=world,
        observers=[EveryEvent(lambda event: lines.append(writer.write(event)))],
    )  # fmt: skip
    engine.run(lambda: False)
    return lines


def told(lines):
    """First starts and ends of all jobs."""
    starts, ends, reader = {}, {}, LineReader()
    for line in lines:
        event = reader.read(json.loads(line))
        if isinstance(event, Planned):
            for job in (*event.plan.placement.first.tolist(), *event.plan.placement.second.tolist()):
                starts.setdefault(job, event.at)
        elif isinstance(event, JobsFinished):
            ends.update(zip(event.jobs.tolist(), event.finished_at.tolist(), strict=True))
    return starts, ends


def fork_after(lines, policy, rules, cluster):
    """What a journal of these lines leads to, by the same way as any other, and how many jobs had come."""
    state, trigger, reader = LiveState(cluster, CATALOGUE, rules), Trigger(rules), LineReader()
    now, taken = 0.0, 0
    for line in lines:
        event = reader.read(json.loads(line))
        state.apply(event)
        trigger.observe(event)
        now = event.at
        taken += len(event.jobs) if isinstance(event, JobsSubmitted) else 0
    view = state.view(now)
    placed = set() if state.placement is None else set(state.placement.first.tolist())
    facts = {
        job: JobFacts(
            job=job, tenant=view.tenants[view.tenant[at]], gpus=int(view.gpus[at]), weight=1.0,
            submitted=float(view.submitted[at]), total=float(view.total_steps[at]), done=float(view.steps_done[at]),
            saved=float(view.steps_done[at]), runs=job in placed, turn_began=-1e9, start_s=rules.restart_s,
        )
        for at, job in enumerate(view.jobs.tolist())
    }  # fmt: skip
    config = {"policy": policy, "mechanism": "proportional", "seed": 0}
    setup = Setup(config=config, rules=rules, catalogue=CATALOGUE, tenants=Tenants())
    return Fork(
        setup=setup, registry=None, state=state, trigger=trigger, facts=facts, now=now, since=now, next_job=taken
    )


def cut(lines, part):
    """The lines up to a decision in the middle."""
    last = json.loads(lines[-1])["at"]
    kinds = [json.loads(line) for line in lines]
    ends = [
        at
        for at, fields in enumerate(kinds[:-1])
        if fields["event"] == "Planned" and fields["at"] <= part * last and kinds[at + 1]["at"] > fields["at"]
    ]
    return lines[: ends[-1] + 1]


POLICIES = (
    "las", "srtf", "fifo", "max-min-fairness", "max-min-fairness-perf", "finish-time-fairness",
    "finish-time-fairness-perf", "min-mean-jct", "gandiva",
)  # fmt: skip


@pytest.mark.parametrize("exact", [True, False])
@pytest.mark.parametrize("policy", POLICIES)
def test_a_fork_of_a_simulation_goes_on_as_the_simulation_did(policy, exact):
    rules, cluster = Rules(), types_by_speed(clusters.load("v100=8/4,k80=4"), CATALOGUE)
    compared = 0
    for seed, part in ((1, 0.2), (2, 0.5)):
        jobs = some_jobs(seed, 40)
        lines = simulated(policy, rules, cluster, jobs)
        starts, ends = told(lines)
        fork = fork_after(cut(lines, part), policy, rules, cluster)
        future = fork.run(exact=exact, arrivals=jobs.rows(fork.next_job, len(jobs)))

        assert future.complete
        later = {job: at for job, at in starts.items() if at > fork.now}
        assert {job: future.story.starts[job] for job in later} == pytest.approx(later, abs=1e-3)
        over = {job: at for job, at in ends.items() if at > fork.now}
        assert {job: future.story.ends[job] for job in over} == pytest.approx(over, abs=1e-3)
        compared += len(over)
    assert compared > 20


def test_starts_that_take_time_take_it_in_a_fork_too():
    rules = Rules(restart_s=30.0)
    cluster = types_by_speed(clusters.load("v100=4"), CATALOGUE)
    jobs = some_jobs(5, 25)
    lines = simulated("srtf", rules, cluster, jobs)
    fork = fork_after(cut(lines, 0.3), "srtf", rules, cluster)
    future = fork.run(exact=True, arrivals=jobs.rows(fork.next_job, len(jobs)))
    over = {job: at for job, at in told(lines)[1].items() if at > fork.now + rules.round_s}
    # A job that was starting at the moment of the fork is taken to have started: its fact says so here.
    assert sum(abs(future.story.ends[job] - at) < 31.0 for job, at in over.items()) == len(over) > 5


def test_a_fork_can_be_run_again_and_again():
    rules, cluster = Rules(), types_by_speed(clusters.load("v100=4"), CATALOGUE)
    jobs = some_jobs(3, 20)
    fork = fork_after(cut(simulated("las", rules, cluster, jobs), 0.3), "las", rules, cluster)
    one, two = (fork.run(arrivals=jobs.rows(fork.next_job, len(jobs))).story for _ in range(2))
    assert one == two
    assert one.ends


def test_an_unknown_length_lets_a_job_run_for_ever():
    rules, cluster = Rules(), types_by_speed(clusters.load("v100=1"), CATALOGUE)
    jobs = table(profile_names=[PROFILES[0]] * 2, gpus=[1, 1], total_steps=[1e5, 1e5], submitted=[0.0, 0.0])
    fork = fork_after(cut(simulated("fifo", rules, cluster, jobs), 0.1), "fifo", rules, cluster)
    endless = {job: fact for job, fact in fork.facts.items() if not fact.runs}
    for fact in fork.facts.values():
        if fact.runs:
            kept = {name: getattr(fact, name) for name in JobFacts.__slots__}
            endless[fact.job] = JobFacts(**{**kept, "total": float("inf"), "why_unknown": "nobody said"})
    fork.facts = endless
    future = fork.run(until=fork.now + 1000 * rules.round_s)
    assert future.story.starts == {}
    assert future.story.ends == {}
