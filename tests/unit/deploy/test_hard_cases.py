"""What happens to jobs when agents, servers and users do things at the wrong moment: events in, events out."""

import numpy as np
import pytest
from harness import ROUND_S, TIMING, Harness, ends, runs

from rota.core.events import JobsFinished
from rota.core.lifecycle import JobPhase, StopReason
from rota.deploy.events import AttemptStarted
from rota.deploy.scheduler.requests import OfferedNode, Refused


def stopping(**fields):
    """A job that was preempted and has not stopped yet."""
    harness = Harness()
    job = harness.running(**fields)
    harness.want()
    assert harness.phase(job) is JobPhase.STOPPING
    return harness, job


# Ends at the wrong moment


def test_a_job_that_completes_while_it_is_being_stopped_is_finished():
    harness, job = stopping()

    harness.report("a", {job: ends("completed", step=1000, saved_step=1000)})
    harness.round()

    assert harness.phase(job) is JobPhase.FINISHED
    assert (harness.job(job).saved_step, harness.job(job).preemptions) == (1000, 0)


def test_a_job_that_fails_while_it_is_being_stopped_has_failed_once():
    harness, job = stopping()

    harness.report("a", {job: ends("failed", exit_code=3, detail="no data")})

    assert harness.phase(job) is JobPhase.WAITING
    assert (harness.job(job).restarts, harness.job(job).preemptions) == (1, 0)


def test_a_job_that_stops_as_asked_goes_back_to_the_queue_with_what_it_saved():
    harness, job = stopping()

    harness.report("a", {job: ends("stopped", step=40, saved_step=40)})

    assert harness.phase(job) is JobPhase.QUEUED
    assert (harness.job(job).preemptions, harness.job(job).saved_step) == (1, 40)


def test_devices_are_free_when_the_attempt_has_ended_and_not_before():
    harness = Harness()
    harness.join("a", gpus=1)
    first = harness.running()
    second = harness.submit()
    harness.round()

    harness.want(**{f"j{second}": {"a": 1}})
    assert harness.job(second).attempt is None

    harness.report("a", {first: ends("stopped")})
    assert harness.job(second).attempt is not None


def test_a_job_that_hangs_is_asked_to_stop_and_that_is_a_failure():
    harness = Harness()
    job = harness.running(hung_after_s=10.0)
    for _ in range(12):
        harness.clock.seconds += 1.0
        harness.report("a", {job: runs(step=1)})
    assert harness.job(job).attempt.stop_reason is StopReason.HUNG

    harness.report("a", {job: ends("stopped")})

    (ended,) = harness.of("AttemptEnded")
    assert (ended["outcome"], ended["detail"]) == ("hung", "no step for 10 s")
    assert harness.job(job).restarts == 1


def test_a_failing_job_waits_longer_each_time_and_is_given_up():
    harness = Harness()
    job = harness.running(max_restarts=2)
    pauses = []
    for _ in range(3):
        harness.report("a", {job: ends("failed", exit_code=1)})
        pauses.append(harness.job(job).wait_until - harness.clock.now())
        harness.clock.seconds += 10.0
        harness.report("a")
        harness.round()

    assert harness.phase(job) is JobPhase.FAILED
    assert harness.job(job).reason == "failed (exit code 1); 3 failed attempts in a row without saving a step"
    assert pauses[:2] == [2.0, 4.0]


def test_a_job_that_is_lost_five_times_without_a_step_is_taken_for_the_reason():
    harness = Harness()
    job = harness.running()
    for turn in range(5):
        harness.join("a", identity=f"folder {turn}")
        after_leases(harness)

    assert harness.job(job).final_phase is JobPhase.FAILED
    assert "lost 5 times in a row" in harness.job(job).reason


# Servers that go and come


def after_leases(harness, node="a"):
    """The agent is heard until the leases of before have ended."""
    for _ in range(int(TIMING.lease_s + ROUND_S) + 1):
        harness.clock.seconds += 1.0
        harness.report(node)


def until_lost(harness, node="a"):
    harness.wait(TIMING.lease_s + ROUND_S + TIMING.dead_after_s)
    assert harness.registry.nodes[node].lost


