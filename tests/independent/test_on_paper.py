"""Tiny runs with the answer worked out on paper: the arithmetic stands beside each.

Rounds of 360 s begin at 0, 360, 720, 1080, 1440, ...; models `one` and `two` do one and two steps per second on the
type `v`, unless a test says otherwise. Where a test has `at_once`, it is worked out for both values of that rule;
test_on_paper_at_once.py has what happens between two rounds.
"""

import math

import pytest
from instances import catalogue

import rota
from rota.core.jobs import table

NAN = math.nan
RESNET = "ResNet-50 (batch size 64)"
KNOW_TYPES = [
    "allox",
    "fifo-perf",
    "srtf-perf",
    "srsf-perf",
    "las-perf",
    "ftf-perf",
    "drf-perf",
    "tetris-perf",
    "max-min-fairness-perf",
    "max-min-fairness-water-filling-perf",
    "finish-time-fairness-perf",
    "min-total-duration-perf",
    "max-sum-throughput-perf",
    "min-mean-jct",
]


def run(tmp_path, rates, cluster, policy, jobs, **more):
    """A run of jobs (model, arrival in seconds, steps) of one GPU each."""
    return rota.simulate(
        jobs=table(
            profile_names=[model for model, _, _ in jobs],
            gpus=[1] * len(jobs),
            total_steps=[steps for _, _, steps in jobs],
            submitted=[arrival_s for _, arrival_s, _ in jobs],
        ),
        cluster=cluster,
        policy=policy,
        profiles=catalogue(tmp_path / "rates.csv", rates),
        **more,
    )


AT_ONCE = pytest.mark.parametrize("at_once", [True, False], ids=["at once", "rounds only"])


def finishes(result):
    return pytest.approx(result.jobs["finish_s"].tolist(), abs=1e-6, nan_ok=True)


@pytest.mark.parametrize("policy", KNOW_TYPES)
@pytest.mark.parametrize("cluster", ["v100=1,k80=1", "v100=2,p100=5,k80=9"])
def test_a_lone_job_is_on_the_fastest_gpu_from_beginning_to_end(policy, cluster):
    jobs = table(profile_names=[RESNET], gpus=[1], total_steps=[20_000.0], submitted=[0.0])

    result = rota.simulate(jobs=jobs, cluster=cluster, policy=policy, profiles="gavel")

    # Gavel's table: 4.394774823323071 steps/s on a V100, 0.619 on a K80 (32,309 s).
    assert finishes(result) == [20_000 / 4.394774823323071]
    # All of 4,550.9 s on one V100 at 0.74 dollars an hour.
    assert result.summary["cost"] == pytest.approx(20_000 / 4.394774823323071 / 3600 * 0.74)


TWO = [("one", 0.0, 1000.0), ("one", 0.0, 400.0)]
ONE_GPU = {
    # 0 to 1000, then the other from the round at 1080: 1080 + 400.
    ("fifo", False): [1000.0, 1480.0],
    ("fifo", True): [1000.0, 1000.0 + 400],
    # The short one first, 0 to 400, then from the round at 720: 720 + 1000.
    ("srtf", False): [1720.0, 400.0],
    ("srtf", True): [400.0 + 1000, 400.0],
    # Rounds of A, B (had nothing), A (both had 360 s, A is older), B (40 s are left: 1080 + 40), A (280 are
    # left: 1440 + 280, or at once 1120 + 280).
    ("las", False): [1720.0, 1120.0],
    ("las", True): [1120.0 + 280, 1120.0],
}


@pytest.mark.parametrize(("policy", "at_once"), ONE_GPU)
def test_two_jobs_and_one_gpu(tmp_path, policy, at_once):
    result = run(tmp_path, {("one", 1, "v"): 1.0}, "v=1", policy, TWO, rule_settings={"at_once": at_once})

    ends = ONE_GPU[policy, at_once]
    assert finishes(result) == ends
    assert result.summary["makespan_s"] == pytest.approx(max(ends))
    assert result.summary["utilization"] == pytest.approx(1400 / max(ends))


