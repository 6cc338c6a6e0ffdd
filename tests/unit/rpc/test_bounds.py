"""Bounds on requests: what is too long, too many, or no number is refused by name."""

import math
import time

import pytest

from rota.core.errors import ConfigError
from rota.rpc import bounds
from rota.rpc import rota_pb2 as pb


def submission(**fields):
    return pb.SubmitRequest(jobs=[pb.JobSpec(**fields)])


@pytest.mark.parametrize(
    ("message", "says"),
    [
        (submission(name="n" * 257), "jobs[0].name is longer than 256 bytes"),
        (submission(name="\u00e9" * 129), "jobs[0].name is longer than 256 bytes"),
        (submission(name="red\x1b[31m"), "jobs[0].name is 'red\\x1b[31m'; it may not have control characters in it"),
        (submission(profile="p" * 15_000_000), "jobs[0].profile is longer than 256 bytes"),
        (submission(weight=math.nan), "jobs[0].weight is nan; give a finite number"),
        (submission(argv=["w"] * 5000), "jobs[0].argv has 5,000 entries; at most 4,096"),
        (submission(argv=["w" * 200_000]), "jobs[0].argv[0] is longer than 131,071 bytes"),
        (submission(argv=["w" * 100_000] * 6), "jobs[0] has 600,024 bytes in all; at most 524,288"),
        (submission(env={"KEY": "v" * 200_000}), "jobs[0].env of KEY is longer than 131,071 bytes"),
        (submission(env={"A\nB": "v"}), "jobs[0].env is 'A\\nB'; it may not have control characters"),
        (pb.SubmitRequest(jobs=[pb.JobSpec()] * 10_001), "jobs has 10,001 entries; at most 10,000"),
        (pb.CancelRequest(jobs=[7] * 10_001), "jobs has 10,001 entries"),
        (pb.ListJobsRequest(jobs=range(10_001)), "jobs has 10,001 entries"),
        (pb.RegisterRequest(node="a", memory_gb=math.inf), "memory_gb is inf"),
        (pb.RegisterRequest(node="a", devices=[pb.Device(memory_mib=math.nan)]), "devices[0].memory_mib is nan"),
        (pb.Observed(tasks=[pb.TaskState(save_s=-math.inf)]), "tasks[0].save_s is -inf"),
        (pb.LogsRequest(since=math.nan), "since is nan"),
        (pb.DrainRequest(node="n" * 300), "node is longer than 256 bytes"),
    ],
)
def test_what_is_out_of_bounds_is_refused_by_name(message, says):
    with pytest.raises(ConfigError) as refused:
        bounds.check(message)

    assert says in str(refused.value)
    assert len(str(refused.value)) < 200


def test_what_people_send_is_within_bounds():
    job = pb.JobSpec(
        name="r\u00e9sum\u00e9 \u6df1\u5ea6", argv=["python", "-c", "print()\n" * 1000], env={"KEY": "a\nb" * 1000}
    )
    bounds.check(pb.SubmitRequest(jobs=[job] * 2000, request="sweep"))
    bounds.check(pb.CancelRequest(jobs=range(10_000)))
    bounds.check(pb.RegisterRequest(node="a", devices=[pb.Device(id=f"gpu{i}", memory_mib=1e5) for i in range(16)]))
    bounds.check(pb.Empty())


def test_the_work_is_linear_in_the_size():
    def cost_s(jobs):
        message = pb.SubmitRequest(jobs=[pb.JobSpec(name="x", argv=["a", "b"], env={"A": "1"}, gpus=1)] * jobs)
        began = time.process_time()
        bounds.check(message)
        return time.process_time() - began

    assert cost_s(8000) < 20 * max(cost_s(1000), 1e-3)


def test_every_bound_is_about_a_field_that_exists():
    known = {
        f"{message.name}.{field.name}"
        for kind in pb.DESCRIPTOR.message_types_by_name.values()
        for message in (kind, *kind.nested_types)
        for field in message.fields
    }

    assert set(bounds._BOUNDS) <= known
