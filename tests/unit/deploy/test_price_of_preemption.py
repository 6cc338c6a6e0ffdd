"""Whether a job may be preempted, what that costs, how long it may save, and what is lost."""

import dataclasses

import pytest
from harness import Harness, ends, runs

from rota.core.lifecycle import AttemptOutcome, StopReason, TaskPhase
from rota.deploy.event_text import told
from rota.deploy.events import AttemptEnded, StepsSaved, from_fields, to_fields
from rota.deploy.scheduler.heartbeats import TaskReport
from rota.deploy.scheduler.preemption import expected_grace_s, preemptible, restart_cost_s, save_grace_s
from rota.deploy.scheduler.reasons import Explanation
from rota.deploy.scheduler.records import job_from, job_values
from rota.deploy.server.messages import agent_report, job_message
from rota.rpc import rota_pb2 as pb

COMMAND = {"emulated": False, "argv": ("train",), "steps": 0, "profile": ""}


def stopping(step=1, saved_step=0, **fields):
    return TaskReport(phase=TaskPhase.STOPPING, step=step, saved_step=saved_step, **fields)


# Whether it can save


def test_an_emulated_job_may_be_preempted_and_a_command_may_not():
    h = Harness()
    emulated = h.running()
    command = h.running(**COMMAND)

    assert preemptible(h.job(emulated), 0.0)
    assert not preemptible(h.job(command), 0.0)
    assert h.job(command).can_save_why == "it was not seen using rota.client and saved no checkpoint"


def test_a_command_may_be_preempted_once_it_used_the_client():
    h = Harness()
    number = h.running(**COMMAND)
    h.report("a", {number: runs(can_save=True)})
    h.report("a", {number: runs(can_save=True, step=2)})

    assert preemptible(h.job(number), h.clock.now())
    assert [(e["job"], e["how"]) for e in h.of("JobCanSave")] == [(number, "its command uses rota.client and saves")]
    assert h.restarted().job(number).can_save


def test_a_command_may_be_preempted_once_a_checkpoint_of_it_was_seen_by_an_old_agent_too():
    h = Harness()
    number = h.running(**COMMAND)
    h.report("a", {number: runs(step=9, saved_step=8, saved_path="0/1/step-000008")})

    assert h.job(number).can_save
    assert h.job(number).can_save_why == "it saved a checkpoint"
    assert h.restarted().job(number).can_save


def test_a_journal_without_the_new_event_and_fields_knows_by_its_checkpoints_that_a_job_can_save():
    h = Harness()
    number = h.running(**COMMAND)
    h.report("a", {number: runs(step=9, saved_step=8, saved_path="0/1/step-000008")})
    h.report("a", {number: ends("stopped", step=9, saved_step=8, detail="asked")})
    new = {"took_s", "lost_steps", "lost_s", "times_to_zero", "start_s"}
    old = [{k: v for k, v in row.items() if k not in new} for row in h.journal.rows if row["event"] != "JobCanSave"]
    for row in old:
        if row["event"] == "JobAccepted":
            row["spec"].pop("preemptible")
    h.journal.rows = old

    job = h.restarted().job(number)
    assert (job.can_save, job.thrown_back, job.longest_save_s) == (True, 0, 0.0)


@pytest.mark.parametrize("word", ["yes", "no"])
def test_the_word_of_the_owner_stands(word):
    h = Harness()
    command = h.running(**COMMAND, preemptible=word)
    emulated = h.running(preemptible=word)
    h.report("a", {command: runs(can_save=word == "no")})

    for number in (command, emulated):
        assert preemptible(h.job(number), 0.0) is (word == "yes")
        assert h.job(number).can_save_why == f"submitted with --preemptible {word}"


# When it may be preempted


def test_a_job_keeps_its_place_for_its_least_turn():
    h = Harness()
    number = h.running(least_turn_s=30.0)
    started = h.job(number).attempt.started

    assert not preemptible(h.job(number), started + 29.0)
    assert preemptible(h.job(number), started + 30.0)


def test_the_least_turn_of_the_operator_holds_in_wall_seconds_for_jobs_that_say_nothing():
    h = Harness()
    h.registry.config = {"least_turn_s": 5.0, "time_scale": 60.0}
    quiet = h.running()
    own = h.running(least_turn_s=1.0)

    assert not preemptible(h.job(quiet), h.job(quiet).attempt.started + 299.0)
    assert preemptible(h.job(quiet), h.job(quiet).attempt.started + 300.0)
    assert preemptible(h.job(own), h.job(own).attempt.started + 60.0)


