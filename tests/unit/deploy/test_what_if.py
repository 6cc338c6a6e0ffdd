"""`rota what-if` and `rota eta` on a scheduler in memory."""

import json
import math
import random
import statistics

import pytest
from harness import ROUND_S
from questions_harness import PROFILE, AskedHarness

from rota.core.errors import ConfigError, RotaError
from rota.core.job_spec import JobSpec
from rota.deploy.questions.changes import Change, made
from rota.deploy.questions.eta import estimates, quantile
from rota.deploy.questions.futures import arrivals, history_of
from rota.deploy.questions.what_if import what_if
from rota.deploy.questions.why import why
from rota.deploy.tenants import Tenants, TenantSettings


def steps(harness, seconds, gpus=1):
    return int(harness.catalogue.rate(PROFILE, gpus, "v100") * seconds)


def a_queue(policy="fifo", *, count=4, gpus=1):
    """One GPU, and jobs of five rounds each; tenants take turns."""
    harness = AskedHarness(policy=policy)
    harness.join("n0", gpus=gpus)
    for number in range(count):
        harness.submit(profile=PROFILE, steps=steps(harness, 5 * ROUND_S), tenant="ab"[number % 2])
    harness.round()
    return harness


def test_jobs_of_a_queue_start_one_after_the_other():
    harness = a_queue()
    found = {estimate.job: estimate for estimate in estimates(harness.fork(), NO_HISTORY, [1, 2, 3], futures=0)}
    began = harness.clock.now()
    for number in (1, 2, 3):
        assert found[number].start == pytest.approx(began + number * 5 * ROUND_S, abs=1.0)
        assert found[number].end == pytest.approx(began + (number + 1) * 5 * ROUND_S, abs=1.5)


NO_HISTORY = history_of([])


def test_unknown_is_said_as_unknown():
    harness = a_queue(count=2)
    endless = AskedHarness(policy="fifo")
    endless.join("n0", gpus=1)
    endless.submit(profile=PROFILE, steps=0, emulated=False, argv=["sleep", "1"])
    waits = endless.submit(profile=PROFILE, steps=100)
    too_large = endless.submit(profile=PROFILE, steps=100, gpus=4)
    endless.round()
    (behind, large) = estimates(endless.fork(), NO_HISTORY, [waits, too_large], futures=0)

    assert behind.start is None
    assert "nobody knows how long" in behind.unknown
    assert large.start is None
    assert behind.lengths_unknown == 1
    assert next(iter(estimates(harness.fork(), NO_HISTORY, [1], futures=0))).unknown == ""


def test_a_second_server_halves_the_queue_and_everybody_gains():
    harness = a_queue(count=6)
    answer = what_if(harness.fork(), Change(add_servers=(("v100", 1),)), tenant=None)

    assert answer["complete"]
    assert answer["all"]["after"]["makespan_s"] < 0.6 * answer["all"]["before"]["makespan_s"]
    assert answer["gains"] == ["a", "b"]
    assert answer["loses"] == []


def test_a_tenant_sees_its_own_jobs_and_one_sum():
    harness = a_queue(count=6)
    answer = what_if(harness.fork(), Change(add_servers=(("v100", 1),)), tenant="a")
    assert [row["tenant"] for row in answer["tenants"]] == ["a", "others"]
    assert {job["job"] for job in answer["jobs"]} == {0, 2, 4}


def test_another_policy_takes_over_with_all_jobs_where_they_are():
    harness = AskedHarness(policy="fifo")
    harness.join("n0", gpus=1)
    for rounds in (20, 20, 1):
        harness.submit(profile=PROFILE, steps=steps(harness, rounds * ROUND_S), tenant="a")
    harness.round()
    answer = what_if(harness.fork(), Change(policy="srtf"), tenant=None)
    last = next(job for job in answer["jobs"] if job["job"] == 2)
    assert last["end_in_s"][0] > 300.0
    assert last["end_in_s"][1] < 50.0
    assert answer["all"]["after"]["mean_jct_s"] < answer["all"]["before"]["mean_jct_s"]


def test_a_drained_server_lets_its_jobs_wait():
    harness = a_queue(count=2)
    harness.join("n1", gpus=1)
    harness.round()
    answer = what_if(harness.fork(), Change(drain="n1"), tenant=None)
    assert answer["all"]["later"] >= 1
    assert answer["all"]["sooner"] == 0


