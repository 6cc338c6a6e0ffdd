"""Between the values of the scheduler and messages."""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Mapping

from rota._version import __version__
from rota.client.stalls import NOTHING_SPENT, StallTimes
from rota.core.job_arrays import array_indices
from rota.core.job_spec import with_hidden_values
from rota.core.lifecycle import JobPhase, TaskPhase, outcome_named
from rota.deploy.events import Part
from rota.deploy.scheduler.clock import WallClock
from rota.deploy.scheduler.heartbeats import AgentReport, Heartbeats, ResourceUse, TaskReport
from rota.deploy.scheduler.order_board import NodeOrders, TaskOrder
from rota.deploy.scheduler.preemption import restart_cost_s
from rota.deploy.scheduler.reasons import Explanation, shown_phase
from rota.deploy.scheduler.records import AttemptRecord, Job
from rota.deploy.scheduler.registry import Registry
from rota.deploy.scheduler.requests import OfferedNode
from rota.deploy.scheduler.service import Scheduler
from rota.deploy.scheduler.speed_estimates import speed_remarks
from rota.deploy.scheduler.time_limits import near_words, ran_s
from rota.deploy.security.audit import harmless
from rota.deploy.server.handlers import Caller
from rota.rpc import rota_pb2 as pb
from rota.rpc.convert import spec_message

# From agents


def offered_node(message: pb.RegisterRequest) -> OfferedNode:
    """A server that registers."""
    return OfferedNode(
        node=message.node,
        type=message.type,
        devices=tuple(device.id for device in message.devices),
        cpus=message.cpus,
        memory_gb=message.memory_gb,
        storage_mbps=message.storage_mbps,
        network_gbps=message.network_gbps,
        rack=message.rack,
        host=message.host,
        emulated=message.emulated,
        limits=message.limits,
        device_memory_mib=min((device.memory_mib for device in message.devices), default=0.0),
        identity=message.identity,
        instance=message.instance,
        replaces=tuple(message.replaces),
        place=harmless(message.place),
        labels=tuple(message.labels),
    )


def agent_report(message: pb.Observed) -> AgentReport:
    """What an agent says it runs."""
    return AgentReport(
        node=message.node,
        session=message.session,
        sequence=message.sequence,
        acknowledged=message.seen,
        tasks={(task.job, task.epoch): _task_report(task) for task in message.tasks},
        lateness_s=message.lateness_s,
        trouble=message.trouble,
        leaving=message.leaving,
    )


_TASK_PHASES = {phase.value: phase for phase in TaskPhase}


def _task_report(message: pb.TaskState) -> TaskReport:
    phase = _TASK_PHASES.get(message.phase, TaskPhase.RUNNING)
    outcome = None
    detail = message.detail
    if phase is TaskPhase.ENDED:
        outcome, detail = outcome_named(message.outcome, message.detail)
    return TaskReport(
        phase=phase,
        step=message.step,
        saved_step=message.saved_step,
        saved_path=message.saved_path,
        outcome=outcome,
        exit_code=message.exit_code,
        detail=detail,
        answers=tuple((answer.rank, answer.json) for answer in message.answers),
        can_save=message.can_save,
        saving=message.saving,
        save_progress=message.save_progress,
        save_s=_seconds(message.save_s),
        start_s=_seconds(message.start_s),
        step_at_s=_seconds(message.step_at_s),
        spent=StallTimes(_seconds(message.compute_s), _seconds(message.prepare_s), _seconds(message.storage_s)),
        used=ResourceUse(cpu_s=_seconds(message.cpu_used_s), memory_gb=_seconds(message.memory_used_gb)),
    )


def _seconds(value: float) -> float:
    """A duration or another amount that an agent measured; 0 (not known) if it cannot be one."""
    return value if math.isfinite(value) and value > 0 else 0.0


# To agents


def desired_message(orders: NodeOrders, clock: WallClock) -> pb.Desired:
    """All that one agent should do, written now."""
    now = clock.now()
    heard_ago_s = time.monotonic() - orders.last_report_at if orders.last_report else 0.0
    return pb.Desired(
        version=orders.version,
        tasks=[_order_message(order, clock, now) for order in orders.tasks],
        heard=orders.last_report,
        heard_ago_s=heard_ago_s,
    )