def test_a_job_that_writes_a_checkpoint_is_left_alone_meanwhile():
    h = Harness()
    number = h.running(**COMMAND)
    h.report("a", {number: runs(can_save=True, saving=True)})
    assert not preemptible(h.job(number), h.clock.now())
    assert not preemptible(h.restarted().job(number), h.clock.now())

    h.report("a", {number: runs(step=5, saved_step=5, saved_path="p", can_save=True)})

    assert preemptible(h.job(number), h.clock.now())
    assert [e["saving"] for e in h.of("AttemptSaving")] == [True, False]


def test_a_job_without_a_place_has_none_to_keep():
    h = Harness()
    h.join("a")
    queued = h.submit(**COMMAND, preemptible="no")
    running = h.running(**COMMAND, preemptible="no")
    assert preemptible(h.job(queued), 0.0)

    h.want()

    assert h.job(running).attempt.stopping
    assert preemptible(h.job(running), h.clock.now())


def test_a_job_that_ends_sooner_than_it_could_be_restarted_is_left_alone():
    h = Harness()
    number = h.running(steps=100)  # a step per second
    job = h.job(number)
    job.stop_s = 8.0
    job.start_s = 4.0

    assert preemptible(job, job.attempt.started + 87.0)
    assert not preemptible(job, job.attempt.started + 89.0)
    assert not preemptible(job, job.attempt.started + 105.0)
    assert preemptible(job, job.attempt.started + 113.0), "it is slower than was thought: nothing is known"


def test_how_fast_a_job_was_counts_more_than_what_its_profile_promises():
    h = Harness()
    number = h.running(steps=100)
    h.job(number).stop_s = 8.0
    h.job(number).start_s = 4.0
    h.clock.seconds += 60.0
    h.report("a", {number: runs(step=30, saved_step=30, saved_path="p")})  # half a step per second

    assert preemptible(h.job(number), h.clock.now() + 40.0)
    assert not preemptible(h.job(number), h.clock.now() + 130.0)


# What it costs


def test_what_a_restart_costs_is_learned_from_the_job_and_else_from_others():
    h = Harness()
    first = h.running()
    assert restart_cost_s(h.job(first)) == 0.0
    h.want()
    h.wait(7.0)
    h.report("a", {first: ends("stopped", step=5, saved_step=5, saved_path="p", start_s=3.0)})

    second = h.running()

    assert restart_cost_s(h.job(first)) == pytest.approx(10.0)
    assert restart_cost_s(h.job(second)) == pytest.approx(10.0), "nothing of its own is known"
    again = h.restarted()
    assert [restart_cost_s(again.job(n)) for n in (first, second)] == pytest.approx([10.0, 10.0])


# How long it may save


def test_the_grace_is_what_the_job_says_else_learned_else_a_default():
    h = Harness()
    number = h.running(**COMMAND)
    said = h.running(**COMMAND, save_grace_s=7.0)
    job = h.job(number)
    assert (save_grace_s(job, job.attempt), expected_grace_s(job, job.attempt)) == (0.0, 10.0)

    h.report("a", {number: runs(can_save=True)})
    assert (save_grace_s(job, job.attempt), expected_grace_s(job, job.attempt)) == (0.0, 60.0)
    h.report("a", {number: runs(step=5, saved_step=5, saved_path="p", save_s=5.0, can_save=True)})
    assert save_grace_s(job, job.attempt) == 60.0, "3 x 5 s is less than the default"
    h.report("a", {number: runs(step=9, saved_step=9, saved_path="p", save_s=40.0, can_save=True)})

    assert save_grace_s(job, job.attempt) == 120.0
    assert {task.job: task.grace_s for task in h.board.published["a"].tasks}[said] == 7.0
    again = h.restarted().job(number)
    assert save_grace_s(again, again.attempt) == 120.0


