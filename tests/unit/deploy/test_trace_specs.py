"""Jobs of a trace as they are sent to a scheduler."""

import numpy as np
import pytest

from rota.core.errors import ConfigError
from rota.core.job_spec import JobSpec
from rota.core.jobs import requests, table
from rota.deploy.trace_runs import check_tenants, elastic, specs_of, tenants_of
from rota.rpc import rota_pb2 as pb


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