def _order_message(order: TaskOrder, clock: WallClock, now: float) -> pb.TaskOrder:
    return pb.TaskOrder(
        job=order.job,
        epoch=order.epoch,
        state=order.command.value,
        lease_s=clock.wall_seconds(order.lease_until - now),
        devices=order.devices,
        cpus=order.cpus,
        memory_gb=order.memory_gb,
        first_rank=order.first_rank,
        ranks=order.ranks,
        world_size=order.world_size,
        master_addr=order.master_addr,
        master_port=order.master_port,
        resume=order.resume,
        resume_step=order.resume_step,
        spec=spec_message(order.spec),
        rate=order.rate * clock.scale,
        messages=[pb.GangMessage(id=message.id, rank=message.rank, json=message.json) for message in order.messages],
        grace_s=order.grace_s,
        job_over=order.job_over,
        time_left_s=clock.wall_seconds(order.time_left_s),
        array=order.array if order.array >= 0 else None,
    )


# To users


def job_message(
    job: Job,
    clock: WallClock,
    explanation: Explanation,
    live_step: int = 0,
    live_spent: StallTimes | None = None,
    speed_remark: str = "",
) -> pb.JobInfo:
    """A job; `live_step` is the last one that was heard of, saved or not, `live_spent` the time of this attempt."""
    spent = live_spent or NOTHING_SPENT
    return pb.JobInfo(
        job=job.id,
        spec=spec_message(with_hidden_values(job.spec)),
        phase=explanation.phase.value,
        reason=explanation.reason,
        submitted_at=clock.wall_time(job.submitted),
        started_at=clock.wall_time(job.started) if job.started >= 0 else 0.0,
        ended_at=clock.wall_time(job.ended) if job.ended >= 0 else 0.0,
        step=max(live_step, job.counted_steps),
        saved_step=job.counted_steps,
        restarts=job.restarts,
        preemptions=job.preemptions,
        epoch=job.epoch,
        parts=[] if job.attempt is None else [_part_message(part) for part in job.attempt.parts],
        exit_code=job.exit_code,
        submitted_s=job.submitted,
        ended_s=max(job.ended, 0.0),
        reason_code=explanation.code.value,
        can_save=job.can_save,
        can_save_why=job.can_save_why,
        thrown_back=job.thrown_back,
        thrown_back_to_zero=job.thrown_back_to_zero,
        lost_steps=job.lost_steps,
        lost_s=job.lost_s,
        longest_save_s=job.longest_save_s,
        restart_cost_s=restart_cost_s(job),
        warning=job.warning or near_words(job, clock.now()),
        last_cut=job.last_cut,
        compute_s=job.compute_s + spent.compute_s,
        prepare_s=job.prepare_s + spent.prepare_s,
        storage_s=job.storage_s + spent.storage_s,
        held_by=job.held_by,
        ran_s=ran_s(job, clock.now()),
        array=job.array if job.array >= 0 else None,
        array_index=array_indices(job.spec.array).index(job.id - job.array) if job.array >= 0 else 0,
        speed_remark=speed_remark,
    )


def attempt_message(record: AttemptRecord, clock: WallClock, last: int) -> pb.LogAttempt:
    """An attempt; `last` is the number of the job's last one."""
    return pb.LogAttempt(
        attempt=record.epoch,
        places=[pb.LogPlace(node=p.node, first_rank=p.first_rank, ranks=p.ranks) for p in record.places],
        started_at=clock.wall_time(record.started),
        ended_at=clock.wall_time(record.ended) if record.outcome else 0.0,
        outcome=record.outcome,
        exit_code=record.exit_code,
        detail=record.detail,
        last=last,
        stop_reason=record.stop_reason,
    )


def _part_message(part: Part) -> pb.Part:
    return pb.Part(node=part.node, devices=part.devices, cpus=part.cpus, memory_gb=part.memory_gb)


