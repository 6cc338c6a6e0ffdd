"""Why jobs wait, decided in one place; and words about jobs that cannot be wrong."""

import itertools
import json
from dataclasses import replace

import pytest
from click.testing import CliRunner
from harness import Harness, ends, runs

from builders import Speeds
from rota.cli import job_text
from rota.cli.tables import show_table
from rota.core.lifecycle import JobPhase
from rota.deploy.scheduler.catalogue import opened
from rota.deploy.scheduler.cluster_facts import cluster_as_it_is
from rota.deploy.scheduler.job_kinds import JobKind, can_run
from rota.deploy.scheduler.reasons import Explanation, ReasonCode, Reasons, shown_phase
from rota.deploy.scheduler.round_report import cluster_now
from rota.deploy.scheduler.tenant_limits import TenantLimits
from rota.deploy.server.messages import job_message
from rota.deploy.tenants import Tenants, TenantSettings
from rota.rpc import rota_pb2 as pb

ONLY_V100 = Speeds({"fast": {"v100": 4.0, "p100": 2.0, "k80": 0.0}})


def explain(harness, number, *, silent_s=None, catalogue=None, missing=lambda _: ()):
    cluster = cluster_as_it_is(harness.registry, harness.clock.now(), silent_s=silent_s)
    return Reasons(cluster, catalogue or harness.catalogue, missing).explain(harness.job(number))


def full(harness):
    """Server a with 4 GPUs, all of them busy with job 0."""
    harness.join("a")
    number = harness.submit(gpus=4)
    harness.round()
    harness.want(**{f"j{number}": {"a": 4}})
    harness.report("a", {number: runs()})
    return number


def test_without_servers_a_job_waits_at_once():
    harness = Harness()
    number = harness.submit()

    assert explain(harness, number) == Explanation(JobPhase.WAITING, ReasonCode.NO_SERVERS, "no server is up")


def test_lost_and_drained_servers_are_counted():
    harness = Harness()
    harness.join("a")
    harness.join("b")
    harness.ask(lambda now: harness.requests.drain("b", "admin", now, undo=False))
    harness.clock.seconds += 60.0
    harness.report("b")
    harness.wait(1.0)
    number = harness.submit()

    assert explain(harness, number).reason == (
        "no-servers: no server is up; of those that were here, 1 lost and 1 drained"
    )


def test_a_job_larger_than_every_type_waits_with_the_numbers():
    harness = Harness()
    harness.join("a", gpus=4)
    harness.join("b", gpus=8, kind="k80")
    number = harness.submit(gpus=100)

    told = explain(harness, number)

    assert told.phase is JobPhase.WAITING
    assert told.reason == ("no-server-fits: asks for 100 GPUs; the largest number of one type that is up is 8 (k80)")


def test_a_job_that_servers_which_are_away_could_hold_says_so():
    harness = Harness()
    harness.join("a", gpus=4)
    harness.join("b", gpus=4)
    harness.ask(lambda now: harness.requests.drain("b", "admin", now, undo=False))
    number = harness.submit(gpus=8)

    assert explain(harness, number).reason.endswith("is 4 (v100); 4 more of v100 are on servers that are drained")


def test_a_profile_without_speed_on_the_types_that_are_up_is_named():
    harness = Harness()
    harness.join("a", gpus=4, kind="k80")
    number = harness.submit(gpus=2)

    told = explain(harness, number, catalogue=opened(ONLY_V100))

    assert told.phase is JobPhase.WAITING
    assert told.reason == "profile-unknown-there: profile 'fast' has no speed with 2 GPUs on k80"


def test_after_a_failure_the_pause_counts_down():
    harness = Harness()
    number = harness.running()
    harness.report("a", {number: ends("failed", exit_code=1)})

    first = explain(harness, number)
    harness.wait(1.0)
    later = explain(harness, number)

    assert (first.phase, first.code) == (JobPhase.WAITING, ReasonCode.BACK_OFF)
    assert first.sentence == "tried again in 2 s after failed (exit code 1); 1 of 3 restarts used"
    assert later.sentence.startswith("tried again in 1 s")


