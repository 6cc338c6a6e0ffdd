"""Laws of the rule `at_once` over random instances, read from event logs and completion times."""

import random
from dataclasses import replace

import pytest
from instances import as_table, as_text, catalogue, random_jobs, rates_of
from story import between_rounds, disturbed, idle_beside_waiting, story_of

import rota
from rota.core.jobs import table

CAPACITY = {"a": 1, "b": 2, "c": 1}
POLICIES = [
    "fifo",
    "srtf",
    "las",
    "srtf-perf",
    "ftf-perf",
    "fifo-perf",
    "max-min-fairness",
    "max-min-fairness-perf",
    "finish-time-fairness-perf",
    "min-total-duration-perf",
    "isolated",
    "gandiva",
]
MECHANISMS = ["proportional", "strided", "tune", "optimal"]
BLOCKS = ["fifo-perf"]
"""The first job that fits nowhere blocks all behind it."""
PACKED = ["max-min-fairness-packed", "fifo-packed", "gandiva"]
GAVEL = ["ResNet-18 (batch size 64)", "ResNet-50 (batch size 64)", "LM (batch size 20)", "A3C"]


def run(tmp_path, jobs, policy, **more):
    """A run of jobs of simulator.py."""
    return rota.simulate(
        jobs=as_table(jobs),
        cluster=as_text(CAPACITY),
        policy=policy,
        profiles=catalogue(tmp_path / "rates.csv", rates_of(jobs)),
        **more,
    )


@pytest.mark.parametrize(("sizes", "hole"), [([1], 0.0), ([1], 0.4), ([1, 1, 2], 0.0)], ids=["ones", "holes", "gangs"])
@pytest.mark.parametrize("policy", POLICIES)
def test_nobody_is_disturbed_between_rounds_and_no_gpu_is_idle_beside_a_job_that_waits(tmp_path, policy, sizes, hole):
    """`holes`: types that some jobs cannot use; two mechanisms are drawn for each."""
    draw = random.Random(f"{policy} {sizes} {hole}")
    for seed, mechanism in enumerate(draw.sample(MECHANISMS, 2)):
        jobs = random_jobs(random.Random(seed), CAPACITY, count=10, sizes=sizes, hole=hole)
        rules = {"restart_s": 20.0 * (seed % 2)}

        run(tmp_path, jobs, policy, mechanism=mechanism, rule_settings=rules, events=str(tmp_path / "run.jsonl"))

        story = story_of(tmp_path / "run.jsonl")
        assert any(between_rounds(second) for second, _ in story.plans)
        assert disturbed(story) == [], mechanism
        if policy not in BLOCKS or (max(sizes) == 1 and not hole):
            assert idle_beside_waiting(story, lambda job, name, jobs=jobs: jobs[job].rate[name] > 0) == [], mechanism


@pytest.mark.parametrize("policy", PACKED)
def test_nobody_who_shares_gpus_is_disturbed_between_rounds(tmp_path, policy):
    draw = random.Random(4)
    jobs = table(
        profile_names=[draw.choice(GAVEL) for _ in range(12)],
        gpus=[1] * 12,
        total_steps=[draw.uniform(500, 20_000) for _ in range(12)],
        submitted=sorted(draw.uniform(0, 3000) for _ in range(12)),
    )

    rota.simulate(
        jobs=jobs, cluster="v100=2,k80=1", policy=policy, profiles="gavel", events=str(tmp_path / "run.jsonl")
    )

    story = story_of(tmp_path / "run.jsonl")
    assert any(len(task.jobs) == 2 for second, tasks in story.plans if between_rounds(second) for task in tasks)
    assert disturbed(story) == []
    if policy != "fifo-packed":  # who shall share GPUs with a job that runs waits for the round
        assert idle_beside_waiting(story, lambda *_: True) == []


@pytest.mark.parametrize("mechanism", [*MECHANISMS, "greedy", "ideal"])
@pytest.mark.parametrize("policy", ["fifo", "las-perf", "fifo-perf", "max-min-fairness-perf", "gandiva"])
def test_a_lone_job_takes_its_work_over_its_speed_wherever_in_a_round_it_arrives(tmp_path, policy, mechanism):
    draw = random.Random(mechanism)
    arrivals = [draw.uniform(20_000 * k, 20_000 * k + 5_000) for k in range(3)]
    steps = [draw.uniform(100, 15_000) for _ in arrivals]
    jobs = table(profile_names=["m"] * 3, gpus=[2] * 3, total_steps=steps, submitted=arrivals)

    result = rota.simulate(
        jobs=jobs,
        cluster="v=2/2",
        policy=policy,
        mechanism=mechanism,
        profiles=catalogue(tmp_path / "rates.csv", {("m", 2, "v"): 1.7}),
    )

    assert result.jobs["jct_s"].tolist() == pytest.approx([work / 1.7 for work in steps], rel=1e-12, abs=1e-9)


@pytest.mark.parametrize("policy", ["fifo", "srtf", "las-perf", "max-min-fairness-perf", "fifo-perf", "gandiva"])
def test_a_run_in_two_parts_is_the_run_in_one_wherever_it_is_cut(tmp_path, policy):
    jobs = random_jobs(random.Random(7), CAPACITY, count=10, sizes=[1, 1, 2])
    rules = {"rule_settings": {"restart_s": 25.0}}
    whole = run(tmp_path, jobs, policy, **rules)
    ends = sorted(whole.jobs["finish_s"].tolist())
    arrivals = [job.arrival_s for job in jobs]

    for until in (ends[2], ends[2] + 5, arrivals[5], arrivals[5] + 5):  # 5 s: within a start
        run(tmp_path, jobs, policy, until=until, checkpoint=tmp_path / "saved", **rules)
        resumed = run(tmp_path, jobs, policy, resume=tmp_path / "saved", **rules)

        for column in ("finish_s", "gpu_s"):
            assert resumed.jobs[column].tolist() == pytest.approx(whole.jobs[column].tolist(), abs=1e-6), until


@pytest.mark.parametrize("policy", POLICIES)
def test_arrivals_that_are_whole_rounds_later_end_as_much_later(tmp_path, policy):
    jobs = random_jobs(random.Random(11), CAPACITY, count=10, sizes=[1, 1, 2])
    early = [replace(job, arrival_s=round(job.arrival_s)) for job in jobs]
    late = [replace(job, arrival_s=job.arrival_s + 7 * 360) for job in early]

    first = run(tmp_path, early, policy, rule_settings={"restart_s": 25.0})
    second = run(tmp_path, late, policy, rule_settings={"restart_s": 25.0})

    assert second.jobs["jct_s"].tolist() == pytest.approx(first.jobs["jct_s"].tolist(), abs=1e-6)
