"""Between two rounds, on paper: what docs/rules.md says of the rule `at_once`, in tiny runs.

Rounds begin at 0, 360, 720, 1080, ...; models `one` and `two` do one and two steps per second on the type `v`, and the
gang `pair` one step per second on two GPUs.
"""

import math

import pytest
from instances import catalogue

import rota
from rota.core.jobs import table

RATES = {("one", 1, "v"): 1.0, ("two", 1, "v"): 2.0, ("pair", 2, "v"): 1.0}
ANY_POLICY = ["fifo", "srtf", "las-perf", "max-min-fairness-perf", "min-total-duration", "isolated", "fifo-packed"]


def ends(tmp_path, cluster, policy, jobs, rates=RATES, *, more=None, **rules):
    """When jobs (model, arrival in seconds, steps) end; `more` goes to the run."""
    result = rota.simulate(
        jobs=table(
            profile_names=[model for model, _, _ in jobs],
            gpus=[2 if model == "pair" else 1 for model, _, _ in jobs],
            total_steps=[steps for _, _, steps in jobs],
            submitted=[arrival_s for _, arrival_s, _ in jobs],
        ),
        cluster=cluster,
        policy=policy,
        profiles=catalogue(tmp_path / "rates.csv", rates),
        rule_settings=rules,
        **(more or {}),
    )
    return result.jobs["finish_s"].tolist()


def exactly(seconds):
    return pytest.approx(seconds, abs=1e-6, nan_ok=True)


@pytest.mark.parametrize("policy", ANY_POLICY)
def test_a_job_that_arrives_in_the_middle_of_a_round_takes_a_free_gpu(tmp_path, policy):
    # The other GPU is free at 100.5, and the whole cluster is idle from 1000 on.
    jobs = [("one", 0.0, 1000.0), ("two", 100.5, 400.0), ("one", 5000.25, 1000.0)]

    assert ends(tmp_path, "v=2", policy, jobs) == exactly([1000.0, 100.5 + 200, 5000.25 + 1000])


@pytest.mark.parametrize("policy", ANY_POLICY)
def test_a_gpu_that_becomes_free_goes_to_who_waits(tmp_path, policy):
    # One GPU and three jobs of 100 s: whoever comes first, there is an end every 100 s.
    jobs = [("one", 0.0, 100.0)] * 3

    assert sorted(ends(tmp_path, "v=1", policy, jobs)) == exactly([100.0, 200.0, 300.0])


def test_an_end_in_the_middle_of_a_round_with_a_queue_in_the_order_of_the_policy(tmp_path):
    # A ends at 100; of B (200 s) and C (50 s) srtf takes C, then B.
    jobs = [("one", 0.0, 100.0), ("one", 90.0, 200.0), ("one", 95.0, 50.0)]

    assert ends(tmp_path, "v=1", "srtf", jobs) == exactly([100.0, 150.0 + 200, 100.0 + 50])
    assert ends(tmp_path, "v=1", "fifo", jobs) == exactly([100.0, 100.0 + 200, 300.0 + 50])


GANG = {
    # At 300 one GPU is free: too little for the gang, so S has it until 400 (also in the round at 360), then
    # T until 650.
    # A has ended at 500: the gang finds two GPUs at 650.
    True: [500.0, 300.0, 650.0 + 200, 300.0 + 100, 400.0 + 250],
    # S runs from 360 to 460 beside A. At 720 all is free: the gang first, and T in the round after its end at 920.
    False: [500.0, 300.0, 720.0 + 200, 360.0 + 100, 1080.0 + 250],
}


@pytest.mark.parametrize("at_once", [True, False], ids=["at once", "rounds only"])
def test_a_gang_waits_while_smaller_jobs_overtake_it(tmp_path, at_once):
    jobs = [("one", 0.0, 500.0), ("one", 0.0, 300.0)]  # A and B
    jobs += [("pair", 10.0, 200.0), ("one", 20.0, 100.0), ("one", 30.0, 250.0)]  # the gang, S and T

    assert ends(tmp_path, "v=2/2", "fifo", jobs, at_once=at_once) == exactly(GANG[at_once])


def test_who_finds_a_full_cluster_starts_at_the_first_end(tmp_path):
    # C, which arrives at 50, has the GPU of B from 450 on, and D that of C from 480 on; E that of A or D, at 500.
    jobs = [("one", 0.0, 500.0), ("one", 0.0, 450.0), ("one", 50.0, 30.0), ("one", 60.0, 20.0), ("one", 481.0, 9.0)]

    assert ends(tmp_path, "v=2", "fifo", jobs) == exactly([500.0, 450.0, 480.0, 500.0, 509.0])


