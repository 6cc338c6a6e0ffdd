"""From a placement to what attempts should hold, and from that to what has to begin."""

import numpy as np
import pytest
from harness import Harness, desired, ends, runs

from builders import a_placement
from rota.core.cluster import Cluster, Resources, Server
from rota.deploy.scheduler.reconciliation import desired_attempts, reconcile

CLUSTER = Cluster(
    name="test",
    servers=(
        Server(id="a", type="v100", capacity=Resources(4, 8.0, 64.0, 0.0, 0.0), rack="r"),
        Server(id="b", type="v100", capacity=Resources(4, 16.0, 128.0, 0.0, 0.0), rack="r"),
    ),
    accelerators=(),
)


def test_a_job_holds_the_share_of_its_gpus_in_each_server():
    placement = a_placement((7, -1, 0, 3), servers=[[(0, 1), (1, 2)]])

    (want,) = desired_attempts(placement, CLUSTER, {7: 2.5}).values()

    assert want.gpus_by_node == (("b", 2), ("a", 1))  # the server with most of them has rank 0
    assert want.cpus == {"a": 2.0, "b": 8.0}
    assert want.memory_gb == {"a": 16.0, "b": 64.0}
    assert (want.partner, want.rate) == (-1, 2.5)


def test_what_the_mechanism_gave_is_divided_by_gpus():
    placement = a_placement((7, -1, 0, 3), servers=[[(0, 1), (1, 2)]])
    placement.cpus = np.array([6.0])
    placement.memory_gb = np.array([np.nan])

    (want,) = desired_attempts(placement, CLUSTER, {}).values()

    assert want.cpus == {"a": 2.0, "b": 4.0}
    assert want.memory_gb == {"a": 16.0, "b": 64.0}  # nobody said, so its share


def test_partners_hold_the_same_and_run_at_their_own_speeds():
    placement = a_placement((1, 2, 0, 1), servers=[[(0, 1)]])

    wants = desired_attempts(placement, CLUSTER, {1: 3.0, 2: 4.0})

    assert {job: (want.partner, want.rate) for job, want in wants.items()} == {1: (2, 3.0), 2: (1, 4.0)}
    assert wants[1].gpus_by_node == wants[2].gpus_by_node


def test_without_a_placement_nothing_is_wanted():
    assert desired_attempts(None, CLUSTER, {}) == {}


def kinds(events):
    return [(type(event).__name__, event.job) for event in events]


def test_asking_again_asks_for_nothing_more():
    harness = Harness()
    job = harness.running()

    assert reconcile(harness.registry, harness.desired, 1.0, 9.0) == []
    wanted = {job: desired({"a": 1}, rate=2.0)}
    assert kinds(reconcile(harness.registry, wanted, 1.0, 9.0)) == [("AttemptResized", job)]


@pytest.mark.parametrize(("wanted", "reason"), [({}, "preempted"), ({0: desired({"a": 2})}, "moved")])
def test_a_job_without_a_place_is_preempted_and_one_with_another_is_moved(wanted, reason):
    harness = Harness()
    harness.running()

    (stop,) = reconcile(harness.registry, wanted, 1.0, 9.0)

    assert stop.reason.value == reason


def test_jobs_start_in_the_order_of_their_numbers_as_far_as_devices_go():
    harness = Harness()
    harness.join("a", gpus=3)
    jobs = [harness.submit(gpus=2), harness.submit(gpus=2), harness.submit(gpus=1)]
    harness.round()

    events = reconcile(harness.registry, {job: desired({"a": harness.job(job).spec.gpus}) for job in jobs}, 1.0, 9.0)

    assert kinds(events) == [("AttemptStarted", jobs[0]), ("AttemptStarted", jobs[2])]
    assert [event.parts[0].devices for event in events] == [("gpu0", "gpu1"), ("gpu2",)]


# What the engine is told at the end of a round


def told(harness):
    rows = len(harness.journal.rows)
    harness.round()
    engine = (
        "JobsSubmitted",
        "ProgressMade",
        "JobsFinished",
        "JobsDropped",
        "JobsParked",
        "JobsReturned",
        "ClusterChanged",
    )
    return [row for row in harness.journal.rows[rows:] if row["event"] in engine]


def test_new_jobs_are_told_in_runs_of_their_numbers():
    harness = Harness()
    harness.join("a", gpus=2)
    harness.submit()
    harness.submit(gpus=4)  # no server that is up could hold it
    harness.submit()
    harness.submit()

    runs = [(row["first_id"], len(row["gpus"])) for row in told(harness)]

    assert runs == [(0, 1), (2, 2)]
    harness.join("b", gpus=4)
    assert [row["event"] for row in told(harness)] == ["ClusterChanged", "JobsSubmitted"]


def test_steps_are_told_once():
    harness = Harness()
    job = harness.running()
    harness.report("a", {job: ends("stopped", saved_step=40)})

    (progress,) = told(harness)

    assert (progress["event"], progress["jobs"], progress["steps"]) == ("ProgressMade", [job], [40.0])
    assert told(harness) == []
    harness.want(**{f"j{job}": {"a": 1}})
    harness.report("a", {job: runs(step=60, saved_step=60)})
    (more,) = told(harness)
    assert more["steps"] == [20.0]


def test_jobs_step_aside_when_their_server_goes_and_come_back_with_it():
    harness = Harness()
    job = harness.submit()
    harness.join("a")
    assert [row["event"] for row in told(harness)] == ["JobsSubmitted"]

    harness.ask(lambda now: harness.requests.drain("a", "ops", now, undo=False))
    assert [row["event"] for row in told(harness)] == ["JobsParked"]
    harness.ask(lambda now: harness.requests.drain("a", "ops", now, undo=True))
    assert [row["event"] for row in told(harness)] == ["JobsReturned"]

    assert not harness.job(job).parked


def test_the_end_of_a_job_that_stepped_aside_is_told_after_its_return():
    harness = Harness()
    job = harness.submit()
    harness.join("a")
    harness.round()
    harness.ask(lambda now: harness.requests.drain("a", "ops", now, undo=False))
    harness.round()
    harness.cancel(job)

    assert [row["event"] for row in told(harness)] == ["JobsReturned", "JobsDropped"]
    assert harness.job(job).reason == "cancelled by tester"
