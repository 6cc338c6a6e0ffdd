"""What the cluster was used for over time, beside the ledger of the same events."""

import pytest
from questions_harness import AN_AGE, PROFILE, AskedHarness, a_busy_scheduler

from rota.deploy.questions.ledger import KINDS as LEDGER_KINDS
from rota.deploy.questions.ledger import Ledger
from rota.deploy.questions.usage import KINDS, Usage, as_fields


def usage_of(harness, points, begins=0.0):
    now = harness.clock.now()
    used = Usage(weights={}, begins=begins, until=now, points=points)
    rows = [row for row in harness.journal.rows if row["event"] in KINDS]
    used.read(rows, {**harness.journal.finished, **harness.registry.jobs}.values(), now)
    return used


def ledger_of(harness, begins=0.0):
    book = Ledger(weights={}, prices={}, begins=begins)
    rows = [row for row in harness.journal.rows if row["event"] in LEDGER_KINDS]
    book.read(rows, {**harness.journal.finished, **harness.registry.jobs}.values(), harness.clock.now())
    return book


@pytest.mark.parametrize("seed", range(20, 26))
@pytest.mark.parametrize("points", [1, 7, 120])
def test_the_steps_add_up_to_the_ledger(seed, points):
    harness = a_busy_scheduler(seed, "las")
    begins = 0.3 * harness.clock.now()
    steps = usage_of(harness, points, begins).steps
    book = ledger_of(harness, begins)

    assert sum(step.seconds for step in steps) == pytest.approx(harness.clock.now() - begins)
    assert sum(step.sums[0] for step in steps) == pytest.approx(book.capacity)
    assert sum(step.sums[0] - step.sums[1] for step in steps) == pytest.approx(book.idle)
    for tenant, account in book.accounts.items():
        assert sum(step.received.get(tenant, 0.0) for step in steps) == pytest.approx(account.received, abs=1e-6)
        assert sum(step.entitled.get(tenant, 0.0) for step in steps) == pytest.approx(account.entitled, abs=1e-6)


def test_a_tenant_called_others_sees_its_own_line_too():
    harness = AskedHarness(policy="fifo")
    harness.join("n0", gpus=4, kind="v100")
    harness.round()
    for tenant, gpus in (("others", 1), ("rivals", 2)):
        harness.submit(profile=PROFILE, steps=AN_AGE, gpus=gpus, tenant=tenant)
    for _ in range(4):
        harness.round()

    told = as_fields(usage_of(harness, 4), 0.0, harness.clock.now(), tenant="others")

    assert [(line["tenant"], line["received_gpus"][-1]) for line in told["tenants"]] == [
        ("others", 1.0),
        ("others", 2.0),
    ]


def test_a_tenant_sees_its_own_line_and_the_sum_of_all_others():
    harness = AskedHarness(policy="fifo")
    harness.join("n0", gpus=4, kind="v100")
    harness.round()
    for tenant in ("mine", "rivals", "strangers"):
        harness.submit(profile=PROFILE, steps=AN_AGE, gpus=1, tenant=tenant)
    for _ in range(4):
        harness.round()
    now = harness.clock.now()

    told = as_fields(usage_of(harness, 4), 0.0, now, tenant="mine")
    all_told = as_fields(usage_of(harness, 4), 0.0, now, tenant=None)

    assert [line["tenant"] for line in told["tenants"]] == ["mine", "others"]
    assert told["waiting_jobs"] is None
    assert "rivals" not in str(told)
    assert [line["tenant"] for line in all_told["tenants"]] == ["mine", "rivals", "strangers"]
    received = [line["received_gpus"][-1] for line in all_told["tenants"]]
    assert told["tenants"][0]["received_gpus"][-1] == received[0] == 1.0
    assert told["tenants"][1]["received_gpus"][-1] == received[1] + received[2] == 2.0


def events_of_a_server(*parts):
    joined = {"event": "NodeJoined", "at": 0.0, "node": "a", "type": "v100", "devices": ["0", "1"]}
    started = [
        {"event": "AttemptStarted", "at": 0.0, "job": number, "epoch": 1, "parts": [{"node": "a", **part}]}
        for number, part in enumerate(parts)
    ]
    return [{**joined, "cpus": 16.0, "memory_gb": 100.0}, *started]


@pytest.mark.parametrize(
    ("parts", "stranded"),
    [
        ([{"devices": ["0"], "cpus": 2.0, "memory_gb": 10.0}], (0.0, 0.0)),
        ([{"devices": ["0", "1"], "cpus": 2.0, "memory_gb": 10.0}], (14.0, 90.0)),
        ([{"devices": [d], "cpus": 8.0, "memory_gb": 50.0} for d in "01"], (0.0, 0.0)),
    ],
)
def test_cpus_and_memory_are_stranded_beside_gpus_that_are_all_held(parts, stranded):
    used = Usage(weights={}, begins=0.0, until=10.0, points=1)
    used.read(events_of_a_server(*parts), [], 10.0)

    told = as_fields(used, 0.0, 10.0, tenant=None)

    assert (told["cpus_stranded"][0], told["memory_stranded_gb"][0]) == stranded


def test_what_a_drained_server_still_does_counts_and_the_rest_of_it_does_not():
    events = events_of_a_server({"devices": ["0"], "cpus": 2.0, "memory_gb": 10.0})
    events.append({"event": "NodeDrained", "at": 5.0, "node": "a", "drained": True})
    used = Usage(weights={}, begins=0.0, until=10.0, points=2)
    used.read(events, [], 10.0)

    told = as_fields(used, 0.0, 10.0, tenant=None)

    assert told["gpus"] == [2.0, 1.0]
    assert told["gpus_held"] == [1.0, 1.0]
