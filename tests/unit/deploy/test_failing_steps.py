"""Whatever raises an exception inside a running scheduler, it goes on, and the next job finishes."""

import contextlib
import time

import pytest

from deployed import PlayedAgent, a_scheduler, ask, jobs_of, submit, until

STEPS = [
    "rota.deploy.scheduler.requests.events_of_report",
    "rota.deploy.scheduler.requests.Requests.report",
    "rota.deploy.scheduler.requests.Requests.submit",
    "rota.deploy.scheduler.requests.Requests.cancel",
    "rota.deploy.scheduler.requests.Requests.register",
    "rota.deploy.scheduler.requests.Requests.audit",
    "rota.deploy.scheduler.control_loop.reconcile",
    "rota.deploy.scheduler.control_loop.waits_for_secrets",
    "rota.deploy.scheduler.control_loop.extension",
    "rota.deploy.scheduler.control_loop.saving_attempts",
    "rota.deploy.scheduler.control_loop.jobs_to_archive",
    "rota.deploy.scheduler.failure_detection.FailureDetector.lost_nodes",
    "rota.deploy.scheduler.failure_detection.FailureDetector.hung_attempts",
    "rota.deploy.scheduler.failure_detection.FailureDetector.silent_nodes",
    "rota.deploy.scheduler.order_board.OrderBoard.publish",
    "rota.deploy.scheduler.gang_stops.GangStops.advance",
    "rota.deploy.scheduler.secrets.SecretStore.let_go",
    "rota.deploy.scheduler.secrets.SecretStore.missing",
    "rota.deploy.scheduler.housekeeping.Housekeeping.step",
    "rota.deploy.scheduler.round_report.RoundReport.events",
    "rota.deploy.scheduler.round_report.RoundReport._aside",
    "rota.deploy.scheduler.tenant_limits.TenantLimits.held_back",
    "rota.deploy.scheduler.world.make_tasks",
    "rota.deploy.scheduler.world.desired_attempts",
    "rota.deploy.scheduler.clock.WallClock.wall_was_set",
    "rota.deploy.scheduler.checkpoint_usage.CheckpointUsage.count",
    "rota.deploy.scheduler.checkpoint_removal.CheckpointRemoval.sweep",
]
FAILING_S = 0.3
"""Three rounds."""


@pytest.fixture(scope="module")
def running(tmp_path_factory):
    folder = tmp_path_factory.mktemp("failing")
    scheduler = a_scheduler(folder / "s.db", checkpoints=str(folder / "checkpoints"))
    scheduler.start()
    yield scheduler, PlayedAgent(scheduler, "a")
    scheduler.stop()


def broken(*_args, **_kwargs):
    raise ZeroDivisionError("of a test")


@pytest.mark.parametrize("step", STEPS)
def test_an_exception_in_any_step_ends_nothing_and_the_next_job_finishes(running, monkeypatch, step):
    scheduler, agent = running
    with monkeypatch.context() as patch:
        patch.setattr(step, broken)
        end = time.monotonic() + FAILING_S
        while time.monotonic() < end:
            for request in (
                lambda: agent.report(scheduler),
                lambda: submit(scheduler, {"steps": 10}),
                lambda: ask(scheduler, lambda now: scheduler.requests.cancel([0], "x", None, now)),
                lambda: ask(scheduler, lambda now: scheduler.requests.audit("x", "y", 1, now)),
            ):
                with contextlib.suppress(ZeroDivisionError):
                    request()
            time.sleep(0.02)
        assert scheduler.failure is None
        assert scheduler.alive()

    (job,) = submit(scheduler, {"steps": 10})
    until(lambda: jobs_of(scheduler)[job].phase.value == "finished", scheduler, [agent])
