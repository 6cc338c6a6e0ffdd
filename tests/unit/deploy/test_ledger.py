"""`rota ledger`: GPU-hours by tenant that sum to capacity x time."""

import random

import pytest
from harness import ROUND_S
from questions_harness import AN_AGE, PROFILE, AskedHarness, a_busy_scheduler

from rota.deploy.questions.ledger import KINDS, Ledger, as_fields, before
from rota.deploy.questions.usage import Usage
from rota.deploy.tenants import Tenants, TenantSettings


def book_of(harness, *, begins=0.0, weights=None):
    book = Ledger(weights=weights or {}, prices={"v100": 2.0, "k80": 0.5, "p100": 1.0}, begins=begins)
    rows = [row for row in harness.journal.rows if row["event"] in KINDS]
    jobs = {**harness.journal.finished, **harness.registry.jobs}
    book.read(rows, jobs.values(), harness.clock.now())
    return book


def capacity_by_hand(harness):
    """GPU-seconds of servers that are up and not drained; this test drains only servers that are idle by then."""
    total, up, last = 0.0, {}, 0.0
    for row in [*harness.journal.rows, {"event": "end", "at": harness.clock.now()}]:
        total += sum(up.values()) * (row["at"] - last) if row["at"] > last else 0.0
        last = max(last, row["at"])
        if row["event"] == "NodeJoined":
            up[row["node"]] = len(row["devices"])
    return total


@pytest.mark.parametrize("seed", range(6))
def test_the_ledger_sums_to_capacity_times_time(seed):
    draw = random.Random(seed)
    harness = AskedHarness(policy=draw.choice(["las", "fifo", "max-min-fairness-perf"]))
    for number in range(draw.randint(1, 4)):
        harness.join(f"n{number}", gpus=draw.choice([1, 2, 4]), kind=draw.choice(["v100", "k80"]))
        harness.wait(draw.uniform(0, 0.3))
    for _ in range(draw.randint(2, 10)):
        harness.submit(profile=PROFILE, steps=AN_AGE, gpus=draw.choice([1, 2]), tenant=draw.choice(["a", "b", "c"]))
        harness.round()
    for job in harness.waiting()[:1]:
        harness.cancel(job)
    harness.round()
    answer = as_fields(book_of(harness), tenant=None)

    capacity = capacity_by_hand(harness) / 3600.0
    assert answer["capacity_gpu_h"] == pytest.approx(capacity)
    for column, rest in (("received_gpu_h", "idle_gpu_h"), ("entitled_gpu_h", "unclaimed_gpu_h")):
        assert sum(row[column] for row in answer["tenants"]) + answer[rest] == pytest.approx(capacity)
    assert sum(row["received_gpu_h"] for row in answer["tenants"]) > 0


@pytest.mark.parametrize("seed", range(20, 26))
def test_it_sums_up_while_servers_are_drained_too(seed):
    answer = as_fields(book_of(a_busy_scheduler(seed, "las")), tenant=None)
    received = sum(row["received_gpu_h"] for row in answer["tenants"]) + answer["idle_gpu_h"]
    entitled = sum(row["entitled_gpu_h"] for row in answer["tenants"]) + answer["unclaimed_gpu_h"]
    assert received == pytest.approx(answer["capacity_gpu_h"])
    assert entitled == pytest.approx(answer["capacity_gpu_h"])
    assert answer["idle_gpu_h"] >= -1e-9


def two_tenants():
    """Tenant a has both GPUs for a round, b waits; then a's jobs are over."""
    harness = AskedHarness(policy="fifo")
    harness.join("n0", gpus=2)
    mine = [harness.submit(profile=PROFILE, steps=AN_AGE, gpus=1, tenant="a") for _ in range(2)]
    harness.submit(profile=PROFILE, steps=AN_AGE, gpus=2, tenant="b")
    harness.round()
    harness.round()
    return harness, mine


def test_who_waits_while_others_run_is_owed_its_part():
    harness, _ = two_tenants()
    book = book_of(harness, begins=ROUND_S)
    accounts = book.accounts
    assert accounts["a"].received == pytest.approx(2 * ROUND_S)
    assert accounts["a"].entitled == accounts["b"].entitled == pytest.approx(ROUND_S)
    assert accounts["b"].received == 0.0
    assert accounts["a"].cost == pytest.approx(2 * ROUND_S / 3600 * 2.0)