@pytest.mark.parametrize(("said", "grace"), [(0.0, 10.0), (2.0, 2.0), (500.0, 10.0)])
def test_a_job_that_is_cancelled_is_not_waited_for(said, grace):
    h = Harness()
    number = h.running(**COMMAND, save_grace_s=said)
    h.cancel(number)
    h.want()

    assert h.job(number).attempt.stop_reason is StopReason.CANCELLED
    assert save_grace_s(h.job(number), h.job(number).attempt) == grace


# Leases of jobs that save


def lease(h, number):
    return h.job(number).attempt.lease_until


def test_a_job_that_was_asked_to_stop_keeps_its_lease_for_its_notice_period():
    h = Harness()
    number = h.running(**COMMAND, save_grace_s=15.0)
    h.want()
    before = lease(h, number)
    h.wait(10.0)
    h.report("a", {number: stopping()})
    h.round()
    within = lease(h, number)
    h.wait(10.0)
    h.report("a", {number: stopping()})
    h.round()

    assert within == before + 10.0
    assert lease(h, number) == within, "its notice period is over and nothing says that it saves"


def test_the_lease_of_a_save_that_grows_is_extended_and_of_one_that_hangs_is_not():
    h = Harness()
    number = h.running(**COMMAND, save_grace_s=5.0)
    h.want()
    leases = []
    for amount in (1, 2, 3, 3, 3):
        h.wait(10.0)
        h.report("a", {number: stopping(can_save=True, saving=True, save_progress=amount)})
        h.round()
        leases.append(lease(h, number))

    assert leases[1] == leases[0] + 10.0
    assert leases[2] == leases[1] + 10.0
    assert leases[4] == leases[3] == leases[2], "it says that it saves, but nothing grows"


def test_no_lease_is_extended_for_a_save_on_a_server_that_is_silent():
    h = Harness()
    number = h.running(**COMMAND, save_grace_s=100.0)
    h.want()
    h.report("a", {number: stopping(saving=True, save_progress=1)})
    before = lease(h, number)
    h.wait(6.0)
    h.round()

    assert lease(h, number) == before


def test_no_lease_is_extended_for_a_job_that_is_cancelled_while_it_saves():
    h = Harness()
    number = h.running(**COMMAND, save_grace_s=100.0)
    h.want()
    h.report("a", {number: stopping(saving=True, save_progress=1)})
    h.cancel(number)
    before = lease(h, number)
    h.wait(10.0)
    h.report("a", {number: stopping(saving=True, save_progress=2)})
    h.round()

    assert lease(h, number) == before


# Lost work


def stopped(h, number, **report):
    """The job is preempted and ends so; the event."""
    h.want()
    h.wait(4.0)
    h.report("a", {number: ends("stopped", detail="the scheduler asks for it", **report)})
    return h.of("AttemptEnded")[-1]


def test_a_stop_before_the_checkpoint_was_complete_is_no_normal_stop():
    h = Harness()
    number = h.running(**COMMAND)
    h.report("a", {number: runs(step=1000, saved_step=400, saved_path="p", can_save=True)})
    ended = stopped(h, number, step=1600, saved_step=400, saved_path="p", can_save=True)

    assert (ended["outcome"], ended["lost_steps"], ended["times_to_zero"]) == ("cut-off", 1200, 0)
    assert ended["detail"].startswith("stopped before its checkpoint was complete: 1,200 steps lost")
    job = h.job(number)
    assert (job.preemptions, job.restarts, job.thrown_back, job.thrown_back_to_zero) == (0, 0, 1, 0)
    assert (job.lost_steps, job.last_cut) == (1200, ended["detail"])
    assert job.saved_step == 400
    assert not job.ending
    again = h.restarted().job(number)
    assert (again.lost_steps, again.lost_s, again.thrown_back) == (1200, job.lost_s, 1)
    assert "steps lost" in told(ended, None)


def test_a_stop_in_order_loses_nothing():
    h = Harness()
    number = h.running(**COMMAND)
    ended = stopped(h, number, step=16, saved_step=16, saved_path="p", can_save=True)

    assert (ended["outcome"], ended["lost_steps"], ended["lost_s"]) == ("stopped", 0, 0.0)
    assert (h.job(number).preemptions, h.job(number).thrown_back) == (1, 0)


