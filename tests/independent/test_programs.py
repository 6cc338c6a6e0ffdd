"""Shares of Gavel's policies against linear programs of our own (programs.py): objectives of random situations.

The shares are read from the event log, and everything else from the jobs that went in.
"""

import json
import random

import numpy as np
import programs
import pytest
from instances import as_table, as_text, catalogue, random_jobs, rates_of
from programs import Situation

import rota

CAPACITY = {"a": 2, "b": 4, "c": 3}
PROGRAMS = {
    "max-min-fairness-perf": programs.max_min_fairness,
    "finish-time-fairness-perf": programs.finish_time_fairness,
    "min-total-duration-perf": programs.min_total_duration,
    "max-sum-throughput-perf": programs.max_sum_throughput,
}
SEEDS = range(12)


def drawn(seed, all_at_once):
    """Jobs with holes in their rates, and their weights."""
    draw = random.Random(seed)
    jobs = random_jobs(draw, CAPACITY, count=draw.randint(4, 9), sizes=[1, 1, 2, 3], hole=0.4, rounds=40)
    for job in jobs:
        job.arrival_s = 0.0 if all_at_once else job.arrival_s
    return jobs, [draw.choice([1.0, 1.0, 2.0, 5.0]) for _ in jobs]


def logged(tmp_path, policy, jobs, weights, until=None):
    """The events of a run."""
    rota.simulate(
        jobs=as_table(jobs, weight=weights),
        cluster=as_text(CAPACITY),
        policy=policy,
        profiles=catalogue(tmp_path / "rates.csv", rates_of(jobs)),
        events=str(tmp_path / "run.jsonl"),
        until=until,
    )
    return [json.loads(line) for line in (tmp_path / "run.jsonl").read_text(encoding="utf-8").splitlines()]


def situations(events, jobs, weights):
    """(situation, shares, objective) for every answer of the policy, from the steps in the log."""
    done = np.zeros(len(jobs))
    isolated_so_far_s = np.zeros(len(jobs))
    isolated = np.full(len(jobs), np.nan)
    plan = None
    for event in events:
        if event["event"] == "Planned":
            plan = plan if event.get("same") else event
        elif event["event"] == "RoundsRan":
            for job, steps in zip(plan["first"], event["steps"], strict=True):
                done[job] += steps
                isolated_so_far_s[job] += steps / isolated[job]
        elif event["event"] == "Allocated":
            there = event["jobs"]
            seen = Situation(
                rate=np.array([[jobs[j].rate[name] for name in event["types"]] for j in there]),
                gpus=np.array([jobs[j].gpus for j in there]),
                weight=np.array([weights[j] for j in there]),
                left=np.array([jobs[j].steps for j in there]) - done[there],
                capacity=np.array([float(CAPACITY[name]) for name in event["types"]]),
                age_s=np.array([event["at"] - jobs[j].arrival_s for j in there]),
                isolated_so_far_s=isolated_so_far_s[there],
            )
            isolated[there] = seen.isolated()
            yield seen, np.array(event["share"]), event["objective"]


def assert_possible(seen, share):
    assert (share >= -1e-9).all()
    assert (share.sum(axis=1) <= 1 + 1e-9).all()
    assert (seen.gpus @ share <= seen.capacity + 1e-6).all()
    assert (share[seen.rate == 0] == 0).all()


@pytest.mark.parametrize("policy", PROGRAMS)
def test_the_objective_is_the_optimum(tmp_path, policy):
    program = PROGRAMS[policy]
    for seed in SEEDS:
        jobs, weights = drawn(seed, all_at_once=True)
        events = logged(tmp_path, policy, jobs, weights, until=1.0)

        ((seen, share, objective),) = situations(events, jobs, weights)

        assert_possible(seen, share)
        best = program(seen)
        assert program(seen, share) == pytest.approx(best, rel=1e-6), f"seed {seed}: the shares"
        assert objective == pytest.approx(best, rel=1e-6), f"seed {seed}: what the log says"


@pytest.mark.parametrize("policy", PROGRAMS)
def test_every_answer_of_a_run_is_an_optimum_of_its_moment(tmp_path, policy):
    """Jobs come and go; steps left, ages and the time that an isolated part would have taken follow from the log."""
    program = PROGRAMS[policy]
    answers = 0
    for seed in SEEDS[:3]:
        jobs, weights = drawn(seed, all_at_once=False)
        for seen, share, objective in situations(logged(tmp_path, policy, jobs, weights), jobs, weights):
            best = program(seen)
            assert_possible(seen, share)
            assert program(seen, share) == pytest.approx(best, rel=1e-6), f"seed {seed}: the shares"
            assert objective == pytest.approx(best, rel=1e-6), f"seed {seed}: what the log says"
            answers += 1
    assert answers > 20


def test_of_the_fairest_shares_those_with_the_most_throughput(tmp_path):
    for seed in SEEDS:
        jobs, weights = drawn(seed, all_at_once=True)
        events = logged(tmp_path, "max-min-fairness-perf", jobs, weights, until=1.0)

        ((seen, share, _),) = situations(events, jobs, weights)

        best = programs.max_min_fairness_beyond(seen, programs.max_min_fairness(seen) * (1 - 1e-9))
        assert programs.max_min_fairness_beyond(seen, None, share) == pytest.approx(best, rel=1e-5), f"seed {seed}"
