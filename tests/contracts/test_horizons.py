"""A clock that comes back after every round sees the same run as one that jumps; rankings keep what they promise."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from situations import POLICIES, largest_job

from builders import FAST, SLOW, Speeds, a_cluster, some_jobs
from rota.core.events import JobsFinished, RoundsRan
from rota.core.horizon import CHANGES, EVERY_ROUND
from rota.core.jobs import TableSource
from rota.core.ports import EveryEvent
from rota.core.rules import Rules
from rota.engine.loop import Engine
from rota.engine.state import State
from rota.mechanisms.registry import build
from rota.policies.registry import policies
from rota.sim.world import World

RULES = Rules()
CLUSTERS = {
    "one type": a_cluster(v100=6, per_server=2),
    "two types": a_cluster(v100=4, k80=4, per_server=2),
}


class EveryRound(World):
    """The world of a simulation, looked at after every round, as the wall clock does."""

    runs = False

    def apply(self, plan, view):
        self.runs = len(plan.placement) > 0
        super().apply(plan, view)

    def advance(self, horizon, limit):
        early = horizon._replace(until=-math.inf, ended_by=CHANGES, outlook=None)
        return super().advance(early if self.runs else horizon, limit)


class Silent:
    """A ranking that promises nothing."""

    def __init__(self, policy):
        self._policy = policy

    def allocate(self, view):
        return replace(self._policy.allocate(view), horizon=EVERY_ROUND, linear_key=None)


def crowd(seed, largest, count=20):
    """Jobs of mixed sizes and lengths, more than there are GPUs for a while."""
    draw = np.random.default_rng(seed)
    return some_jobs(
        count,
        profiles=draw.choice([FAST, SLOW], count).tolist(),
        gpus=np.minimum(draw.choice([1, 1, 2, 4], count), largest),
        steps=draw.uniform(500.0, 20_000.0, count),
        arrivals=np.sort(draw.uniform(0.0, 20_000.0, count)),
    )


def finished(world_type, policy, jobs, cluster):
    """Finish by job, and the number of times that the loop looked."""
    world = world_type(TableSource(jobs), RULES)
    events = []
    engine = Engine(
        state=State(cluster, Speeds(), RULES),
        policy=policies.create(policy) if isinstance(policy, str) else policy,
        mechanism=build("proportional", RULES, seed=0),
        clock=world,
        executor=world,
        observers=[EveryEvent(events.append)],
    )
    assert engine.run(lambda: False) == "all jobs are done"
    ends = [event for event in events if isinstance(event, JobsFinished)]
    times = {int(j): float(t) for event in ends for j, t in zip(event.jobs, event.finished_at, strict=True)}
    return times, sum(isinstance(event, RoundsRan) for event in events)


@pytest.mark.parametrize("cluster", CLUSTERS)
@pytest.mark.parametrize("policy", POLICIES)
def test_whoever_looks_in_every_round_sees_the_same_run(policy, cluster):
    jobs = crowd(seed=1, largest=largest_job(policy))

    jumping, looks = finished(World, policy, jobs, CLUSTERS[cluster])
    patient, rounds = finished(EveryRound, policy, jobs, CLUSTERS[cluster])

    assert jumping == pytest.approx(patient, abs=1e-3)
    assert looks <= rounds


RANKINGS = [name for name in POLICIES if hasattr(policies.create(name), "key")]


@pytest.mark.parametrize("cluster", CLUSTERS)
@pytest.mark.parametrize("policy", RANKINGS)
def test_a_ranking_that_is_asked_in_every_round_gives_the_same_run(policy, cluster):
    jobs = crowd(seed=2, largest=largest_job(policy))

    promising, _ = finished(World, policy, jobs, CLUSTERS[cluster])
    silent, _ = finished(World, Silent(policies.create(policy)), jobs, CLUSTERS[cluster])

    assert len(RANKINGS) > 5
    assert promising == pytest.approx(silent, abs=1e-3)