def test_a_lost_node_that_is_back_with_its_folder_gets_new_work_and_old_reports_change_nothing():
    harness = Harness()
    job = harness.running()
    until_lost(harness)
    assert (harness.phase(job), harness.job(job).losses) == (JobPhase.QUEUED, 1)

    harness.join("a")  # the same identity; its task of epoch 1 is still known to it
    harness.report("a", {(job, 1): runs(step=900, saved_step=900)}, acknowledged=0)

    assert harness.job(job).epoch == 2
    assert harness.job(job).saved_step == 0


def test_a_node_with_another_folder_has_lost_what_ran_there():
    harness = Harness()
    job = harness.running()

    harness.join("a", identity="another folder")
    assert harness.commands("a") == {}
    harness.report("a")
    assert harness.of("AttemptEnded") == [], "what the agent before it started may still run on its lease"
    after_leases(harness)

    ended = harness.of("AttemptEnded")[0]
    assert (ended["outcome"], ended["epoch"]) == ("lost", 1)
    assert harness.job(job).epoch > 1


def test_an_agent_is_refused_while_another_one_speaks_for_its_node():
    harness = Harness()
    harness.join("a")
    harness.report("a")

    def register(**fields):
        offered = OfferedNode(node="a", type="v100", devices=("gpu0",), **fields)
        return harness.ask(lambda now: harness.requests.register(offered, now))

    first = register(identity="folder", instance="one")
    with pytest.raises(Refused, match="in use by another agent") as refused:
        register(identity="another folder", instance="two")
    assert refused.value.status == "ALREADY_EXISTS"
    with pytest.raises(Refused, match="in use by another agent"):
        register(identity="folder", instance="a copy of the folder")
    assert harness.registry.nodes["a"].joined.session == first
    assert register(identity="folder", instance="one") != first
    assert register(identity="folder", instance="three", replaces=("two", "one"))
    harness.clock.seconds += TIMING.dead_after_s + 1.0
    assert register(identity="another folder", instance="two")


def test_a_lost_node_can_be_removed_and_may_join_again():
    harness = Harness()
    harness.join("a")
    with pytest.raises(Refused, match="only a lost one can be removed"):
        harness.ask(lambda now: harness.requests.remove_node("a", "ops", now))
    with pytest.raises(Refused, match="there is no node 'b'; known: a"):
        harness.ask(lambda now: harness.requests.remove_node("b", "ops", now))
    until_lost(harness)

    harness.ask(lambda now: harness.requests.remove_node("a", "ops", now))
    assert harness.registry.nodes == {}
    assert harness.restarted().registry.nodes == {}
    harness.join("a")

    assert harness.commands("a") == {}
    assert not harness.registry.nodes["a"].lost


def test_failures_count_in_a_row_and_a_saved_step_ends_the_row():
    harness = Harness()
    job = harness.running(max_restarts=1)
    for step in (10, 20, 30, 40):
        harness.report("a", {job: runs(step=step, saved_step=step, saved_path=f"at-{step}")})
        harness.report("a", {job: ends("failed", exit_code=1)})
        harness.clock.seconds += 10.0
        harness.report("a")
        harness.round()
        assert harness.phase(job) is JobPhase.RUNNING

    harness.report("a", {job: ends("failed", exit_code=1)})

    assert harness.job(job).final_phase is JobPhase.FAILED
    assert harness.job(job).restarts == 5
    assert "2 failed attempts in a row without saving a step" in harness.job(job).reason


def test_a_node_that_registers_again_with_its_folder_keeps_its_jobs():
    harness = Harness()
    job = harness.running()

    harness.join("a")
    harness.report("a", {job: runs(step=5)})

    assert (harness.phase(job), harness.job(job).epoch) == (JobPhase.RUNNING, 1)


def test_a_task_that_an_agent_does_not_know_any_more_is_started_again():
    harness = Harness()
    job = harness.running()
    harness.agents["a"].tasks.clear()

    harness.report("a")

    assert harness.job(job).epoch == 2


def test_an_agent_that_has_not_seen_its_orders_yet_is_not_taken_for_one_that_lost_them():
    harness = Harness()
    harness.join("a")
    job = harness.submit()
    harness.round()
    before = harness.board.published["a"].version
    harness.want(**{f"j{job}": {"a": 1}})

    harness.report("a", acknowledged=before)

    assert (harness.phase(job), harness.job(job).epoch) == (JobPhase.RUNNING, 1)


