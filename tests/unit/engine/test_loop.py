"""The one loop: who is asked when, and what happens when things go wrong."""

import numpy as np
import pytest

import rota
from builders import FAST, SLOW, Speeds, a_cluster, a_run, shares, some_jobs
from rota.core.allocation import Traits
from rota.core.errors import ConfigError, SolveError
from rota.core.events import (
    Allocated,
    JobsDropped,
    JobsFinished,
    JobsSubmitted,
    Planned,
    RoundsRan,
    RunEnded,
    SolveFailed,
)
from rota.core.horizon import UNTIL_JOBS_CHANGE
from rota.core.ports import EveryEvent
from rota.core.rules import Rules, preset
from rota.mechanisms.select.fraction import Fraction

ONE = {"cluster": a_cluster(v100=1)}


class Scripted:
    """A policy that answers by a function, or fails."""

    def __init__(self, answer):
        self.answer = answer
        self.asked = []

    def allocate(self, view):
        self.asked.append((view.now, view.jobs.tolist()))
        return self.answer(view)


def everything_to_the_first(view):
    return shares(view, [[1.0] if row == 0 else [0.0] for row in range(len(view))])


def kinds(run):
    return [type(e) for e in run.events]


def test_a_run_is_told_from_arrival_to_end():
    run = a_run(some_jobs(1, steps=100.0), **ONE)

    assert kinds(run) == [JobsSubmitted, Allocated, Planned, RoundsRan, JobsFinished, RunEnded]
    assert run.finished == {0: 25.0}
    assert run.reason == "all jobs are done"


def test_without_jobs_a_run_ends_at_once():
    run = a_run(some_jobs(0))

    assert kinds(run) == [RunEnded]


def test_the_policy_is_asked_when_a_job_arrives_or_leaves_only():
    policy = Scripted(everything_to_the_first)

    a_run(some_jobs(2, steps=[4000.0, 4000.0], arrivals=[0.0, 500.0]), policy=policy, **ONE)

    assert policy.asked == [(0.0, [0]), (720.0, [0, 1]), (1000.0, [1])]


def test_answers_keep_their_distance_under_rules_that_ask_for_it():
    policy = Scripted(everything_to_the_first)
    jobs = some_jobs(4, steps=1e5, arrivals=[0.0, 400.0, 800.0, 5000.0])

    a_run(jobs, policy=policy, rules=Rules(resolve_every_s=1920.0), until=7000.0, **ONE)

    assert [at for at, _ in policy.asked] == [0.0, 2160.0, 5040.0]


def test_a_job_that_no_type_can_hold_is_refused_by_name_and_the_rest_runs():
    run = a_run(some_jobs(3, gpus=[1, 3, 2]), cluster=a_cluster(v100=2, k80=1))

    assert list(run.given_up) == [1]
    assert run.given_up[1] == "asks for 3 GPUs of one type; the cluster has k80=1, v100=2"
    assert set(run.finished) == {0, 2}


def test_a_job_without_speed_anywhere_is_refused_by_name():
    speeds = Speeds(rates={FAST: {"k80": 1.0, "v100": 0.0}, SLOW: {"k80": 0.0, "v100": 0.0}})

    run = a_run(
        some_jobs(3, profiles=[FAST, SLOW, FAST], gpus=[1, 1, 2]), cluster=a_cluster(k80=1, v100=2), speeds=speeds
    )

    assert set(run.given_up) == {1, 2}
    assert "'slow' with 1 GPUs has no measured speed" in run.given_up[1]
    assert "'fast' with 2 GPUs has no measured speed" in run.given_up[2]


def test_a_failed_solve_is_recorded_and_the_last_answer_stays():
    def only_once(view):
        if len(policy.asked) > 1:
            raise SolveError("no numbers today")
        return everything_to_the_first(view)

    policy = Scripted(only_once)
    run = a_run(some_jobs(2, steps=[4000.0, 400.0], arrivals=[0.0, 500.0]), policy=policy, **ONE)

    assert [e.reason for e in run.of(SolveFailed)] == ["no numbers today"] * len(run.of(SolveFailed))
    assert run.of(SolveFailed)
    assert set(run.finished) | set(run.given_up) == {0, 1}
    assert run.finished[0] == 1000.0


def test_a_policy_that_refuses_its_input_ends_the_run():
    def refuse(_view):
        raise ConfigError("not with me")

    with pytest.raises(ConfigError, match="not with me"):
        a_run(1, policy=Scripted(refuse))


def test_a_policy_that_is_broken_is_not_hidden():
    def stumble(_view):
        return 1 / 0

    with pytest.raises(ZeroDivisionError):
        a_run(1, policy=Scripted(stumble))


