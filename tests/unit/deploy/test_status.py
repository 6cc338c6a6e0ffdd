"""Decisions that failed are counted, kept over a restart, and told."""

from types import SimpleNamespace

from harness import Harness

from deployed import PlayedAgent, a_scheduler, look, running_jobs, submit, until
from rota.cli.status import _failed_decisions, _jobs
from rota.core.errors import SolveError
from rota.core.events import SolveFailed
from rota.deploy.server.messages import job_counts, status_message
from rota.rpc import rota_pb2 as pb


class Stubborn:
    """A policy that gives no answer."""

    def allocate(self, _view):
        raise SolveError("no answer today")


def status(scheduler):
    me = SimpleNamespace(tenant="me", admin=True)
    return look(scheduler, lambda registry: status_message(scheduler, registry, job_counts(registry, None, {}), me))


def test_failed_decisions_are_told_by_the_status(tmp_path):
    scheduler = a_scheduler(tmp_path / "s.db")
    scheduler.start()
    try:
        agent = PlayedAgent(scheduler, "a")
        submit(scheduler, {"steps": 10**7})
        until(lambda: running_jobs(scheduler) == {0}, scheduler, [agent])
        assert status(scheduler).failed_decisions == 0

        scheduler._policy._policy = Stubborn()
        submit(scheduler, {"steps": 10**7})
        until(lambda: status(scheduler).failed_decisions, scheduler, [agent])

        told = status(scheduler)
        assert told.last_failed_decision == "no answer today"
        assert 0 < told.last_failed_decision_s <= told.now_s
        assert 0 in running_jobs(scheduler)  # goes on by the last good decision
    finally:
        scheduler.stop()
    again = a_scheduler(tmp_path / "s.db")
    again.journal.close()
    assert again.registry.failed_decisions.count >= told.failed_decisions
    assert again.registry.failed_decisions.last_reason == "no answer today"


def test_people_read_how_often_when_and_why():
    harness = Harness()
    harness.recorder.apply_engine_event(SolveFailed(at=40.0, reason="too hard"))
    harness.recorder.apply_engine_event(SolveFailed(at=50.0, reason="too late"))
    decisions = harness.registry.failed_decisions
    told = pb.StatusReply(
        now_s=65.0,
        failed_decisions=decisions.count,
        last_failed_decision_s=decisions.last_at,
        last_failed_decision=decisions.last_reason,
        running=1,
        queued=2,
        finished=3,
        failed=4,
    )

    shown = _failed_decisions(told)
    assert shown.startswith("2; the last good decision stays in force; the last 15")
    assert shown.endswith(": too late")
    assert _jobs(told) == "1 running, 2 queued, 3 finished, 4 failed"
