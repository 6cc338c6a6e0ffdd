"""Requests per second and open streams, on a clock that the test turns."""

import contextlib

import pytest

from rota.deploy.security.admission import Admission, TooMany
from rota.deploy.security.identity import Denied, Identity
from rota.deploy.security.subjects import Role
from rota.deploy.tenants import Tenants, TenantSettings

ALICE = Identity(Role.CLIENT, "alice", "vision")
ADMIN = Identity(Role.CLIENT, "root", "vision", admin=True)
BOB = Identity(Role.CLIENT, "bob", "speech")
NO_TOKEN = Identity(Role.CLIENT, "carol")
AGENT = Identity(Role.AGENT, "node1")


class Turned:
    """An admission with its clock."""

    def __init__(self, **limits):
        self.now = 100.0
        self.admission = Admission(Tenants(default=TenantSettings(**limits)), lambda: self.now)

    def taken(self, identity, times=100):
        """How many of some requests are taken now."""
        count = 0
        for _ in range(times):
            with contextlib.suppress(TooMany):
                self.admission.request(identity)
                count += 1
        return count


def test_a_burst_is_taken_and_then_so_many_per_second():
    turned = Turned(requests_per_s=5.0, request_burst=10)

    assert turned.taken(ALICE) == 10
    turned.now += 1.0
    assert turned.taken(ALICE) == 5
    turned.now += 3600.0
    assert turned.taken(ALICE) == 10


def test_a_refusal_says_when_to_come_again_and_then_it_is_taken():
    turned = Turned(requests_per_s=5.0, request_burst=1)
    turned.admission.request(ALICE)

    with pytest.raises(
        TooMany, match=r"tenant 'vision' made more than 5 requests per second; try again in 0.2 s"
    ) as said:
        turned.admission.request(ALICE)
    turned.now += said.value.retry_after_s

    turned.admission.request(ALICE)


def test_tenants_administrators_and_callers_without_a_token_are_counted_apart_and_agents_never():
    turned = Turned(requests_per_s=5.0, request_burst=10)
    turned.taken(ALICE)

    assert [turned.taken(who) for who in (ADMIN, BOB, NO_TOKEN, AGENT)] == [10, 10, 10, 100]


def test_many_bytes_count_as_many_requests():
    turned = Turned(requests_per_s=5.0, request_burst=10)
    turned.admission.charge(ALICE, 15 * 16 * 1024)
    turned.admission.charge(BOB, 100)

    assert (turned.taken(ALICE), turned.taken(BOB)) == (0, 10)
    turned.now += 1.3
    assert turned.taken(ALICE) == 1


def test_streams_are_counted_while_they_are_open():
    admission = Turned(max_streams=2).admission

    with contextlib.ExitStack() as stack:
        stack.enter_context(admission.stream(ALICE))
        stack.enter_context(admission.stream(ALICE))
        with pytest.raises(Denied, match="2 streams open already"):
            stack.enter_context(admission.stream(ALICE))
        for who in (BOB, ADMIN, AGENT, AGENT, AGENT):
            stack.enter_context(admission.stream(who))
    with admission.stream(ALICE):
        pass


def test_tenants_without_end_take_no_memory_without_end():
    turned = Turned()
    for number in range(25_000):
        turned.admission.request(Identity(Role.CLIENT, "local", f"t{number}", admin=True, insecure=True))

    assert len(turned.admission._buckets) <= 10_000
