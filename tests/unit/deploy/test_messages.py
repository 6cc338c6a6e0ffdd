"""What agents are told and what they say, as messages."""

from rota.core.job_spec import FIELDS, JobSpec, Preemptible, RankLayout, default_of
from rota.core.lifecycle import AttemptOutcome, TaskCommand, TaskPhase
from rota.deploy.agent.main import identity_of
from rota.deploy.agent.tasks import command_of
from rota.deploy.scheduler.clock import WallClock
from rota.deploy.scheduler.gang_stops import GangMessage
from rota.deploy.scheduler.order_board import NodeOrders, TaskOrder
from rota.deploy.server.messages import agent_report, desired_message
from rota.rpc import rota_pb2 as pb
from rota.rpc.convert import spec_of

FULL = JobSpec(
    name="n", tenant="t", profile="p", gpus=2, steps=9, weight=2.5, deadline_s=7.0, argv=("a", "b c"), env={"A": "1"},
    cwd="/srv", image="host", emulated=True, max_restarts=0, checkpoint_every_s=3.0, hung_after_s=4.0, model="m",
    batch=8, cpus=1.5, memory_gb=2.5, ranks=RankLayout.GPU, mps=True,
    preemptible=Preemptible.NO, least_turn_s=5.0, save_grace_s=6.0,
    array="0-3%2", after=(3,), after_any=(4,), hold=True, time_limit_s=8.0,
    types=("v100",), exclude_types=("k80",), labels=("zone=a",), priority=3,
)  # fmt: skip


def an_order(**changes):
    fields = {
        "job": 1, "epoch": 2, "command": TaskCommand.RUN, "lease_until": 100.0, "devices": ("gpu0",), "cpus": 1.0,
        "memory_gb": 2.0, "first_rank": 0, "ranks": 1, "world_size": 1, "master_addr": "a", "master_port": 29500,
        "resume": "", "resume_step": 0, "rate": 0.5, "messages": (GangMessage(7, 0, "{}"),), "spec": FULL, **changes,
    }  # fmt: skip
    return TaskOrder(**fields)


def told(*orders, scale=2.0):
    orders_of_node = NodeOrders(version=3, session="s", lost=False, tasks=orders)
    return pb.Desired.FromString(desired_message(orders_of_node, WallClock(scale=scale)).SerializeToString())


def test_every_field_of_a_job_reaches_the_agent():
    assert all(getattr(FULL, name) != default_of(name) for name in FIELDS)

    (order,) = told(an_order()).tasks

    assert spec_of(order.spec) == FULL


def test_times_and_speeds_are_those_of_the_wall():
    (order,) = told(an_order()).tasks

    assert 49.0 < order.lease_s <= 50.0
    assert order.rate == 1.0
    assert (order.messages[0].id, command_of(order)) == (7, TaskCommand.RUN)


def test_a_command_that_an_agent_does_not_know_is_no_permission_to_run():
    assert command_of(pb.TaskOrder(state="dance")) is TaskCommand.STOP


def test_what_an_agent_says_in_words_that_nobody_knows_is_kept_for_people():
    ended = pb.TaskState(job=1, epoch=1, phase="ended", outcome="melted", detail="too hot")
    odd = pb.TaskState(job=2, epoch=1, phase="dancing", outcome="melted")

    tasks = agent_report(pb.Observed(node="a", tasks=[ended, odd])).tasks

    assert (tasks[1, 1].outcome, tasks[1, 1].detail) == (AttemptOutcome.FAILED, "melted: too hot")
    assert (tasks[2, 1].phase, tasks[2, 1].outcome) == (TaskPhase.RUNNING, None)


def test_an_agent_keeps_the_identity_that_it_had_under_the_old_name(tmp_path):
    (tmp_path / "memory").write_text("made long ago")

    assert identity_of(tmp_path) == "made long ago"
    assert identity_of(tmp_path) == "made long ago"
    assert len(identity_of(_folder(tmp_path))) == 32


def _folder(tmp_path):
    new = tmp_path / "new"
    new.mkdir()
    return new