def test_weights_make_parts():
    harness, _ = two_tenants()
    accounts = book_of(harness, begins=ROUND_S, weights={"b": 3.0}).accounts
    assert accounts["b"].entitled == pytest.approx(1.5 * ROUND_S)
    assert accounts["a"].entitled == pytest.approx(0.5 * ROUND_S)


@pytest.mark.parametrize("kind", ["SettingsChanged", "ServiceStarted"])
def test_weights_count_from_the_moment_at_which_they_were_set(kind):
    harness, _ = two_tenants()
    now = harness.clock.now()
    rows = [row for row in harness.journal.rows if row["event"] in KINDS]
    for at, weight in ((0.0, 1.0), (now - ROUND_S / 2, 3.0)):
        tenants = Tenants(named={"b": TenantSettings(weight=weight)})
        rows.append({"event": kind, "at": at, "config": {"tenants": tenants.described()}})
    jobs = harness.registry.jobs.values()
    book = Ledger(weights={"b": 3.0}, prices={}, begins=ROUND_S)
    book.read(rows, jobs, now)
    used = Usage(weights={"b": 3.0}, begins=ROUND_S, until=now, points=2)
    used.read(rows, jobs, now)

    assert now == 2 * ROUND_S
    assert book.accounts["b"].entitled == pytest.approx((1.0 + 1.5) * ROUND_S / 2)
    assert [step.entitled["b"] for step in used.steps] == pytest.approx([1.0 * ROUND_S / 2, 1.5 * ROUND_S / 2])


def test_jobs_that_are_held_or_wait_for_others_make_nobody_entitled():
    harness = AskedHarness(policy="fifo")
    harness.join("n0", gpus=2)
    harness.submit(profile=PROFILE, steps=AN_AGE, gpus=2, tenant="a")
    held = [harness.submit(profile=PROFILE, steps=AN_AGE, gpus=1, tenant="b", hold=True) for _ in range(3)]
    harness.submit(profile=PROFILE, steps=AN_AGE, gpus=1, tenant="b", after_any=(held[0],))
    entitled = []

    def pass_a_round():
        begins = harness.clock.now()
        harness.round()
        accounts = book_of(harness, begins=begins).accounts
        entitled.append(round(accounts["b"].entitled / ROUND_S, 6) if "b" in accounts else 0.0)

    harness.round()
    pass_a_round()
    harness.ask(lambda now: harness.requests.release(held[:1], [], "tester", "b", now))
    pass_a_round()
    harness.ask(lambda now: harness.requests.hold(held[:1], [], "tester", "b", now))
    pass_a_round()
    harness.cancel(held[0])
    pass_a_round()

    assert entitled == [0.0, 1.0, 0.0, 1.0]


def test_a_tenant_sees_itself_and_the_sum_of_the_others():
    harness, _ = two_tenants()
    harness.submit(profile=PROFILE, steps=AN_AGE, gpus=1, tenant="c")
    harness.round()
    book = book_of(harness)
    seen = as_fields(book, tenant="b")
    assert [row["tenant"] for row in seen["tenants"]] == ["b", "others"]
    everything = as_fields(book, tenant=None)
    others = [row["received_gpu_h"] for row in everything["tenants"] if row["tenant"] != "b"]
    assert seen["tenants"][1]["received_gpu_h"] == pytest.approx(sum(others))


def test_lost_work_counts_with_all_gpus_of_the_job():
    book = Ledger(weights={}, prices={}, begins=0.0)
    harness, mine = two_tenants()
    rows = [row for row in harness.journal.rows if row["event"] in KINDS]
    rows.append({"event": "AttemptEnded", "at": 20.0, "job": mine[0], "epoch": 1, "outcome": "lost", "lost_s": 7.0})
    book.read(rows, harness.registry.jobs.values(), 30.0)
    assert book.accounts["a"].lost == 7.0
    assert as_fields(book, tenant=None)["tenants"][0]["cost"] is None


def test_servers_and_attempts_whose_events_were_removed_count_from_the_first_that_is_left():
    harness, _ = two_tenants()
    whole = book_of(harness, begins=ROUND_S)
    book = Ledger(weights={}, prices={}, begins=ROUND_S)
    book.read(before([], harness.registry, ROUND_S), harness.registry.jobs.values(), harness.clock.now())
    assert book.capacity == pytest.approx(whole.capacity)
    assert book.accounts["a"].received == pytest.approx(whole.accounts["a"].received)
