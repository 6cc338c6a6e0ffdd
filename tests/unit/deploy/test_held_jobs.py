"""Jobs that somebody holds: they do not start, and those that run save and stop until they are released."""

import pytest
from engine_harness import EngineHarness
from harness import Harness, ends, runs

from rota.core.job_spec import spec_from
from rota.core.lifecycle import JobPhase, TaskCommand
from rota.deploy.scheduler.reasons import ReasonCode, Reasons, cluster_as_it_is
from rota.deploy.scheduler.requests import Refused
from rota.deploy.scheduler.tenant_limits import TenantLimits
from rota.deploy.tenants import Tenants, TenantSettings

MODEL = "ResNet-18 (batch size 32)"
PARTS = {"policy": "las", "mechanism": "proportional", "profiles": "gavel"}


def a_cluster(*jobs, gpus=4):
    harness = EngineHarness(**PARTS)
    harness.join("a", gpus)
    for fields in jobs:
        harness.submit(profile=MODEL, **fields)
    harness.round()
    return harness


def hold(harness, *numbers, arrays=(), tenant=None, force=False):
    return harness.ask(lambda now: harness.requests.hold(numbers, arrays, "me", tenant, now, force=force))


def release(harness, *numbers, arrays=(), tenant=None):
    return harness.ask(lambda now: harness.requests.release(numbers, arrays, "me", tenant, now))


def running(harness):
    return set(harness.registry.running)


def explained(harness, number):
    cluster = cluster_as_it_is(harness.registry, harness.clock.now())
    return Reasons(cluster, harness.catalogue, registry=harness.registry).explain(harness.job(number))


def test_a_job_that_is_submitted_held_starts_when_it_is_released():
    harness = a_cluster({"hold": True}, {})
    assert running(harness) == {1}
    assert explained(harness, 0).code is ReasonCode.HELD
    assert explained(harness, 0).phase is JobPhase.WAITING

    release(harness, 0)
    harness.round()

    assert running(harness) == {0, 1}


def test_a_running_job_that_is_held_stops_in_order_and_goes_on_from_its_checkpoint():
    harness = a_cluster({})
    harness.obey("a", saved=400)

    hold(harness, 0)
    (order,) = harness.board.published["a"].tasks
    assert order.command is TaskCommand.STOP
    assert harness.job(0).attempt.stop_reason.value == "held"
    harness.obey("a", saved=450)
    for _ in range(3):
        harness.round()
    assert not running(harness)

    release(harness, 0)
    harness.round()
    assert harness.job(0).attempt.resume_step == 450
    assert harness.job(0).restarts == 0


def test_other_jobs_get_the_gpus_of_one_that_is_held():
    harness = a_cluster({"gpus": 4}, {"gpus": 4})
    (first,) = running(harness)

    hold(harness, first)
    harness.round()
    harness.round()

    assert running(harness) == {1 - first}


def test_a_running_job_that_cannot_save_is_only_held_by_force():
    harness = a_cluster()
    harness.submit(emulated=False, argv=["train"], profile=MODEL)
    harness.round()

    with pytest.raises(Refused, match=r"no job was held: job 0 runs and could not go on .* with --force"):
        hold(harness, 0)
    assert running(harness) == {0}
    hold(harness, 0, force=True)
    assert harness.job(0).attempt.stopping


def test_a_job_that_is_done_while_it_is_being_held_is_finished():
    harness = a_cluster({})
    hold(harness, 0)

    harness.report("a", {0: ends("completed", step=1000, saved_step=1000)})
    harness.round()

    assert harness.phase(0) is JobPhase.FINISHED


def test_a_held_job_can_be_cancelled():
    harness = a_cluster({"hold": True})

    harness.cancel(0)

    assert harness.phase(0) is JobPhase.CANCELLED
    assert hold(harness, 0).over == (0,)


def test_holding_twice_and_releasing_what_is_not_held_change_nothing():
    harness = a_cluster({}, {"hold": True})
    rows = len(harness.journal.rows)

    assert hold(harness, 1).unchanged == (1,)
    assert release(harness, 0).unchanged == (0,)
    assert len(harness.journal.rows) == rows


def test_an_array_is_held_and_released_as_a_whole():
    harness = a_cluster({"array": "0-3"})

    assert hold(harness, arrays=[2]).changed == (0, 1, 2, 3)
    harness.round()
    harness.round()
    assert not running(harness)
    assert release(harness, arrays=[0]).changed == (0, 1, 2, 3)


def test_what_an_administrator_holds_its_owner_cannot_release():
    harness = Harness()
    harness.submit(tenant="mine")
    hold(harness, 0)

    with pytest.raises(Refused, match="job 0 is held by me; ask an administrator"):
        release(harness, 0, tenant="mine")
    assert release(harness, 0).changed == (0,)
    hold(harness, 0, tenant="mine")
    assert release(harness, 0, tenant="mine").changed == (0,)


@pytest.mark.parametrize("work", [hold, release])
def test_jobs_of_another_tenant_do_not_exist(work):
    harness = Harness()
    harness.submit(tenant="theirs")

    for number in (0, 5):
        with pytest.raises(Refused, match=f"^there is no job {number}$"):
            work(harness, number, tenant="mine")
        with pytest.raises(Refused, match=f"^there is no job {number}$"):
            work(harness, arrays=[number], tenant="mine")


def test_a_restarted_scheduler_holds_what_was_held_and_stops_what_still_runs():
    harness = a_cluster({}, {"hold": True})
    harness.silent.add("a")
    hold(harness, 0)

    again = harness.restarted()
    again.silent.clear()
    again.round()
    again.round()

    assert not running(again)
    assert again.job(0).held_by == "me"
    assert explained(again, 1).code is ReasonCode.HELD


def test_held_jobs_take_no_place_of_others_of_their_tenant():
    harness = a_cluster({"hold": True}, {})
    limits = TenantLimits(Tenants(default=TenantSettings(max_running=1)))
    harness.registry.running.clear()
    job = harness.job(1)
    job.attempt = None
    holds = harness.report_to_engine
    holds._limits = limits

    held = holds.held_back(harness.recovered.state.cluster, harness.clock.now())

    assert 1 not in held
    assert held[0].value == "held"


def test_a_job_of_an_array_that_is_held_lets_the_next_one_run():
    harness = a_cluster()
    spec = spec_from({"steps": 1000, "profile": MODEL, "emulated": True, "array": "0-3%1"})
    harness.ask(lambda now: harness.requests.submit([spec], "me", "", now))
    hold(harness, 0)
    harness.round()
    assert running(harness) == {1}

    harness.report("a", {1: runs(step=5)})
    release(harness, 0)
    harness.round()
    assert running(harness) == {1}