def test_two_jobs_with_half_a_gpu_each(tmp_path):
    # Half speed each: the second is through at 400 / 0.5 = 800. The first has 1000 - 400 = 600 steps left: 800 + 600.
    result = run(tmp_path, {("one", 1, "v"): 1.0}, "v=1", "max-min-fairness-perf", TWO, mechanism="ideal")

    assert finishes(result) == [1400.0, 800.0]
    # Alone all the time they would be through after 1000 and 400 s. On average (2 x 800 + 1 x 600) / 1400 =
    # 11/7 jobs were there while the first was, 2 while the second was; an n-th of one GPU is 7/11 and 1/2 of
    # the time.
    assert result.jobs["ftf"].tolist() == pytest.approx([1400 / (1000 * 11 / 7), 800 / (400 * 2)])


@AT_ONCE
def test_a_start_takes_time_and_so_does_a_move(tmp_path, at_once):
    # `a` begins on the slow type (the fast one is taken by `b`, which can use no other) and needs 30 s for it:
    # 330 steps in round 0. `b` ends at 30 + 300 = 330. At 360 a move to the fast type pays: 30 s, then 2000 -
    # 330 = 1670 steps at 2/s.
    rates = {("a", 1, "slow"): 1.0, ("a", 1, "fast"): 2.0, ("b", 1, "fast"): 1.0}
    jobs = [("b", 0.0, 300.0), ("a", 0.0, 2000.0)]
    rules = {"restart_s": 30.0, "at_once": at_once}

    result = run(tmp_path, rates, "slow=1,fast=1", "srtf-perf", jobs, rule_settings=rules)

    assert finishes(result) == [330.0, 360 + 30 + 1670 / 2]


@AT_ONCE
def test_a_move_that_does_not_pay_is_not_made(tmp_path, at_once):
    # As above with 300 s for a start: `a` has 2000 - 60 steps left at 360. Where it is: 1940 s. After a move:
    # 300 + 970 s. So it moves. With 400 steps in all, 340 are left: 340 s where it is, 300 + 170 s elsewhere.
    # It stays.
    rates = {("a", 1, "slow"): 1.0, ("a", 1, "fast"): 2.0, ("b", 1, "fast"): 1.0}
    rules = {"restart_s": 300.0, "at_once": at_once}

    long = run(
        tmp_path, rates, "slow=1,fast=1", "las-perf", [("b", 0.0, 50.0), ("a", 0.0, 2000.0)], rule_settings=rules
    )
    short = run(
        tmp_path, rates, "slow=1,fast=1", "las-perf", [("b", 0.0, 50.0), ("a", 0.0, 400.0)], rule_settings=rules
    )

    assert finishes(long) == [350.0, 360 + 300 + 1940 / 2]
    assert finishes(short) == [350.0, 360 + 340]


@AT_ONCE
@pytest.mark.parametrize("policy", ["srtf-perf", "srsf-perf", "las-perf"])
def test_a_job_makes_way_for_one_that_can_run_nowhere_else(tmp_path, policy, at_once):
    # `c` has y for 300 s and `a` has x, where it stays until 360. Then y is free: `a` goes there,
    # with 1000 - 360 = 640 steps left at
    # 2/s, and `b`, which can use x alone, starts in the same round.
    rates = {("c", 1, "y"): 1.0, ("a", 1, "x"): 1.0, ("a", 1, "y"): 2.0, ("b", 1, "x"): 1.0}
    jobs = [("c", 0.0, 300.0), ("a", 0.0, 1000.0), ("b", 10.0, 1500.0)]

    result = run(tmp_path, rates, "x=1,y=1", policy, jobs, rule_settings={"at_once": at_once})

    assert finishes(result) == [300.0, 360 + 640 / 2, 360 + 1500.0]


