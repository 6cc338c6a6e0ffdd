"""A promise counts more than the wish of a borrower not to be preempted; as little as possible is taken back."""

import pytest
from engine_harness import EngineHarness

from rota.core.lifecycle import StopReason
from rota.deploy.tenants import Tenants, TenantSettings

TENANTS = Tenants(
    named={
        "vision": TenantSettings(quota={"v100": 4}),
        "speech": TenantSettings(quota={"v100": 2}, borrow=2),
        "any": TenantSettings(quota=2),
    }
)
"""`guest` has no quota."""


def a_cluster(*servers, policy="fifo", mechanism="proportional"):
    harness = EngineHarness(policy=policy, mechanism=mechanism, tenants=TENANTS)
    for name in servers:
        harness.join(name, gpus=4, cpus=16.0, memory_gb=256.0)
    return harness


def submit(harness, tenant, gpus=1, preemptible="no", **fields):
    return harness.submit(profile="res18", tenant=tenant, gpus=gpus, preemptible=preemptible, steps=10**9, **fields)


def rounds(harness, count=3):
    for _ in range(count):
        harness.round()


def running(harness, *numbers):
    """Those of some jobs that run and were not asked to stop."""
    attempts = {number: harness.job(number).attempt for number in numbers}
    return [number for number, attempt in attempts.items() if attempt is not None and not attempt.stopping]


@pytest.mark.parametrize("refusal", [{"preemptible": "no"}, {"preemptible": "yes", "least_turn_s": 1e12}])
@pytest.mark.parametrize("policy", ["fifo", "las", "max-min-fairness-perf"])
def test_a_quota_is_there_although_borrowers_refuse_to_be_preempted(policy, refusal):
    harness = a_cluster("a", "b", policy=policy)
    speech = submit(harness, "speech", 4, **refusal)
    guest = submit(harness, "guest", 4, **refusal)
    rounds(harness, 2)
    assert running(harness, speech, guest) == [speech, guest]

    own = [submit(harness, "vision", 2, "yes") for _ in range(2)]
    rounds(harness)

    assert running(harness, *own) == own
    assert running(harness, speech, guest) == [speech], "it holds a part of its quota, and the other one was enough"


def test_only_as_many_give_way_as_are_needed_the_newest_first():
    harness = a_cluster("a")
    guests = [submit(harness, "guest")]
    rounds(harness, 2)
    guests += [submit(harness, "guest") for _ in range(3)]
    rounds(harness, 2)

    (own,) = [submit(harness, "vision")]
    rounds(harness, 4)

    assert running(harness, *guests, own) == [*guests[:3], own]


def test_who_may_be_preempted_goes_before_who_may_not():
    harness = a_cluster("a")
    patient = submit(harness, "guest", 2)
    flexible = submit(harness, "guest", 2, "yes")
    rounds(harness, 2)

    own = submit(harness, "vision", 2)
    rounds(harness)

    assert running(harness, patient, flexible, own) == [patient, own]


def test_within_its_quota_a_job_keeps_its_place():
    harness = a_cluster("a")
    speech = [submit(harness, "speech", 2), submit(harness, "any", 2)]
    rounds(harness, 2)

    own = submit(harness, "vision", 4)
    rounds(harness)

    assert running(harness, *speech, own) == speech


def test_nobody_gives_way_where_it_would_not_be_enough_or_is_beyond_the_quota():
    harness = a_cluster("a")
    speech, guest = submit(harness, "speech", 2), submit(harness, "guest", 2)
    rounds(harness, 2)

    large = submit(harness, "vision", 4)
    beyond = submit(harness, "speech", 1)
    rounds(harness)

    assert running(harness, speech, guest, large, beyond) == [speech, guest]


def test_a_quota_of_any_type_is_there_too():
    harness = a_cluster("a")
    guest = submit(harness, "guest", 4)
    rounds(harness, 2)

    own = submit(harness, "any", 2)
    rounds(harness)

    assert running(harness, guest, own) == [own]
    stops = [event["reason"] for _, event in harness.journal.events() if event["event"] == "AttemptStopping"]
    assert stops == [StopReason.PREEMPTED.value]


def test_without_quotas_who_may_not_be_preempted_is_not():
    harness = a_cluster("a")
    guest = submit(harness, "guest", 4)
    rounds(harness, 2)

    other = submit(harness, "other", 4, priority=5)
    rounds(harness)

    assert running(harness, guest, other) == [guest]