def test_the_reason_of_an_old_journal_is_said_in_the_same_words():
    harness = Harness()
    number = harness.running()
    harness.report("a", {number: ends("failed", exit_code=1)})
    harness.job(number).reason = "failed (exit code 1); tried again after a pause"

    assert "tried again in 2 s after failed (exit code 1); 1 of 3" in explain(harness, number).reason


def test_with_some_gpus_free_it_says_how_many_are_missing():
    harness = Harness()
    harness.running()
    number = harness.submit(gpus=4)

    told = explain(harness, number)

    assert told.phase is JobPhase.QUEUED
    assert told.reason == "queued: 3 GPUs free of v100, asks for 4; 1 job running, 0 jobs before it"


def test_with_enough_gpus_free_it_waits_for_the_decision_only():
    harness = Harness()
    harness.join("a")
    number = harness.submit(gpus=4)

    assert explain(harness, number).reason == ("queued: 4 GPUs free of v100, asks for 4; placed with the next decision")


def test_with_all_gpus_busy_it_says_who_was_there_before():
    harness = Harness()
    full(harness)
    numbers = [harness.submit() for _ in range(6)]

    told = explain(harness, numbers[-1])

    assert (told.phase, told.code) == (JobPhase.QUEUED, ReasonCode.OUTRANKED)
    assert told.sentence == "all 4 GPUs that it could use (v100) are busy; 1 job running, 5 jobs before it"


def test_a_job_on_a_silent_server_is_held_by_its_lease():
    harness = Harness()
    number = full(harness)
    harness.clock.seconds += 12.0

    told = explain(harness, number, silent_s={"a": 12.0})

    assert (told.phase, told.code) == (JobPhase.RUNNING, ReasonCode.HELD_BY_LEASE)
    assert told.sentence.startswith("a is silent for 12 s; the lease there ends in ")


def test_a_job_whose_secrets_are_lost_names_them():
    harness = Harness()
    harness.join("a")
    number = harness.submit()

    told = explain(harness, number, missing=lambda _: ("TOKEN",))

    assert (told.phase, told.code) == (JobPhase.WAITING, ReasonCode.SECRETS_MISSING)
    assert "TOKEN" in told.sentence


def test_a_job_that_is_done_is_finished_before_the_round_is_over():
    harness = Harness()
    number = harness.running()
    harness.report("a", {number: ends("completed", step=1000, saved_step=1000)})

    assert harness.phase(number) is JobPhase.QUEUED  # the engine hears of it at the end of the round
    assert explain(harness, number) == Explanation(JobPhase.FINISHED)


def test_a_job_that_is_cancelled_while_it_waits_is_over_at_once():
    harness = Harness()
    full(harness)
    number = harness.submit()
    harness.round()
    harness.cancel(number)

    assert explain(harness, number) == Explanation(JobPhase.CANCELLED, ReasonCode.NONE, "cancelled by tester")


def test_a_job_that_is_cancelled_while_it_runs_stops_first():
    harness = Harness()
    number = full(harness)
    harness.cancel(number)

    assert explain(harness, number).reason == "ending: cancelled by tester"
    assert explain(harness, number).phase is JobPhase.STOPPING


def test_a_preempted_job_stops_with_that_reason():
    harness = Harness()
    number = full(harness)
    harness.want()

    assert explain(harness, number).reason == "stopping: preempted"


