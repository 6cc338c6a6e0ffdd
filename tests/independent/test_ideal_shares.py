"""Shares taken literally (`ideal`) against a fluid simulator of our own, for policies whose shares a formula gives."""

import random

import pytest
from instances import as_table, as_text, catalogue, random_jobs, rates_of

import rota

CAPACITY = {"a": 2, "b": 4, "c": 3}


def isolated(jobs):
    """x_ij = (N_j / m) / s_i, each row cut to a sum of at most 1."""
    shares = {}
    for job in jobs:
        share = {name: gpus / len(jobs) / job.gpus for name, gpus in CAPACITY.items()}
        cut = max(1.0, sum(share.values()))
        shares[job.number] = {name: part / cut for name, part in share.items()}
    return shares


def proportional(jobs):
    """x_ij = N_j / sum_k N_k, scaled so that no type is oversubscribed."""
    total = sum(CAPACITY.values())
    scale = min(1.0, total / sum(job.gpus for job in jobs))
    return {job.number: {name: scale * gpus / total for name, gpus in CAPACITY.items()} for job in jobs}


def completion_times(jobs, policy):
    """From one arrival or end to the next, everybody at the speed of its shares; the jobs are used up."""
    now_s = 0.0
    while any(job.finish_s is None for job in jobs):
        present = [job for job in jobs if job.finish_s is None and job.arrival_s <= now_s]
        shares = policy(present) if present else {}
        speed = {job.number: sum(job.rate[n] * shares[job.number][n] for n in CAPACITY) for job in present}
        moments = [now_s + job.left / speed[job.number] for job in present]
        moments += [job.arrival_s for job in jobs if job.arrival_s > now_s]
        until_s = min(moments)
        for job in present:
            job.left -= speed[job.number] * (until_s - now_s)
            if job.left <= 1e-9 * job.steps:
                job.finish_s = until_s
        now_s = until_s
    return [job.finish_s - job.arrival_s for job in jobs]


@pytest.mark.parametrize("hole", [0.0, 0.4])
@pytest.mark.parametrize("policy", [isolated, proportional])
def test_shares_taken_literally(tmp_path, policy, hole):
    for seed in range(12):
        jobs = random_jobs(random.Random(seed), CAPACITY, count=8, sizes=[1, 2], hole=hole)
        result = rota.simulate(
            jobs=as_table(jobs),
            cluster=as_text(CAPACITY),
            policy=policy.__name__,
            mechanism="ideal",
            profiles=catalogue(tmp_path / "rates.csv", rates_of(jobs)),
        )

        ours = completion_times(jobs, policy)

        assert result.jobs["jct_s"].tolist() == pytest.approx(ours, abs=1e-6), f"seed {seed}"