def test_a_job_that_is_only_thought_of_is_told_when_it_would_start():
    harness = a_queue(count=2)
    spec = JobSpec(emulated=True, profile=PROFILE, steps=steps(harness, 2 * ROUND_S), tenant="a")
    answer = what_if(harness.fork(), Change(submit=(spec,)), tenant="a")
    (new,) = answer["submitted"]
    assert new["start_in_s"] == pytest.approx(10 * ROUND_S, abs=2.0)
    assert harness.registry.next_job == 2


@pytest.mark.parametrize("name", ["thief.py:Policy", "./thief.py:Policy", "thief.py"])
def test_code_in_a_file_is_never_run_for_a_question(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "thief.py").write_text("raise SystemExit('it ran')\n")
    harness = a_queue(count=1)
    for change in (Change(policy=name), Change(mechanism=name)):
        with pytest.raises(ConfigError, match="does not come with Rota"):
            made(harness.fork(), change)


def test_sampled_futures_come_later_than_the_one_in_which_nobody_comes():
    harness = a_queue(policy="las", count=3)
    for _ in range(6):
        harness.submit(profile=PROFILE, steps=steps(harness, 5 * ROUND_S), tenant="b")
        harness.round()
    history = history_of(harness.registry.jobs.values())
    job = harness.waiting()[-1]
    (estimate,) = estimates(harness.fork(), history, [job], futures=8)
    (again,) = estimates(harness.fork(), history, [job], futures=8)

    assert estimate == again
    assert len(estimate.starts) == 8
    low, middle, high = estimate.band("ends")
    assert low <= middle <= high
    assert high > estimate.end


def test_arrivals_have_the_rate_and_the_mix_of_the_history():
    harness = AskedHarness(policy="las")
    harness.join("n0", gpus=4)
    for number in range(40):
        harness.submit(profile=PROFILE, steps=1000, gpus=1 + number % 2)
        harness.wait(30.0)
    now = harness.clock.now()
    history = history_of(harness.registry.jobs.values())
    futures = [arrivals(history, now, now + 30_000.0, seed) for seed in range(20)]
    assert all(900 < len(coming) < 1100 for coming in futures)
    assert all(coming.submitted.min() > now for coming in futures)
    twos = [(coming.gpus == 2).mean() for coming in futures]
    assert 0.45 < statistics.fmean(twos) < 0.55


def test_futures_differ_in_what_forty_submissions_do_not_tell():
    """The part of jobs with two GPUs is known to 8 %: that is how far futures lie apart, however long they are."""
    harness = AskedHarness(policy="las")
    harness.join("n0", gpus=4)
    for number in range(40):
        harness.submit(profile=PROFILE, steps=1000, gpus=1 + number % 2)
        harness.wait(30.0)
    now = harness.clock.now()
    history = history_of(harness.registry.jobs.values())
    twos = [(arrivals(history, now, now + 60_000.0, seed).gpus == 2).mean() for seed in range(40)]
    assert 0.05 < statistics.stdev(twos) < 0.12


def test_the_first_job_of_a_future_comes_after_the_rest_of_a_gap():
    """Ten jobs at once every 1,000 seconds: at a moment like any other, the next ones are 500 s away on average."""
    harness = AskedHarness(policy="las")
    harness.join("n0", gpus=4)
    for _ in range(6):
        for _ in range(10):
            harness.submit(profile=PROFILE, steps=1000)
        harness.wait(1000.0)
    now = harness.clock.now()
    history = history_of(harness.registry.jobs.values())
    first = [arrivals(history, now, now + 9000.0, seed).submitted[0] - now for seed in range(100)]
    assert 400 < statistics.fmean(first) < 600


def test_quantiles():
    assert quantile([1.0, 2.0, 3.0, 4.0, 5.0], 0.5) == 3.0
    assert quantile([1.0, 2.0], 0.5) == 1.5
    assert quantile([float(value) for value in range(1, 20)], 0.1) == 2.0
    assert quantile([float(value) for value in range(1, 20)], 0.9) == 18.0
    assert quantile([1.0, math.inf], 0.9) == math.inf
    assert quantile([math.inf, math.inf], 0.1) == math.inf


def test_one_more_draw_is_within_the_band_of_twenty_four_times_in_five():
    draw = random.Random(1)
    inside = 0
    for _ in range(2000):
        values = sorted(draw.expovariate(1.0) for _ in range(20))
        inside += quantile(values, 0.1) <= draw.expovariate(1.0) <= quantile(values, 0.9)
    assert 0.77 < inside / 2000 < 0.83