def test_reports_of_old_epochs_old_sequences_and_old_sessions_change_nothing():
    harness = Harness()
    job = harness.running()
    harness.want()
    harness.report("a", {job: ends("stopped", saved_step=10)})
    harness.want(**{f"j{job}": {"a": 1}})
    harness.report("a", {job: runs(step=11, saved_step=10)})
    rows = len(harness.journal.rows)
    lie = {(job, 2): ends("completed", step=1000, saved_step=1000)}

    assert harness.report("a", {(job, 1): ends("completed", saved_step=1000)}) is True
    assert harness.ask(
        lambda now: harness.requests.report(_report(harness, lie, session="of another life"), now)
    ) is False  # fmt: skip
    assert harness.ask(lambda now: harness.requests.report(_report(harness, lie, sequence=1), now)) is True

    assert harness.names(rows) == []
    assert (harness.phase(job), harness.job(job).saved_step) == (JobPhase.RUNNING, 10)


def _report(harness, tasks, **changes):
    from rota.deploy.scheduler.heartbeats import AgentReport

    agent = harness.agents["a"]
    fields = {"node": "a", "session": agent.session, "sequence": agent.sequence + 1, "acknowledged": 0, "tasks": tasks}
    return AgentReport(**{**fields, **changes})


def test_nothing_starts_on_a_silent_server_and_its_leases_are_not_extended():
    harness = Harness()
    first = harness.running()
    until = harness.job(first).attempt.lease_until
    second = harness.submit()
    harness.round()
    harness.wait(TIMING.dead_after_s + 1.0)

    harness.want(**{f"j{first}": {"a": 1}, f"j{second}": {"a": 1}})

    assert harness.job(second).attempt is None
    assert harness.job(first).attempt.lease_until == until
    harness.report("a", {first: runs()})
    harness.want(**{f"j{first}": {"a": 1}, f"j{second}": {"a": 1}})
    assert harness.job(second).attempt is not None
    assert harness.job(first).attempt.lease_until >= until


def test_a_report_that_is_late_but_within_the_lease_loses_nothing():
    harness = Harness()
    job = harness.running()
    harness.wait(TIMING.dead_after_s + 10.0)
    assert not harness.registry.nodes["a"].lost

    assert harness.report("a", {job: runs(step=700, saved_step=700)}) is True

    assert (harness.phase(job), harness.job(job).saved_step) == (JobPhase.RUNNING, 700)


def test_a_report_after_the_end_of_the_lease_comes_too_late():
    harness = Harness()
    job = harness.running()
    until_lost(harness)

    assert harness.report("a", {(job, 1): ends("completed", saved_step=1000)}) is False

    assert (harness.phase(job), harness.job(job).saved_step) == (JobPhase.QUEUED, 0)


def test_a_drained_node_empties_and_comes_back():
    harness = Harness()
    job = harness.running()
    harness.ask(lambda now: harness.requests.drain("a", "ops", now, undo=False))
    harness.want()
    harness.report("a", {job: ends("stopped")})
    harness.want(**{f"j{job}": {"a": 1}})
    assert harness.job(job).attempt is None

    harness.ask(lambda now: harness.requests.drain("a", "ops", now, undo=True))

    assert harness.job(job).attempt is not None


def test_a_server_that_says_nonsense_about_itself_is_refused():
    harness = Harness()
    offered = OfferedNode(node="a", type="v100", devices=("gpu0",), cpus=float("nan"))

    with pytest.raises(Refused, match="node 'a': cpus is nan; give a number from 0 on"):
        harness.ask(lambda now: harness.requests.register(offered, now))


def test_nothing_is_kept_of_an_attempt_that_nobody_speaks_of():
    harness = Harness()
    job = harness.running()
    harness.report("a", {job: ends("completed", saved_step=1000)})
    harness.report("a")  # agents report an end until it is off their list

    harness.agents["a"].tasks.clear()
    harness.report("a")

    assert harness.heartbeats.live_step((job, 1)) == 0


# Gangs and partners