def test_jobs_that_get_nothing_for_ever_are_given_up():
    def nothing(view):
        return shares(view, np.zeros((len(view), len(view.types))), traits=Traits(fills=False))

    run = a_run(2, policy=Scripted(nothing))

    assert set(run.given_up) == {0, 1}
    assert run.of(JobsDropped)[0].reason == "the policy gives them no GPU and nothing will change"


def test_until_stops_the_clock_in_the_middle_of_a_round():
    run = a_run(some_jobs(1, steps=1e6), until=1000.0, **ONE)

    assert run.reason == "time is up"
    assert run.events[-1].at == 1000.0
    assert run.finished == {}
    assert run.steps().tolist() == [4.0 * 1000]
    assert sum(event.rounds for event in run.of(RoundsRan)) == 2


def test_who_ended_or_arrived_before_the_time_was_up_has_ended_or_arrived():
    run = a_run(some_jobs(2, steps=[4.0 * 800, 1000.0], arrivals=[0.0, 900.0]), until=1000.0, **ONE)

    assert run.finished == {0: 800.0}
    assert [len(jobs) for jobs in run.jobs] == [1, 1]
    assert run.placements[-1].first.tolist() == [1]


def test_in_the_rounds_of_the_artifact_until_stops_the_clock_at_a_round():
    run = a_run(some_jobs(1, steps=1e6), until=1000.0, rules="gavel-artifact", **ONE)

    assert run.events[-1].at == 1080.0


def test_until_stops_an_idle_cluster_too():
    run = a_run(some_jobs(1, arrivals=[1e6]), until=1000.0)

    assert (run.reason, run.events[-1].at) == ("time is up", 1000.0)


def test_an_idle_gap_is_skipped_in_one_step():
    run = a_run(some_jobs(2, steps=100.0, arrivals=[0.0, 1e6]), **ONE)

    assert run.finished[1] == pytest.approx(1e6 + 25.0)
    assert len(run.events) < 20


def test_a_job_that_fails_too_often_is_dropped_under_the_rules_of_the_artifact():
    run = a_run(some_jobs(1, gpus=2, steps=1.0), cluster=a_cluster(v100=2), rules="gavel-artifact")

    assert run.given_up == {0: "5 failed attempts in a row"}
    assert len(run.of(RoundsRan)) == 5


def test_the_artifact_waits_for_the_next_arrival_when_nothing_runs():
    rules = preset("gavel-artifact")
    jobs = some_jobs(2, steps=360.0, arrivals=[0.0, 5000.0])

    run = a_run(jobs, rules=rules, **ONE)

    assert run.solves[-1] == 5000.0


def test_a_policy_that_never_answers_does_not_keep_the_run_going_for_ever():
    def fail(_view):
        raise SolveError("no numbers ever")

    run = a_run(some_jobs(2, arrivals=[0.0, 900.0]), policy=Scripted(fail))

    assert set(run.given_up) == {0, 1}
    assert run.reason == "all jobs are done"
    assert run.of(SolveFailed)


@pytest.mark.parametrize("interarrival_s", [1500, 6000])
@pytest.mark.parametrize("policy", ["allox", "fifo-perf", "max-min-fairness-perf", "min-total-duration-perf"])
def test_leaving_the_round_as_it_is_after_arrivals_gives_the_same_as_placing_anew(policy, interarrival_s, monkeypatch):
    def run():
        result = rota.simulate(
            workload="gavel-continuous", settings={"interarrival_s": interarrival_s, "jobs": 120}, seed=3,
            cluster="v100=6,p100=6,k80=6", policy=policy, rules="gavel-artifact",
        )  # fmt: skip
        costs = {"cpu_s", "wall_s", "peak_rss_mb"}
        measured = {name: value for name, value in result.summary.items() if name not in costs}
        return measured, result.jobs["finish_s"].tolist()

    spared, asked = run(), []

    def ask(select, view, allocation):
        asked.append(ignores_arrivals(select, view, allocation))
        return False

    ignores_arrivals = Fraction.ignores_arrivals
    monkeypatch.setattr(Fraction, "ignores_arrivals", ask)
    monkeypatch.setattr("rota.mechanisms.select.queue_walk.UNTIL_JOBS_LEAVE", UNTIL_JOBS_CHANGE)

    assert run() == spared
    assert any(asked)


def test_an_observer_may_say_which_events_it_looks_at():
    heard, everything = [], []

    class Choosy:
        def observe(self, event):
            heard.append(event)

        def handler(self, kind):
            return self.observe if kind is JobsFinished else None

    run = a_run(1, observers=(Choosy(), EveryEvent(everything.append)))

    assert everything == run.events
    assert heard == [event for event in run.events if isinstance(event, JobsFinished)] != []
