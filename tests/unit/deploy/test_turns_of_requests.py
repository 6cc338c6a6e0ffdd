"""Who is served when by a real scheduler with slow requests, and whose fault silence is."""

import threading
import time

import pytest

from deployed import PlayedAgent, a_scheduler, jobs_of, look, submit, until
from rota.deploy.scheduler.options import Timing
from rota.deploy.scheduler.own_stalls import NETWORK, OwnStalls
from rota.deploy.scheduler.owner_time import WINDOW_S, OverShare, OwnerTime, Payer
from rota.deploy.tenants import Tenants, TenantSettings

EVIL = Payer("evil")
VISION = Payer("vision")
DEAD_AFTER_S = 0.5


@pytest.fixture
def scheduler(tmp_path):
    timing = Timing(heartbeat_s=0.1, dead_after_s=DEAD_AFTER_S, lease_s=1.0)
    found = a_scheduler(tmp_path / "s.db", timing=timing)
    found.start()
    yield found
    found.stop()


def slow(scheduler, payer, seconds, order=None):
    """A request that only looks, for so long."""

    def question(_):
        time.sleep(seconds)
        if order is not None:
            order.append(payer.tenant)

    return scheduler.look("slow", question, payer)


def busy(scheduler, payer, cpu_s):
    """A request that computes for so long."""

    def question(_):
        end = time.thread_time() + cpu_s
        while time.thread_time() < end:
            pass

    return scheduler.look("busy", question, payer)


def lost(scheduler, node):
    return look(scheduler, lambda registry: registry.nodes[node].lost)


def test_silence_while_a_request_keeps_the_scheduler_busy_is_not_held_against_an_agent(scheduler):
    agent = PlayedAgent(scheduler, "n0")
    (job,) = submit(scheduler, {"steps": 10**9})
    until(lambda: jobs_of(scheduler)[job].attempt is not None, scheduler, [agent])

    for _ in range(3):
        agent.report(scheduler)
        slow(scheduler, EVIL, 3 * DEAD_AFTER_S).result(10)
    agent.report(scheduler)

    assert not lost(scheduler, "n0")
    assert jobs_of(scheduler)[job].losses == 0


def test_an_agent_that_is_really_gone_is_lost_although_requests_come_all_the_time(scheduler):
    PlayedAgent(scheduler, "n0")
    stop = threading.Event()

    def flood():
        while not stop.is_set():
            slow(scheduler, EVIL, 0.02).result(10)

    thread = threading.Thread(target=flood)
    thread.start()
    try:
        until(lambda: lost(scheduler, "n0"), scheduler, timeout=20.0)
    finally:
        stop.set()
        thread.join()


def test_a_report_waits_for_one_request_of_a_user_and_not_for_all_of_them(scheduler):
    agent = PlayedAgent(scheduler, "n0")
    order = []
    answers = [slow(scheduler, EVIL, 0.2, order) for _ in range(8)]

    agent.report(scheduler)

    assert len(order) <= 3
    for answer in answers:
        answer.result(10)


def test_each_tenant_has_its_turn_whatever_another_one_sent_before(scheduler):
    order = []
    answers = [slow(scheduler, EVIL, 0.15, order) for _ in range(8)]
    answers.append(slow(scheduler, VISION, 0.0, order))
    for answer in answers:
        answer.result(10)

    assert order.index("vision") <= 2


def test_a_tenant_that_took_more_than_its_share_waits_and_others_do_not(tmp_path):
    tenants = Tenants(named={"evil": TenantSettings(max_scheduler_share=0.001)})
    scheduler = a_scheduler(tmp_path / "s.db", tenants=tenants)
    scheduler.start()
    try:
        errors = [answer.exception(30) for answer in [busy(scheduler, EVIL, 0.05) for _ in range(4)]]
        refused = errors[1:]
        others = [busy(scheduler, who, 0.0).exception(10) for who in (VISION, Payer("evil", admin=True))]
        number = scheduler.post("submit", lambda _: ([], lambda: 7), VISION).result(10)
    finally:
        scheduler.stop()

    assert errors[0] is None, "what a request takes is known when it is done"
    assert {type(error) for error in refused} == {OverShare}
    assert "requests of tenant 'evil' took more than 0.1% of the time" in str(refused[0])
    assert refused[0].retry_after_s > 10
    assert others == [None, None]
    assert number == 7


def test_time_that_is_owed_comes_back_by_the_share_of_the_tenant():
    now = [100.0]
    spent = [0.0]
    owner = OwnerTime(lambda tenant: {"evil": 0.5}.get(tenant, 0.25), lambda: now[0], lambda: spent[0])
    with owner.charged(EVIL):
        spent[0] += 0.5 * WINDOW_S + 2.0

    with pytest.raises(
        OverShare, match=r"more than 50% .* over the last 20 s \(max_scheduler_share\); try again in 4.0 s"
    ):
        owner.check(EVIL)
    owner.check(VISION)
    now[0] += 4.0
    owner.check(EVIL)
    now[0] += 1000.0
    assert owner.left_s(EVIL) == 0.5 * WINDOW_S


def test_a_stall_counts_while_it_lasts_and_afterwards_but_for_a_short_pause():
    now = [100.0]
    stalls = OwnStalls(1.0, lambda: now[0])
    stalls.listening(NETWORK, 0.25)
    now[0] += 1.25
    assert stalls.total_s() == 0.0
    now[0] += 10.0
    assert stalls.total_s() == 10.0
    stalls.listening(NETWORK, 0.25)
    now[0] += 1.0

    assert stalls.total_s() == 10.0