def test_a_command_that_begins_anew_twice_is_warned_about_until_it_saves():
    h = Harness()
    number = h.running(**COMMAND)
    assert stopped(h, number, step=0)["times_to_zero"] == 1
    assert h.job(number).warning == ""
    h.round()
    h.want(**{f"j{number}": {"a": 1}})
    ended = stopped(h, number, step=0)

    job = h.job(number)
    assert (ended["times_to_zero"], job.thrown_back, job.thrown_back_to_zero) == (2, 2, 2)
    assert job.lost_s > 0
    assert "2 times" in job.warning
    assert "--preemptible no" in job.warning
    assert f"warning: {job.warning}" in told(ended, None)
    assert h.restarted().job(number).warning == job.warning
    h.round()
    h.want(**{f"j{number}": {"a": 1}})
    h.report("a", {number: runs(step=5, saved_step=5, saved_path="p")})
    assert h.job(number).warning == ""


def test_a_task_that_never_began_and_a_job_that_is_cancelled_lose_nothing():
    h = Harness()
    number = h.running(**COMMAND)
    h.want()
    h.wait(4.0)
    h.report("a", {number: ends("stopped", step=0)})
    assert h.of("AttemptEnded")[-1]["lost_s"] == 0.0
    other = h.running(**COMMAND)
    h.cancel(other)
    h.report("a", {other: ends("stopped", step=0, detail="the scheduler asks for it")})

    assert h.of("AttemptEnded")[-1]["lost_s"] == 0.0
    assert (h.job(number).thrown_back, h.job(other).thrown_back) == (0, 0)


def test_a_failure_of_its_own_loses_steps_but_is_not_called_thrown_back():
    h = Harness()
    number = h.running(**COMMAND)
    h.report("a", {number: runs(step=30, saved_step=10, saved_path="p", can_save=True)})
    h.report("a", {number: ends("failed", step=30, saved_step=10, saved_path="p", can_save=True)})

    job = h.job(number)
    assert (job.lost_steps, job.thrown_back, job.restarts, job.warning) == (20, 0, 1, "")


def test_work_that_is_lost_with_a_server_is_counted():
    h = Harness()
    number = h.running(**COMMAND)
    h.report("a", {number: runs(step=30, saved_step=10, saved_path="p", can_save=True)})
    h.wait(100.0)

    job = h.job(number)
    assert h.of("AttemptEnded")[-1]["outcome"] == "lost"
    assert (job.lost_steps, job.thrown_back, job.thrown_back_to_zero) == (20, 1, 0)


# How it travels


def test_what_is_known_of_saving_stays_with_a_job_that_left_memory():
    h = Harness()
    number = h.running(**COMMAND)
    h.report("a", {number: runs(step=9, saved_step=4, saved_path="p", can_save=True, save_s=2.0)})
    stopped(h, number, step=9, saved_step=4, saved_path="p", can_save=True)
    job = h.job(number)
    kept = job_from(job_values(job))

    assert dataclasses.replace(kept, story=job.story) == job
    old = {k: v for k, v in job_values(job).items() if k not in {"lost_steps", "last_cut", "seen_saving", "stop_s"}}
    assert job_from(old).lost_steps == 0


def test_events_of_saving_survive_the_journal():
    saved = StepsSaved(at=1.0, job=1, epoch=2, step=3, path="p", took_s=4.5)
    ended = AttemptEnded(
        at=1.0, job=1, epoch=2, outcome=AttemptOutcome.CUT_OFF, lost_steps=7, lost_s=8.5, times_to_zero=2, start_s=1.5
    )

    assert [from_fields(to_fields(event)) for event in (saved, ended)] == [saved, ended]


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), -1.0])
def test_durations_that_are_none_teach_nothing(bad):
    task = pb.TaskState(job=1, epoch=1, phase="running", save_s=bad, start_s=bad)

    report = agent_report(pb.Observed(node="a", tasks=[task])).tasks[1, 1]

    assert (report.save_s, report.start_s) == (0.0, 0.0)


def test_a_job_tells_its_owner_what_stops_cost():
    from rota.deploy.scheduler.clock import WallClock

    h = Harness()
    number = h.running(**COMMAND)
    stopped(h, number, step=0)

    info = job_message(h.job(number), WallClock(scale=1.0), Explanation.of_archived(h.job(number)))

    assert (info.can_save, info.thrown_back, info.thrown_back_to_zero, info.warning) == (False, 1, 1, "")
    assert info.lost_s > 0