def test_the_partner_of_a_job_that_ends_goes_on_at_its_own_speed_and_pays_alone(tmp_path):
    path = tmp_path / "pairs.csv"
    rows = ["profile,gpus,type,spread,partner,rate", "one,1,v,0,,1", "two,1,v,0,,2"]
    path.write_text("\n".join([*rows, "one,1,v,0,two,0.8", "two,1,v,0,one,1.6", ""]), encoding="utf-8")
    jobs = table(profile_names=["one", "two"], gpus=[1, 1], total_steps=[200.0, 2000.0], submitted=[0.0, 0.0])

    result = rota.simulate(jobs=jobs, cluster="v=1:price=3.6", policy="max-min-fairness-packed", profiles=str(path))

    # Together until 200 / 0.8 = 250 s. The other one has 2000 - 250 x 1.6 = 1600 steps left: 800 s at 2 steps/s.
    assert finishes(result) == [250.0, 1050.0]
    # Half of the shared 250 s each; a second costs 0.001.
    assert result.jobs["gpu_s"].tolist() == pytest.approx([125.0, 125.0 + 800.0])
    assert result.jobs["cost"].tolist() == pytest.approx([0.125, 0.925])
    assert result.summary["cost"] == pytest.approx(1.05)
    assert result.summary["utilization"] == pytest.approx(1.0)


def test_a_deadline_that_can_be_kept_is_kept(tmp_path):
    # 1000 s of work and 2000 s of time beside a job of twice the steps per dollar. Slack is 1000 s at 0, and
    # 640 s at 360, which is less than two rounds and a tenth of the work (820 s): from then on at the latest it
    # runs, and ends at 1360.
    jobs = table(
        profile_names=["one", "two"],
        gpus=[1, 1],
        total_steps=[1000.0, 20_000.0],
        duration=[1000.0, 10_000.0],
        slo=[2.0, NAN],
        submitted=[0.0, 0.0],
    )
    rates = {("one", 1, "v"): 1.0, ("two", 1, "v"): 2.0}

    result = rota.simulate(
        jobs=jobs,
        cluster="v=1:price=1",
        policy="max-sum-throughput-normalized-by-cost-perf-slos",
        profiles=catalogue(tmp_path / "rates.csv", rates),
    )

    assert result.jobs["deadline_s"][0] == 2000.0
    assert result.jobs["finish_s"][0] <= 1360.0 + 1e-6
    assert (result.summary["slo_jobs"], result.summary["slo_violations"]) == (1, 0)


@AT_ONCE
def test_a_run_that_is_stopped_in_the_middle_of_a_round(tmp_path, at_once):
    # 500 s of one GPU of two, and 300 of the other. The third job arrives at 400 and would start at 720; at once, it
    # has 25 s of the GPU that is free.
    jobs = [("one", 0.0, 1000.0), ("one", 0.0, 300.0), ("two", 400.0, 50.0)]
    rates = {("one", 1, "v"): 1.0, ("two", 1, "v"): 2.0}

    result = run(tmp_path, rates, "v=2:price=7.2", "fifo", jobs, until=500.0, rule_settings={"at_once": at_once})

    held_s = 500 + 300 + 25 * at_once
    assert finishes(result) == [NAN, 300.0, 425.0 if at_once else NAN]
    assert result.summary["makespan_s"] == 500.0
    assert result.summary["utilization"] == pytest.approx(held_s / (2 * 500))
    assert result.summary["cost"] == pytest.approx(held_s * 7.2 / 3600)
    assert (result.summary["jobs_submitted"], result.summary["jobs_finished"]) == (3, 1 + at_once)


def test_two_types_have_two_prices_and_a_hole_each(tmp_path):
    # `one` runs on v alone, 500 s at 0.001 a second; `two` on k alone, 700 s at 0.0001.
    rates = {("one", 1, "v"): 1.0, ("two", 1, "k"): 2.0}
    jobs = [("one", 0.0, 500.0), ("two", 0.0, 1400.0)]

    result = run(tmp_path, rates, "v=1:price=3.6,k=1:price=0.36", "srtf-perf", jobs)

    assert finishes(result) == [500.0, 700.0]
    assert result.jobs["cost"].tolist() == pytest.approx([0.5, 0.07])
    assert result.summary["cost"] == pytest.approx(0.57)
    assert result.summary["utilization"] == pytest.approx(1200 / 1400)