def a_gang(**fields):
    """A job with a rank on each of two servers."""
    harness = Harness()
    harness.join("a")
    harness.join("b")
    job = harness.submit(gpus=4, **fields)
    harness.round()
    harness.want(**{f"j{job}": {"a": 2, "b": 2}})
    harness.report("a", {job: runs()})
    harness.report("b", {job: runs()})
    return harness, job


def test_a_dead_rank_ends_the_whole_gang_without_asking():
    harness, job = a_gang()

    harness.report("a", {job: ends("killed", exit_code=137)})
    assert (harness.job(job).attempt.stop_reason, harness.commands("b")) == (StopReason.RANK_FAILED, {job: "kill"})
    assert harness.phase(job) is JobPhase.STOPPING
    harness.report("a")
    harness.report("b", {job: runs(step=2)})
    assert len(harness.of("AttemptStopping")) == 1  # saying it again stops nobody again

    harness.report("b", {job: ends("stopped")})
    (ended,) = harness.of("AttemptEnded")
    assert (ended["outcome"], ended["exit_code"]) == ("killed", 137)


def test_a_rank_that_stopped_by_itself_lets_the_others_stop_in_order_and_is_a_failure():
    harness, job = a_gang()

    harness.report("a", {job: ends("stopped")})
    assert (harness.job(job).attempt.stop_reason, harness.commands("b")) == (StopReason.RANK_STOPPED, {job: "stop"})

    harness.report("b", {job: ends("stopped")})
    (ended,) = harness.of("AttemptEnded")
    assert (ended["outcome"], ended["detail"]) == ("failed", "a rank ended: stopped")


def test_a_rank_that_is_done_waits_for_the_others():
    harness, job = a_gang()

    harness.report("a", {job: ends("completed", saved_step=1000)})
    assert harness.phase(job) is JobPhase.RUNNING

    harness.report("b", {job: ends("completed", saved_step=1000)})
    harness.round()
    assert harness.phase(job) is JobPhase.FINISHED


def test_a_rank_that_dies_while_the_gang_is_saving_turns_the_stop_into_a_kill():
    harness, job = a_gang()
    harness.want()
    assert harness.commands("b") == {job: "stop"}

    harness.report("a", {job: ends("killed", exit_code=137)})

    assert harness.commands("b") == {job: "kill"}
    assert [event["reason"] for event in harness.of("AttemptStopping")] == ["preempted", "rank-failed"]


@pytest.mark.parametrize(
    "text", ["{nonsense", "", "[]", "7", '{"op": 7}', "[" * 100_000, '{"op": "at", "begun": 1e400}']
)
def test_an_answer_of_a_gang_that_makes_no_sense_holds_up_nobody(text):
    harness, job = a_gang(emulated=False, argv=["train"])
    other = harness.submit(gpus=1)
    harness.round()
    harness.want()  # the gang has to stop
    harness.report("a", {job: runs(answers=((0, text), (10**9, '{"op": "at", "begun": 1}')))})

    harness.want(**{f"j{other}": {"b": 1}})

    assert harness.commands("b") == {job: "stop", other: "run"}


def test_the_rest_of_a_gang_is_killed_when_one_of_its_servers_is_lost():
    harness, job = a_gang()
    for _ in range(10):
        harness.clock.seconds += 4.0
        harness.report("b", {job: runs(step=2)})

    assert harness.registry.nodes["a"].lost
    assert harness.commands("b") == {job: "kill"}
    harness.report("b", {job: ends("stopped")})
    assert (harness.phase(job), harness.job(job).losses, harness.job(job).restarts) == (JobPhase.QUEUED, 1, 0)


def test_ranks_of_a_gang_are_numbered_over_its_servers():
    harness, _ = a_gang(ranks="gpu")

    (first,), (second,) = (harness.board.published[node].tasks for node in ("a", "b"))

    assert (first.first_rank, first.ranks, first.world_size) == (0, 2, 4)
    assert (second.first_rank, second.ranks, second.world_size) == (2, 2, 4)
    assert first.master_addr == second.master_addr == "a"


def test_partners_share_their_devices():
    harness = Harness()
    harness.join("a", gpus=2)
    first, second = harness.submit(), harness.submit()
    harness.round()

    harness.share(first, second, {"a": 1})

    devices = [harness.job(job).attempt.parts[0].devices for job in (first, second)]
    assert devices == [("gpu0",), ("gpu0",)]