@pytest.mark.parametrize("at_once", [True, False], ids=["at once", "rounds only"])
def test_nobody_is_preempted_between_two_rounds_although_srtf_would(tmp_path, at_once):
    # C (30 s) arrives at 50 and runs from 360 to 390. A has 640 s left, from then or from the next round on.
    jobs = [("one", 0.0, 1000.0), ("one", 50.0, 30.0)]

    assert ends(tmp_path, "v=1", "srtf", jobs, at_once=at_once) == exactly([(390 if at_once else 720) + 640.0, 390.0])


def test_nobody_is_moved_between_two_rounds_although_a_faster_type_is_free(tmp_path):
    # `b`, which runs on the fast type alone, has it until 100. `a` stays on the slow one, and `c`, which
    # arrives at 200,
    # has the fast one for 50 s. At 360 `a` moves with 2000 - 360 = 1640 steps left.
    rates = {("a", 1, "slow"): 1.0, ("a", 1, "fast"): 2.0, ("b", 1, "fast"): 1.0, ("c", 1, "fast"): 2.0}
    rates[("c", 1, "slow")] = 1.9
    jobs = [("b", 0.0, 100.0), ("a", 0.0, 2000.0), ("c", 200.0, 100.0)]

    assert ends(tmp_path, "slow=1,fast=1", "srtf-perf", jobs, rates) == exactly([100.0, 360 + 820.0, 250.0])


def test_a_start_ten_seconds_before_a_round_goes_on_in_it(tmp_path):
    # 10 s of the 45 before the round at 360, 35 after it.
    assert ends(tmp_path, "v=1", "srtf", [("one", 350.0, 1000.0)], restart_s=45.0) == exactly([350 + 45 + 1000.0])


def test_a_start_that_is_broken_off_by_a_round_begins_again(tmp_path):
    # A has started for 10 s when srtf stops it at 360 for B: 45 s and 100 s, until 505. Then A starts anew.
    jobs = [("one", 350.0, 1000.0), ("one", 355.0, 100.0)]

    assert ends(tmp_path, "v=1", "srtf", jobs, restart_s=45.0) == exactly([505 + 45 + 1000.0, 360 + 45 + 100.0])


def test_a_start_under_way_counts_as_over_when_types_are_given_out(tmp_path):
    # `b` has the fast type from 0 to 200 + 100. `a` arrives at 260 and starts on the slow one, until 460. At 360 it
    # would need 200 + 620 / 2 = 510 s on the fast one, and 620 s where it is without the rest of its start:
    # it moves. With
    # 350 steps these are 375 s and 350 s: it stays, and ends 350 s after 460.
    rates = {("a", 1, "slow"): 1.0, ("a", 1, "fast"): 2.0, ("b", 1, "fast"): 1.0}
    for steps, end in ((620.0, 360 + 510.0), (350.0, 460 + 350.0)):
        jobs = [("b", 0.0, 100.0), ("a", 260.0, steps)]

        assert ends(tmp_path, "slow=1,fast=1", "srtf-perf", jobs, rates, restart_s=200.0) == exactly([300.0, end])


STOPPED = {
    # B starts at 30 and is there for 10 s when time is up.
    40.0: [30.0, math.nan],
    # Exactly at the end of A.
    30.0: [30.0, math.nan],
    # C, which arrives at 100 on a full cluster, has not started at 300.
    300.0: [30.0, math.nan, math.nan],
    # B ended at 330, and C has had 10 s.
    340.0: [30.0, 330.0, math.nan],
    # At a round.
    360.0: [30.0, 330.0, math.nan],
}


@pytest.mark.parametrize("restart_s", [0.0, 25.0])
@pytest.mark.parametrize("until", STOPPED)
def test_a_run_that_is_stopped_between_two_rounds_goes_on_as_if_it_was_not(tmp_path, until, restart_s):
    jobs = [("one", 0.0, 30.0), ("one", 10.0, 300.0), ("one", 100.0, 400.0)]
    whole = [30 + restart_s, 330 + 2 * restart_s, 730 + 3 * restart_s]
    save = {"until": until, "checkpoint": tmp_path / "saved"}

    half = ends(tmp_path, "v=1", "fifo", jobs, more=save, restart_s=restart_s)
    resumed = ends(tmp_path, "v=1", "fifo", jobs, more={"resume": tmp_path / "saved"}, restart_s=restart_s)

    if restart_s == 0:
        assert half == exactly(STOPPED[until])
    assert resumed == exactly(whole)