@pytest.mark.parametrize("gpus", [1, 4, 5, 9])
@pytest.mark.parametrize("kinds", [(), ("v100",), ("k80",), ("v100", "k80")])
def test_waiting_is_what_the_engine_is_not_told_of(gpus, kinds):
    """The phase `waiting` and the admission to the engine follow from the same question."""
    harness = Harness()
    harness.catalogue = opened(ONLY_V100)
    for at, kind in enumerate(kinds):
        harness.join(f"n{at}", gpus=4 + at, kind=kind)
    number = harness.submit(gpus=gpus)

    cluster = cluster_now(harness.registry, None, opened(ONLY_V100))
    fits = cluster is not None and can_run(opened(ONLY_V100), JobKind("fast", gpus), cluster)

    assert (explain(harness, number, catalogue=opened(ONLY_V100)).phase is JobPhase.QUEUED) == fits


# What jobs ask for beside GPUs


def test_a_job_that_asks_for_more_memory_than_any_server_has_waits_with_the_numbers():
    harness = Harness()
    harness.join("a")
    number = harness.submit(gpus=1, memory_gb=200.0)

    told = explain(harness, number)

    assert told.phase is JobPhase.WAITING
    assert told.reason == (
        "request-too-large: asks for 1 GPU with 200 GB of memory; the most that one server has is 4 GPUs, 8 CPUs, 64 GB"
    )


def test_free_gpus_without_the_memory_beside_them_are_no_reason_to_promise_a_start():
    harness = Harness()
    harness.join("a")
    first = harness.submit(gpus=1, memory_gb=60.0)
    harness.round()
    harness.want(**{f"j{first}": {"a": 1}})
    attempt = harness.registry.jobs[first].attempt
    attempt.parts = (replace(attempt.parts[0], memory_gb=60.0),)
    number = harness.submit(gpus=1, memory_gb=40.0)

    assert explain(harness, number).reason == (
        "no-room-beside: 3 GPUs free of v100, but not 1 GPU with 40 GB of memory; 1 job running, 0 jobs before it"
    )


# Words

REASONS = {phase: ("queued: x" if phase is JobPhase.QUEUED else "") for phase in JobPhase}
CASES = list(itertools.product(JobPhase, (0, 1000), (0, 1, 400, 1000, 3600), ("", "fast", "unprofiled"), (0, 3)))


def an_info(phase, steps, step, profile, preemptions):
    spec = pb.JobSpec(name="a", tenant="t", gpus=2, steps=steps, profile=profile, weight=1.0, max_restarts=3)
    return pb.JobInfo(
        job=7, spec=spec, phase=phase.value, reason=REASONS[phase], step=step, saved_step=step, submitted_at=100.0,
        preemptions=preemptions, ended_at=200.0 if phase.final else 0.0,
    )  # fmt: skip


def test_no_phase_has_impossible_words():
    for case in CASES:
        phase, steps, step, profile, _ = case
        info = an_info(*case)
        row = dict(zip(job_text.HEADER, job_text.row(info, 300.0), strict=True))
        fields = json.loads(json.dumps(job_text.fields(info)))
        text = " ".join(value for _, value in job_text.pairs(info))

        knows_share = steps > 0 and phase.value in ("running", "stopping", "finished")
        assert ("%" in row["done"]) == (knows_share or (steps > 0 and step > 0)), case
        assert (fields["done"] is None) == (not knows_share), case
        assert fields["done"] is None or 0 <= fields["done"] <= 1, case
        assert row["done"] == "-" or row["done"].endswith((" %", " step", " steps")), case
        assert "of 0" not in text, case
        assert "unprofiled" not in " ".join(row.values()) + text, case
        assert row["profile"] == ("fast" if profile == "fast" else "-"), case
        assert all(row.values()), case
        if step == 0 and not knows_share:
            assert row["done"] == "-", case