def test_a_partner_does_not_join_one_that_is_leaving():
    harness = Harness()
    harness.join("a", gpus=1)
    first, second, third = harness.submit(), harness.submit(), harness.submit()
    harness.round()
    harness.want(**{f"j{first}": {"a": 1}})

    harness.share(second, third, {"a": 1})
    assert harness.job(first).attempt.stopping
    assert harness.job(second).attempt is harness.job(third).attempt is None

    harness.report("a", {first: ends("stopped")})
    assert harness.job(second).attempt.parts == harness.job(third).attempt.parts


def test_a_partner_takes_other_devices_than_those_of_one_that_was_asked_to_stop():
    harness = Harness()
    harness.join("a", gpus=2)
    first = harness.running(hung_after_s=3.0)
    second = harness.submit()
    for _ in range(5):
        harness.clock.seconds += 1.0
        harness.report("a", {first: runs(step=1)})
    harness.round()
    assert harness.job(first).attempt.stop_reason is StopReason.HUNG

    harness.share(first, second, {"a": 1})

    devices = [harness.job(job).attempt.parts[0].devices for job in (first, second)]
    assert devices == [("gpu0",), ("gpu1",)]


def test_a_partner_that_ends_leaves_the_other_running():
    harness = Harness()
    harness.join("a", gpus=1)
    first, second = harness.submit(), harness.submit()
    harness.round()
    harness.share(first, second, {"a": 1})

    harness.report("a", {first: ends("completed", saved_step=1000), second: runs()})
    harness.round()

    assert (harness.phase(first), harness.phase(second)) == (JobPhase.FINISHED, JobPhase.RUNNING)


# Cancelled at every phase


def unknown_to_the_engine(harness):
    return harness.submit()


def queued(harness):
    harness.join("a")
    job = harness.submit()
    harness.round()
    return job


def running(harness):
    return harness.running()


def being_stopped(harness):
    job = harness.running()
    harness.want()
    return job


def waiting(harness):
    job = harness.running()
    harness.report("a", {job: ends("failed")})
    return job


@pytest.mark.parametrize(
    ("bring_to", "phase", "events"),
    [
        (unknown_to_the_engine, JobPhase.QUEUED, ["CancelAsked"]),
        (queued, JobPhase.QUEUED, ["CancelAsked", "JobsDropped"]),
        (waiting, JobPhase.WAITING, ["CancelAsked", "JobsDropped"]),
        (running, JobPhase.RUNNING, ["CancelAsked", "AttemptStopping", "AttemptEnded", "JobsDropped"]),
        (being_stopped, JobPhase.STOPPING, ["CancelAsked", "AttemptEnded", "JobsDropped"]),
    ],
)
def test_a_job_can_be_cancelled_at_every_phase(bring_to, phase, events):
    harness = Harness()
    job = bring_to(harness)
    assert harness.phase(job) is phase
    rows = len(harness.journal.rows)

    assert harness.cancel(job) == ([job], [])
    if harness.job(job).attempt is not None:
        assert harness.commands("a") == {job: "stop"}
        harness.report("a", {job: ends("stopped")})
    harness.round()

    assert (harness.phase(job), harness.job(job).reason) == (JobPhase.CANCELLED, "cancelled by tester")
    assert harness.names(rows) == events
    assert harness.cancel(job) == ([], [job])


def test_a_job_that_has_completed_is_over_even_before_the_round_ends():
    harness = Harness()
    job = harness.running()
    harness.report("a", {job: ends("completed", saved_step=1000)})

    assert harness.cancel(job) == ([], [job])

    harness.round()
    assert harness.phase(job) is JobPhase.FINISHED


def test_a_cancelled_job_that_completes_first_stays_cancelled():
    harness = Harness()
    job = harness.running()
    harness.cancel(job)

    harness.report("a", {job: ends("completed", saved_step=1000)})
    harness.round()

    assert harness.phase(job) is JobPhase.CANCELLED


def test_a_cancelled_job_that_fails_while_it_stops_is_not_tried_again():
    harness = Harness()
    job = harness.running()
    harness.cancel(job)

    harness.report("a", {job: ends("failed", exit_code=1)})
    harness.round()

    assert (harness.phase(job), harness.job(job).restarts) == (JobPhase.CANCELLED, 0)
    assert harness.of("JobWaits") == []


