"""Priorities over any policy: nobody waits for a job of lower priority whose GPUs it could use."""

import dataclasses

import numpy as np
import pytest

import rota
from rota.core.cluster import cluster_from
from rota.core.events import JobsFinished, JobsSubmitted, Planned, RunStarted
from rota.core.jobs import table
from rota.engine.log import read_events

POLICIES = [
    "fifo", "las", "srtf", "max-min-fairness-perf", "max-min-fairness", "max-min-fairness-packed", "isolated",
    "finish-time-fairness-perf", "fifo-perf", "fair-by-tenant", "max-sum-throughput-perf", "gandiva", "allox",
]  # fmt: skip
MODELS = ("ResNet-18 (batch size 32)", "LM (batch size 20)")
ROUND_S = 360.0


def some_jobs(seed, *, count=30, priorities=(0, 0, 0, 5, -3), gpus=(1, 1, 2)):
    draw = np.random.default_rng(seed)
    return table(
        profile_names=[str(draw.choice(MODELS)) for _ in range(count)],
        gpus=draw.choice(gpus, count),
        total_steps=draw.integers(20_000, 200_000, count).astype(float),
        submitted=np.sort(draw.random(count) * 3600),
        tenant_names=[f"t{n % 3}" for n in range(count)],
        priority=[int(p) for p in draw.choice(priorities, count)],
    )


def events_of(tmp_path, jobs, *, cluster="v100=4,p100=4,k80=4", **how):
    rota.simulate(jobs=jobs, cluster=cluster, events=tmp_path / "run.jsonl", seed=0, profiles="gavel", **how)
    return list(read_events(tmp_path / "run.jsonl"))


def on_the_grid(at):
    return at % ROUND_S < 1e-6 or ROUND_S - at % ROUND_S < 1e-6


def check_run(events, jobs):
    """At each start of a round: of two that could use the same GPUs, the one of higher priority runs."""
    cluster = next(cluster_from(event.config["cluster"]) for event in events if isinstance(event, RunStarted))
    priority = np.zeros(len(jobs), dtype=np.int64) if jobs.priority is None else jobs.priority
    there = set()
    looked_at = 0
    for event in events:
        if isinstance(event, JobsSubmitted):
            there |= set(range(event.first_id, event.first_id + len(event.jobs)))
        elif isinstance(event, JobsFinished):
            there -= set(event.jobs.tolist())
        elif isinstance(event, Planned) and on_the_grid(event.at):
            placement = event.plan.placement
            runs = {*placement.first.tolist(), *placement.second.tolist()} - {-1}
            assert runs <= there
            free = cluster.capacity - np.bincount(placement.type, weights=placement.gpus, minlength=len(cluster.types))
            for job in there - runs:
                lower = priority[placement.first] < priority[job]
                gained = np.bincount(placement.type[lower], weights=placement.gpus[lower], minlength=len(cluster.types))
                could = (free + gained >= jobs.gpus[job]) & (gained > 0)
                assert not could.any(), f"job {job} waits at {event.at} for jobs of lower priority"
            looked_at += 1
    assert looked_at
    assert not there, "a job never finished"


@pytest.mark.parametrize("policy", POLICIES)
def test_nobody_waits_for_a_job_of_lower_priority(tmp_path, policy):
    for seed in range(2):
        jobs = some_jobs(seed, gpus=(1,) if policy in ("gandiva", "allox") else (1, 1, 2))

        check_run(events_of(tmp_path, jobs, policy=policy), jobs)


@pytest.mark.parametrize("mechanism", ["strided", "tune", "greedy", "optimal"])
def test_mechanisms_keep_to_priorities(tmp_path, mechanism):
    jobs = some_jobs(7, count=20)
    for policy in ("las", "max-min-fairness-perf"):
        check_run(events_of(tmp_path, jobs, policy=policy, mechanism=mechanism), jobs)


@pytest.mark.parametrize("policy", POLICIES)
def test_who_comes_with_a_higher_priority_runs_from_the_next_round_on(policy):
    jobs = table(
        profile_names=["recorded"] * 2,
        gpus=[1, 1],
        total_steps=[10_000.0, 500.0],
        submitted=[0.0, 100.0],
        priority=[0, 5],
    )

    ends = rota.simulate(jobs=jobs, cluster="v100=1", policy=policy, seed=0).jobs["finish_s"]

    assert ends.tolist() == pytest.approx([10_500.0, ROUND_S + 500.0])


def test_equal_priorities_change_nothing(tmp_path):
    plain = some_jobs(3, priorities=(0,))
    level = some_jobs(3, priorities=(7,))
    for policy in ("las", "max-min-fairness-perf"):
        one = rota.simulate(jobs=plain, cluster="v100=4,k80=4", policy=policy, seed=0, profiles="gavel").summary
        two = rota.simulate(jobs=level, cluster="v100=4,k80=4", policy=policy, seed=0, profiles="gavel").summary

        assert one["mean_jct_s"] == two["mean_jct_s"]


def test_only_the_order_of_priorities_matters(tmp_path):
    few = some_jobs(4, priorities=(0, 1, 2))
    jobs = [few, table_with(few, [{0: -1000, 1: 0, 2: 999}[int(p)] for p in few.priority])]

    ends = [rota.simulate(jobs=t, cluster="v100=4", policy="las", seed=0, profiles="gavel").summary for t in jobs]

    assert ends[0]["mean_jct_s"] == ends[1]["mean_jct_s"]


def table_with(jobs, priority):
    return dataclasses.replace(jobs, priority=np.array(priority, dtype=np.int64))


def test_the_log_says_priorities(tmp_path):
    jobs = some_jobs(0)

    events = events_of(tmp_path, jobs, policy="las")

    told = np.concatenate([
        np.zeros(len(e.jobs), dtype=np.int64) if e.jobs.priority is None else e.jobs.priority
        for e in events if isinstance(e, JobsSubmitted)
    ])  # fmt: skip
    assert told.tolist() == jobs.priority.tolist()
