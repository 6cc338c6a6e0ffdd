"""Jobs of a trace as they are sent to a scheduler."""

import numpy as np
import pytest

from rota.core.errors import ConfigError
from rota.core.job_arrays import array_size
from rota.core.job_spec import JobSpec
from rota.core.jobs import requests, table
from rota.core.queue_columns import queue_columns
from rota.deploy.trace_arrays import without_limits
from rota.deploy.trace_runs import (
    TraceRun,
    check_tenants,
    elastic,
    specs_of,
    submit_all,
    tenants_of,
)
from rota.rpc import rota_pb2 as pb


def test_a_trace_with_durations_and_without_steps_is_refused_with_what_to_do():
    jobs = table(profile_names=["p", "p"], gpus=[1, 1], total_steps=[5.0, np.nan], submitted=[0.0, 1.0])

    with pytest.raises(ConfigError, match=r"job 1 of the trace .* no number of steps; `rota trace convert"):
        specs_of(jobs, None, "t")


def jobs(**columns):
    return table(
        profile_names=["A3C"] * 3, gpus=[2, 2, 2], total_steps=[10.0, 10.5, 11], submitted=[0, 1, 2], **columns
    )


def test_nothing_is_said_about_what_the_trace_does_not_say():
    (first, *_) = specs_of(jobs(), None, "t")

    assert first == JobSpec(name="t-0", profile="A3C", gpus=2, steps=10, emulated=True)


def test_one_named_tenant_makes_the_others_explicit():
    mixed = jobs(tenant_names=["default", "a", "default"])

    assert tenants_of(mixed) == ["a", "default"]
    assert [spec.tenant for spec in specs_of(mixed, None, "t")] == ["default", "a", "default"]
    assert {spec.tenant for spec in specs_of(mixed, None, "t", "b")} == {"b"}
    assert tenants_of(mixed.rows(0, 1)) == []


def test_unknown_requests_are_left_out():
    asked = requests(3, cpus=np.array([4.0, np.nan, 0.0]))

    specs = specs_of(jobs(requests=asked), None, "t")
    assert [spec.cpus for spec in specs] == [4.0, 0.0, 0.0]
    assert {spec.memory_gb for spec in specs} == {0.0}


def test_only_jobs_that_could_have_other_sizes_are_elastic():
    asked = requests(3, min_gpus=np.array([1.0, 2.0, np.nan]), max_gpus=np.array([2.0, 2.0, 8.0]))

    assert elastic(jobs(requests=asked)) == 2
    assert elastic(jobs()) == 0


def test_a_job_of_a_trace_says_where_it_may_run():
    given = jobs(allowed_types=[["a100"], ["!k80"], []], labels=[[], ["zone=a"], []])

    first, second, third = specs_of(given, None, "trace")

    assert first.types == ("a100",)
    assert second.exclude_types == ("k80",)
    assert second.labels == ("zone=a",)
    assert (third.types, third.exclude_types, third.labels) == ((), (), ())


def test_many_foreign_tenants_are_named_and_counted():
    caller = pb.StatusReply(tenant="me")

    with pytest.raises(ConfigError, match=r"'t0', 't1', 't2', 't3', 't4' and 2 more\. It submits for 'me' only"):
        check_tenants([f"t{i}" for i in range(7)], caller)

    check_tenants(["me"], caller)
    check_tenants(["t0"], pb.StatusReply(tenant="me", admin=True))


def submitted(run, first=0):
    client = Collector(first)
    submit_all(client, run, specs_of(run.jobs, None, "t"), 1e9, lambda _: None)
    return client.specs


def test_jobs_of_a_trace_come_after_each_other_by_the_numbers_that_they_got():
    queue = queue_columns(
        3, after=[(), ("0",), ("sweep", "1")], after_any=[(), (), ("gone",)], array=["sweep", "sweep", ""],
        array_limit=[1, 1, 0], time_limit_s=[np.inf, 90.0, np.inf],
    )  # fmt: skip
    specs = submitted(TraceRun(jobs=jobs(queue=queue)))

    assert [spec.time_limit_s for spec in specs] == [0.0, 90.0, 0.0]
    assert [spec.after for spec in specs] == [(), (-1,), (-1, -2)]
    assert without_limits(jobs(queue=queue)) == 2


def test_jobs_that_were_submitted_before_are_named_by_their_numbers():
    queue = queue_columns(3, after=[(), ("0",), ("0", "1")])

    specs = submitted(TraceRun(jobs=jobs(queue=queue), numbers=[70]), first=71)

    assert [spec.after for spec in specs] == [(70,), (70, -1)]


def five_jobs(**columns):
    queue = queue_columns(
        5, array=["", "s", "s", "s", ""], array_limit=[0, 2, 2, 2, 0], after=[(), ("0",), ("0",), ("0",), ("s",)]
    )
    common = {"profile_names": ["A3C"] * 5, "gpus": [1] * 5, "total_steps": [10.0] * 5, "submitted": [0, 1, 1, 1, 2]}
    return table(**{**common, **columns}, queue=queue)


def test_rows_that_are_alike_are_submitted_as_one_array_with_its_limit():
    trace = five_jobs()
    run = TraceRun(jobs=trace)

    specs = submitted(run)

    assert [spec.array for spec in specs] == ["", "0-2%2", ""]
    assert [spec.after for spec in specs] == [(), (-1,), (-2,)]
    assert run.numbers == [0, 1, 2, 3, 4]
    assert without_limits(trace) == 0


@pytest.mark.parametrize("columns", [{"gpus": [1, 1, 2, 1, 1]}, {"submitted": [0, 1, 1, 2, 2]}])
def test_rows_that_differ_are_submitted_one_by_one(columns):
    trace = five_jobs(**columns)

    assert [spec.array for spec in submitted(TraceRun(jobs=trace))] == [""] * 5
    assert without_limits(trace) == 3


class Collector:
    """Takes submissions."""

    def __init__(self, first=0):
        self.specs, self._next = [], first

    def submit(self, specs, _):
        self.specs += specs
        count = sum(array_size(spec.array) for spec in specs)
        numbers = list(range(self._next, self._next + count))
        self._next += count
        return numbers