def test_jobs_of_others_and_jobs_that_are_not_there_cannot_be_cancelled():
    harness = Harness()
    job = harness.submit(tenant="a")

    for number, tenant in ((job, "b"), (99, None)):
        with pytest.raises(Refused, match=f"there is no job {number}"):
            harness.ask(lambda now, n=number, t=tenant: harness.requests.cancel([n], "me", t, now))


# What must not happen


def test_an_impossible_event_ends_its_job_and_nobody_else():
    harness = Harness()
    job, other = harness.running(), harness.submit()
    attempt = harness.job(job).attempt
    again = AttemptStarted(
        at=1.0, job=job, epoch=2, parts=attempt.parts, resume="", resume_step=0, lease_until=9.0, rate=1.0
    )

    harness.recorder.apply([again])
    harness.loop.turn(0.0)

    assert harness.job(job).final_phase is JobPhase.FAILED
    assert "job 0 cannot go from running to running" in harness.job(job).reason
    assert "JobAccepted" in harness.job(job).reason  # its story
    assert "AttemptStarted" not in harness.names(len(harness.journal.rows) - 2)
    harness.report("a", {job: ends("stopped")})
    harness.round()
    assert (harness.phase(job), harness.phase(other)) == (JobPhase.FAILED, JobPhase.QUEUED)
    assert harness.restarted().registry == harness.registry


def test_an_end_that_the_engine_tells_too_early_fails_the_job_and_stops_what_runs():
    harness = Harness()
    job = harness.running()
    early = JobsFinished(at=1.0, jobs=np.array([job]), finished_at=np.array([1.0]))
    harness.recorder.commit_engine_event(early)
    harness.state.apply(early)

    harness.recorder.apply_engine_event(early)
    harness.loop.carry_out()

    assert (harness.phase(job), harness.commands("a")) == (JobPhase.FAILED, {job: "stop"})
    assert "JobsFinished was impossible" in harness.job(job).reason
    harness.report("a", {job: ends("stopped")})
    harness.round()
    assert harness.registry.running == harness.registry.live == {}
    assert harness.restarted().registry == harness.registry


def test_a_step_that_raises_is_logged_and_the_loop_goes_on(caplog):
    harness = Harness()
    job = harness.running()
    harness.loop.desired = lambda: 1 / 0

    harness.want()
    assert "reconciliation failed" in caplog.text

    harness.loop.desired = lambda: harness.desired
    harness.want()
    assert harness.phase(job) is JobPhase.STOPPING


def test_a_request_that_raises_is_answered_and_logged_with_what_it_was(caplog):
    harness = Harness()

    def broken(_):
        raise ZeroDivisionError("of a test")

    with pytest.raises(ZeroDivisionError, match="of a test"):
        harness.ask(broken)
    assert "request failed: test" in caplog.text
    assert harness.submit() == 0


def test_a_lost_server_is_not_removed_while_a_gang_has_a_part_there():
    """The rest of the gang still saves on another server; what is said about it needs both."""
    harness, job = a_gang(emulated=False, argv=["train"])
    harness.clock.seconds += TIMING.lease_s + ROUND_S + TIMING.dead_after_s
    for _ in range(3):
        harness.report("a")
        harness.wait(1.0)
    assert harness.registry.nodes["b"].lost
    assert harness.job(job).attempt is not None

    with pytest.raises(Refused, match=f"job {job} has a part on node 'b'"):
        harness.ask(lambda now: harness.requests.remove_node("b", "ops", now))
    harness.report("a", {job: ends("stopped")})
    harness.ask(lambda now: harness.requests.remove_node("b", "ops", now))

    assert "b" not in harness.registry.nodes
    harness.round()
    assert harness.restarted().registry == harness.registry


def test_an_attempt_with_a_part_on_a_server_that_is_gone_can_be_brought_to_its_end():
    """Journals of versions that removed it all the same can be read, and go on."""
    harness, job = a_gang(emulated=False, argv=["train"])
    del harness.registry.nodes["b"]
    harness.board.publish()

    harness.report("a", {job: ends("stopped")})

    (ended,) = harness.of("AttemptEnded")
    assert (ended["outcome"], ended["detail"]) == ("lost", "b was removed")
