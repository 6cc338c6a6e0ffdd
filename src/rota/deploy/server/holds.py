"""The call that holds jobs and releases them, between messages and the scheduler."""

from __future__ import annotations

from rota.deploy.scheduler.holding import HoldAnswer
from rota.deploy.scheduler.inbox import Work
from rota.deploy.scheduler.requests import Answer
from rota.deploy.scheduler.service import Scheduler
from rota.deploy.server.handlers import Caller
from rota.rpc import rota_pb2 as pb


def hold_work(scheduler: Scheduler, request: pb.HoldRequest, tenant: str | None, caller: Caller) -> tuple[str, Work]:
    """What the owner has to do, and its name; `tenant` is whose jobs the caller may see, None for all."""
    jobs = list(request.jobs)
    arrays = list(request.arrays)
    requests = scheduler.requests

    def work(now: float) -> Answer:
        if request.undo:
            return requests.release(jobs, arrays, caller.name, tenant, now)
        return requests.hold(jobs, arrays, caller.name, tenant, now, force=request.force)

    return f"{'Release' if request.undo else 'Hold'} of {jobs or arrays} by {caller.name}", work


def hold_reply(answer: HoldAnswer) -> pb.HoldReply:
    """The answer as a message."""
    return pb.HoldReply(changed=answer.changed, unchanged=answer.unchanged, over=answer.over)