def test_another_request_or_priority_is_a_what_if():
    harness = AskedHarness(policy="fifo")
    harness.join("n0", gpus=4)
    for memory in (40.0, 40.0):
        harness.submit(profile=PROFILE, steps=steps(harness, 20 * ROUND_S), memory_gb=memory)
    harness.round()
    answer = what_if(harness.fork(), Change(job=1, memory_gb=24.0, cpus=2.0, priority=-1), tenant=None)

    (first, second) = next(job for job in answer["jobs"] if job["job"] == 1)["start_in_s"]
    assert first > 15 * ROUND_S
    assert second < ROUND_S
    asked = "2 CPUs and 24 GB of memory and priority -1"
    assert answer["what"] == f"submit job 1 again with {asked}, and cancel it as it is"
    assert answer["change"] == {"job": 1, "memory_gb": 24.0, "cpus": 2.0, "priority": -1}


def test_a_request_can_be_left_out_altogether():
    spec = JobSpec(emulated=True, profile=PROFILE, steps=10, memory_gb=40.0, cpus=4.0)
    assert Change(job=1, memory_gb=0.0).again(spec).memory_gb == 0.0
    assert Change(job=1, memory_gb=0.0).again(spec).cpus == 4.0


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        (("a", "weights", 2), "weights"),
        (("a", "borrow.v100", 2), "borrow.v100"),
        (("a", "borrow", 2), "has no quota"),
        (("a", "max_running", 0), "give a number from 1 on"),
    ],
)
def test_a_setting_of_a_tenant_that_makes_no_sense_is_refused(setting, message):
    with pytest.raises(RotaError, match=message):
        made(a_queue(count=1).fork(), Change(tenant_settings=(setting,)))


def test_a_tenant_with_fewer_jobs_at_the_same_time_starts_them_one_after_the_other():
    harness = AskedHarness(policy="fifo", tenants=Tenants(named={"a": TenantSettings(max_running=1)}))
    harness.join("n0", gpus=4)
    for _ in range(3):
        harness.submit(profile=PROFILE, steps=steps(harness, 5 * ROUND_S), tenant="a")
    harness.round()
    began = harness.clock.now()
    found = {estimate.job: estimate for estimate in estimates(harness.fork(), NO_HISTORY, [1, 2], futures=0)}
    assert [found[job].start - began for job in (1, 2)] == pytest.approx([5 * ROUND_S, 10 * ROUND_S], abs=2.0)

    answer = what_if(harness.fork(), Change(tenant_settings=(("a", "max_running", 3),)), tenant=None)
    assert max(job["start_in_s"][1] for job in answer["jobs"] if job["job"] != 0) < ROUND_S


def test_a_running_job_has_no_reason_to_wait():
    harness = a_queue(count=2)
    assert why(harness.fork(), 0, tenant=None)["changes"] == []


def test_a_scheduler_that_is_started_again_remembers_what_its_policy_did():
    harness = a_queue(policy="finish-time-fairness", count=4)
    for _ in range(3):
        harness.round()
    again = harness.restarted()
    before, after = (one.recovered.state.allocation for one in (harness, again))
    assert after.horizon == before.horizon
    assert after.state["isolated_time"].tolist() == before.state["isolated_time"].tolist()
    assert not again.recovered.trigger.due(again.clock.now() + ROUND_S)


def test_a_scheduler_that_is_started_again_sees_the_same_cluster_and_keeps_its_shares():
    harness = a_queue(policy="max-min-fairness", count=4)
    again = harness.restarted()
    rows = len(again.journal.rows)
    again.round()

    kinds = {row["event"] for row in again.journal.rows[rows:]}
    assert "RoundsRan" in kinds
    assert not kinds & {"ClusterChanged", "Allocated"}


@pytest.mark.parametrize("policy", ["las", "max-min-fairness-perf"])
def test_the_journal_of_a_run_with_questions_is_that_of_a_run_without(policy):
    def rows(*, asked):
        harness = a_queue(policy=policy, count=6, gpus=2)
        for number in range(8):
            if asked:
                fork = harness.fork()
                why(fork, harness.waiting()[0], tenant="a")
                estimates(fork, history_of(harness.registry.jobs.values()), harness.waiting(), futures=1)
                what_if(fork, Change(add_servers=(("v100", 1),)), tenant="b")
            if number == 4:
                harness.submit(profile=PROFILE, steps=10_000, tenant="a")
            harness.round()
        return json.dumps([{**row, "session": ""} for row in harness.journal.rows])

    assert rows(asked=True) == rows(asked=False)
