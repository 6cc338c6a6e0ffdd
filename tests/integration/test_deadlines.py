"""Policies that promise deadlines keep those that can be kept.

The second opinion is earliest deadline first, round by round, in a few lines that know nothing of Rota.
"""

import dataclasses
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import rota
from rota import profiles
from rota.core.jobs import table

POLICIES = [f"max-sum-throughput-normalized-by-cost-{kind}-slos" for kind in ("perf", "packed")]
MODELS = ["ResNet-50 (batch size 64)", "LM (batch size 80)", "ResNet-18 (batch size 64)", "Transformer (batch size 64)"]
ROUND = 360.0
CATALOGUE = profiles.load("gavel")


def earliest_deadline_first(arrival, gpus, seconds, deadline, capacity):
    """When jobs end on one type; who cannot keep its deadline any more comes after all who can."""
    left = list(seconds)
    end = [math.inf] * len(left)
    now = 0.0
    while math.inf in end:
        there = [j for j in range(len(left)) if arrival[j] <= now and end[j] == math.inf]
        there.sort(key=lambda j: (deadline[j] if now + left[j] <= deadline[j] else math.inf, arrival[j]))
        free = capacity
        for job in there:
            if gpus[job] <= free:
                free -= gpus[job]
                if left[job] <= ROUND:
                    end[job] = now + left[job]
                left[job] -= ROUND
        now += ROUND
    return np.array(end)


def a_table(arrival, gpus, seconds, deadline, models):
    """Jobs that take so many seconds alone on V100s."""
    steps = [s * CATALOGUE.rate(m, int(g), "v100") for s, m, g in zip(seconds, models, gpus, strict=True)]
    jobs = table(profile_names=models, gpus=list(gpus), total_steps=steps, submitted=list(arrival))
    return dataclasses.replace(jobs, deadline=np.array(deadline, dtype=float))


def random_jobs(seed, *, load, gangs, dated, capacity=8, count=40):
    draw = np.random.default_rng(seed)
    seconds = np.exp(draw.uniform(np.log(300), np.log(20_000), count))
    gpus = draw.choice([1, 1, 1, 2, 4], count) if gangs else np.ones(count, dtype=int)
    arrival = np.sort(draw.uniform(0, (seconds * gpus).sum() / capacity / load, count))
    start = np.ceil(arrival / ROUND) * ROUND
    slack = seconds * draw.choice([0.1, 0.3, 1.0, 3.0], count) + draw.uniform(0, 720, count)
    deadline = np.where(draw.random(count) < dated, start + seconds + slack, np.inf)
    return arrival, gpus, seconds, deadline, [MODELS[m] for m in draw.integers(0, len(MODELS), count)]


def kept_of_edf(policy, *, load, gangs, dated, seeds, **parts):
    """Of the deadlines that earliest deadline first keeps, the part that the policy keeps."""
    both = theirs = 0
    for seed in seeds:
        jobs = random_jobs(seed, load=load, gangs=gangs, dated=dated)
        end = earliest_deadline_first(*jobs[:4], 8)
        finish = rota.simulate(jobs=a_table(*jobs), cluster="v100=8/8", policy=policy, **parts).jobs["finish_s"]
        possible = np.isfinite(jobs[3]) & (end <= jobs[3])
        theirs += np.count_nonzero(possible)
        both += np.count_nonzero(possible & (finish <= jobs[3] + 1e-6))
    return both / theirs


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("first", [0, 1])
def test_an_easy_deadline_beside_one_competitor_is_kept(policy, first):
    models = ["Recommendation (batch size 2048)", MODELS[0]]
    rows = [(1000.0, 2000.0), (10_000.0, np.inf)]
    seconds, deadline = zip(*(rows if first == 0 else rows[::-1]), strict=True)
    jobs = a_table([0.0, 0.0], [1, 1], seconds, deadline, models[::-1] if first == 0 else models)

    result = rota.simulate(jobs=jobs, cluster="v100=1", policy=policy)

    assert result.jobs["finish_s"][first] <= 2000.0
    assert result.summary["slo_violations"] == 0


@settings(max_examples=25, deadline=None)
@given(
    seconds=st.floats(100.0, 20_000.0),
    slack=st.floats(0.0, 3.0),
    arrival=st.floats(0.0, 2000.0),
    restart=st.sampled_from([0.0, 60.0]),
    others=st.lists(st.tuples(st.floats(0.0, 9000.0), st.floats(100.0, 30_000.0)), max_size=5),
    seed=st.integers(0, 99),
)
def test_who_could_keep_a_deadline_alone_keeps_it_whoever_else_is_there(seconds, slack, arrival, restart, others, seed):
    start = math.ceil(arrival / ROUND - 1e-9) * ROUND
    deadline = start + (restart + seconds) * (1 + slack) + 0.01
    rows = sorted([(arrival, seconds, deadline), *((at, s, np.inf) for at, s in others)])
    models = [MODELS[m] for m in np.random.default_rng(seed).integers(0, len(MODELS), len(rows))]
    jobs = a_table([r[0] for r in rows], [1] * len(rows), [r[1] for r in rows], [r[2] for r in rows], models)

    result = rota.simulate(jobs=jobs, cluster="v100=1", policy=POLICIES[0], rule_settings={"restart_s": restart})

    assert result.summary["slo_violations"] == 0


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize(
    ("load", "gangs", "dated", "least"),
    [(0.6, False, 0.6, 1.0), (0.6, True, 0.6, 0.98), (1.3, False, 0.95, 0.98), (1.3, True, 0.95, 0.96)],
)
def test_deadlines_that_earliest_deadline_first_keeps_are_kept(policy, load, gangs, dated, least):
    assert kept_of_edf(policy, load=load, gangs=gangs, dated=dated, seeds=range(2)) >= least


def test_the_pace_of_the_artifact_does_not_keep_them():
    kept = kept_of_edf(
        POLICIES[0], load=1.3, gangs=False, dated=0.95, seeds=range(2), rule_settings={"deadlines": "paced"}
    )

    assert kept < 0.95


def test_with_two_types_the_faster_one_is_taken_where_only_it_is_in_time():
    jobs = a_table([0.0] * 4, [1] * 4, [5000.0] * 4, [5400.0, np.inf, np.inf, np.inf], [MODELS[0]] * 4)

    result = rota.simulate(jobs=jobs, cluster="v100=1,k80=3", policy=POLICIES[0])

    assert result.summary["slo_violations"] == 0