@AT_ONCE
def test_a_gang_that_no_server_holds_runs_at_its_spread_speed(tmp_path, at_once):
    path = tmp_path / "spread.csv"
    path.write_text("profile,gpus,type,spread,rate\ngang,2,v,0,4\ngang,2,v,1,2.5\n", encoding="utf-8")
    jobs = table(profile_names=["gang"], gpus=[2], total_steps=[1000.0], submitted=[100.0])
    rules = {"at_once": at_once}

    together = rota.simulate(jobs=jobs, cluster="v=2/2", policy="las", profiles=str(path), rule_settings=rules)
    apart = rota.simulate(jobs=jobs, cluster="v=2/1", policy="las", profiles=str(path), rule_settings=rules)

    # It arrives at 100 and starts then, or at 360.
    waits_s = 0 if at_once else 260
    assert finishes(together) == [100 + waits_s + 1000 / 4]
    assert finishes(apart) == [100 + waits_s + 1000 / 2.5]
    assert apart.summary["mean_jct_s"] == pytest.approx(waits_s + 400)
    assert apart.summary["utilization"] == pytest.approx(400 / (waits_s + 400))


def test_a_type_that_is_too_small_is_no_part_of_an_isolated_share(tmp_path):
    # Two GPUs asked for, three there, one of them of a faster type that can never hold the job. The whole
    # cluster for itself is 2/3 of the time on x, at 1 step/s, and 1/3 on nothing: 1000 steps would take 1500 s,
    # and it takes 1000.
    rates = {("gang", 2, "x"): 1.0, ("gang", 2, "y"): 2.0}
    jobs = table(profile_names=["gang"], gpus=[2], total_steps=[1000.0], submitted=[0.0])
    path = catalogue(tmp_path / "rates.csv", rates)

    result = rota.simulate(jobs=jobs, cluster="x=2,y=1", policy="srtf-perf", profiles=path)

    assert finishes(result) == [1000.0]
    assert result.jobs["ftf"].tolist() == pytest.approx([1000 / 1500])
    assert result.summary["unfair_fraction"] == 0.0


SLURM = """JobID|Account|Partition|Submit|Start|End|State|ReqTRES|AllocTRES
71|bio|gpu|2026-01-05T08:00:00|2026-01-05T08:00:10|2026-01-05T08:16:50|COMPLETED|gres/gpu=1|gres/gpu:a100=1,gres/gpu=1
72|nlp|gpu|2026-01-05T08:01:40|2026-01-05T09:00:00|2026-01-05T09:08:20|COMPLETED|gres/gpu=1|gres/gpu:a100=1,gres/gpu=1
73|nlp|gpu|2026-01-05T08:03:20|2026-01-05T10:00:00|2026-01-05T10:05:00|FAILED|gres/gpu=1|gres/gpu:a100=1,gres/gpu=1
"""


LOG = {
    # Starts at 0, 360, and, when the GPUs of both are free, 1080.
    False: [1000.0, 360.0 + 500, 1080.0 + 300],
    # Starts at 0, 100, and when the second has ended.
    True: [1000.0, 100.0 + 500, 600.0 + 300],
}


@AT_ONCE
@pytest.mark.parametrize("cluster", ["a100=2", "a100=2,v100=8"])
def test_a_log_of_three_jobs_as_recorded(tmp_path, cluster, at_once):
    path = tmp_path / "log.txt"
    path.write_text(SLURM, encoding="utf-8")

    result = rota.simulate(trace=path, cluster=cluster, policy="fifo", rule_settings={"at_once": at_once})

    # They arrive at 0, 100 and 200 and take 1000, 500 and 300 s, on an A100 only.
    ends = LOG[at_once]
    nlp = (ends[1] - 100 + ends[2] - 200) / 2
    assert finishes(result) == ends
    assert result.jobs["name"].tolist() == ["71", "72", "73"]
    assert result.summary["mean_jct_s_by_tenant"] == pytest.approx({"bio": 1000.0, "nlp": nlp})
    assert result.summary["by_tenant"]["nlp"]["gpu_hours"] == pytest.approx(800 / 3600)