def node_message(
    registry: Registry, heartbeats: Heartbeats, name: str, remark: str = "", tenant: str | None = None
) -> pb.NodeInfo:
    """A server, as it is now; with a tenant, of the jobs there only its own are named."""
    node = registry.nodes[name]
    joined = node.joined
    attempts = registry.attempts_on(name)
    parts = [part for _, attempt in attempts for part in attempt.parts if part.node == name]
    return pb.NodeInfo(
        node=name,
        type=joined.type,
        gpus=len(joined.devices),
        busy=len({device for part in parts for device in part.devices}),
        cpus=joined.cpus,
        memory_gb=joined.memory_gb,
        storage_mbps=joined.storage_mbps,
        state=node.state(busy=bool(attempts)).value,
        last_seen_s=heartbeats.silent_s(name),
        jobs=sorted(job.id for job, _ in attempts if tenant in (None, job.tenant)),
        emulated=joined.emulated,
        limits=joined.limits,
        lateness_s=heartbeats.of(name).lateness_s,
        host=joined.host,
        remark=remark,
        labels=joined.labels,
    )


def job_counts(registry: Registry, tenant: str | None, archived: Mapping[str, int]) -> Counter[str]:
    """Jobs by phase, and those that left memory as `archived`; with a tenant, only its own.

    `archived` has the tenant's jobs that left memory, by phase; of all jobs the registry knows it by itself.
    """
    live = len(registry.live) if tenant is None else registry.live_by_tenant[tenant]
    decided = [job for job in registry.live.values() if job.final_phase is not None and job.attempt is None]
    running = [job for job in registry.running.values() if tenant in (None, job.tenant)]
    ending = Counter(shown_phase(job).value for job in decided if tenant in (None, job.tenant))
    if tenant is None:
        over = Counter({phase.value: count for phase, count in registry.counts.items()})
    else:
        over = Counter(job.phase.value for job in registry.ended.values() if job.tenant == tenant) + Counter(archived)
    counts = over + ending
    counts["archived"] = registry.archived if tenant is None else sum(archived.values())
    counts[JobPhase.RUNNING.value] = len(running)
    counts[JobPhase.QUEUED.value] = live - len(running) - ending.total()
    return counts


def status_message(
    scheduler: Scheduler, registry: Registry, counts: Mapping[str, int], caller: Caller
) -> pb.StatusReply:
    """The scheduler itself, with as many jobs as the caller may know of."""
    failed = registry.failed_decisions
    clock_set = registry.last_clock_set
    return pb.StatusReply(
        version=__version__,
        now_s=scheduler.clock.now(),
        time_scale=scheduler.options.time_scale,
        round_s=scheduler.rules.round_s,
        policy=scheduler.options.policy,
        mechanism=scheduler.mechanism_name,
        rounds=int(scheduler.round_start / scheduler.rules.round_s),
        queued=counts[JobPhase.QUEUED.value],
        running=counts[JobPhase.RUNNING.value],
        finished=counts[JobPhase.FINISHED.value],
        failed=counts[JobPhase.FAILED.value],
        cancelled=counts[JobPhase.CANCELLED.value],
        archived=counts["archived"],
        events=scheduler.journal.last,
        events_removed=scheduler.journal.removed[0],
        rounds_removed=scheduler.journal.removed[1],
        last_decision_s=scheduler.decided_s,
        late_solves=scheduler.late_solves,
        failed_decisions=failed.count,
        last_failed_decision_s=failed.last_at,
        # Words of a policy or a solver may be about anybody's jobs.
        last_failed_decision=failed.last_reason if caller.admin else "",
        tenant=caller.tenant,
        admin=caller.admin,
        clock_sets=registry.clock_sets,
        last_clock_set_s=0.0 if clock_set is None else clock_set.at,
        last_clock_set_by_s=0.0 if clock_set is None else clock_set.by_s,
        decisions=[
            pb.Decision(at_s=decision.at, decided_s=decision.decided_s, solve_s=decision.solve_s)
            for decision in scheduler.decisions
        ],
        speed_remarks=speed_remarks(registry.jobs.values(), None if caller.admin else caller.tenant),
    )