@pytest.mark.parametrize(
    ("steps", "step", "phase", "done", "full"),
    [
        (0, 3600, JobPhase.FINISHED, "3,600 steps", "3,600; saved 3,600; how many it has is not known"),
        (0, 0, JobPhase.FINISHED, "-", "- (not known)"),
        (1000, 400, JobPhase.QUEUED, "40 %", "400 of 1,000; saved 400"),
        (1000, 999, JobPhase.RUNNING, "99 %", "999 of 1,000; saved 999"),
        (1000, 1200, JobPhase.RUNNING, "100 %", "1,200, more than the 1,000 that were announced; saved 1,200"),
        (1000, 400, JobPhase.CANCELLED, "40 %", "400 of 1,000; saved 400"),
    ],
)
def test_steps_are_said_as_they_are_known(steps, step, phase, done, full):
    info = an_info(phase, steps, step, "fast", 0)

    assert (job_text.done(info), job_text.steps(info)) == (done, full)


def test_a_finished_job_without_a_number_of_steps_is_not_credited_with_made_up_ones():
    harness = Harness()
    number = harness.running(emulated=False, argv=["train"], steps=0)
    harness.report("a", {number: ends("completed", step=17, saved_step=17)})
    harness.round()

    job = harness.job(number)
    message = job_message(job, WallTimes(), Explanation(shown_phase(job)))

    assert (message.phase, message.step, message.saved_step) == ("finished", 17, 17)


class WallTimes:
    """A clock of which a message asks only the time, and what wall time an engine second is."""

    @staticmethod
    def wall_time(at):
        return at

    @staticmethod
    def now():
        return 0.0


def test_a_table_in_a_pipe_has_one_line_per_job_and_whole_names():
    info = an_info(JobPhase.QUEUED, 10, 0, "fast", 0)
    info.spec.name = "a very long name\nwith a line break \x1b[2J and a command for the terminal" + "x" * 200
    info.reason = "queued: a sentence " * 20

    with CliRunner().isolation() as streams:
        show_table(None, job_text.HEADER, [job_text.row(info, 0.0)] * 3, numbers=job_text.NUMBERS)
        text = streams[0].getvalue().decode()

    assert len(text.splitlines()) == 4
    assert "x" * 200 in text
    assert text.isascii()
    assert "\x1b" not in text
    assert [line.index("queued") for line in text.splitlines()[1:]] == [text.splitlines()[0].index("phase")] * 3


@pytest.mark.parametrize(
    ("quota", "ends"),
    [
        ({"v100": 6}, "holds 4 GPUs of its quota of 6 v100: borrowed GPUs are taken back at the start of a round"),
        (5, "holds 4 GPUs of its quota of 5: borrowed GPUs are taken back at the start of a round"),
        ({"v100": 4, "k80": 2}, "holds 4 GPUs of its quota of 2 k80 + 4 v100, so the job has to borrow"),
        (None, "1 job running, 0 jobs before it"),
    ],
)
def test_a_job_that_waits_names_the_quota_of_its_tenant(quota, ends):
    harness = Harness()
    full(harness)
    number = harness.submit(exclude_types=("k80",))
    limits = TenantLimits(Tenants(named={harness.job(number).tenant: TenantSettings(quota=quota)}))
    cluster = cluster_as_it_is(harness.registry, harness.clock.now())

    found = Reasons(cluster, harness.catalogue, limits=limits, registry=harness.registry).explain(harness.job(number))

    assert found.code is ReasonCode.OUTRANKED
    assert found.sentence.endswith(ends)


def test_a_job_beyond_the_quota_of_its_tenant_says_so_although_gpus_are_free():
    harness = Harness()
    full(harness)
    harness.join("b")
    number = harness.submit()
    tenant = harness.job(number).tenant
    limits = TenantLimits(Tenants(named={tenant: TenantSettings(quota=3, borrow=1)}))
    cluster = cluster_as_it_is(harness.registry, harness.clock.now())

    found = Reasons(cluster, harness.catalogue, limits=limits, registry=harness.registry).explain(harness.job(number))

    assert found.code is ReasonCode.QUOTA
    assert found.sentence.startswith(f"tenant {tenant!r} holds 4 GPUs of its quota of 3 + 1 borrowed GPUs, and the job")
