import threading
import time

import pytest

from rota.client.gate import LONGEST_HOLD_S, Gate


class Clock:
    now = 100.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def gate(clock):
    return Gate(clock=clock)


def steps(gate, count):
    for _ in range(count):
        assert gate.begin()
        gate.complete()


def test_without_a_word_from_the_agent_steps_just_go_on(gate):
    steps(gate, 3)

    assert (gate.step, gate.begun, gate.ended) == (3, 3, None)


def test_an_order_to_stop_ends_the_loop_at_the_next_boundary(gate):
    steps(gate, 2)
    assert gate.begin()
    gate.receive({"op": "stop"})
    gate.complete()

    assert gate.must_stop()
    assert not gate.begin()
    assert (gate.step, gate.ended) == (3, "lease")


def test_a_lease_ends_unless_it_is_renewed(gate, clock):
    gate.receive({"op": "lease", "seconds": 10})
    clock.now += 9
    steps(gate, 1)
    gate.receive({"op": "lease", "seconds": 10})
    clock.now += 9
    steps(gate, 1)
    clock.now += 1

    assert not gate.begin()
    assert gate.ended == "lease"


def test_the_first_lease_may_come_from_the_environment(clock):
    gate = Gate(lease_s=5.0, clock=clock)
    clock.now += 5

    assert not gate.begin()


def test_a_proposal_is_accepted_only_before_its_step_has_begun(gate):
    steps(gate, 4)
    assert gate.begin()

    assert gate.receive({"op": "where"}) == {"op": "at", "begun": 5}
    assert gate.receive({"op": "stop_at", "id": 1, "step": 4}) == {
        "op": "will",
        "id": 1,
        "stop_at": 4,
        "ok": False,
        "begun": 5,
    }
    assert gate.receive({"op": "stop_at", "id": 2, "step": 5})["ok"] is True


def test_an_accepted_step_is_waited_at_until_the_commit(gate):
    steps(gate, 1)
    gate.receive({"op": "stop_at", "id": 1, "step": 2})
    steps(gate, 1)
    ended = []
    waiting = threading.Thread(target=lambda: ended.append(gate.begin()))
    waiting.start()
    waiting.join(0.05)
    assert waiting.is_alive()

    gate.receive({"op": "commit", "id": 9})
    waiting.join(0.05)
    assert waiting.is_alive()
    gate.receive({"op": "commit", "id": 1})
    waiting.join(5)

    assert ended == [False]
    assert (gate.step, gate.begun) == (2, 2)


def test_a_newer_and_higher_proposal_lets_a_waiting_rank_go_on(gate):
    gate.receive({"op": "stop_at", "id": 1, "step": 0})
    begun = []
    waiting = threading.Thread(target=lambda: begun.append(gate.begin()))
    waiting.start()
    waiting.join(0.05)
    gate.receive({"op": "stop_at", "id": 2, "step": 3})
    waiting.join(5)

    assert begun == [True]


def test_with_a_step_agreed_the_end_of_the_lease_does_not_stop_before_it(gate, clock):
    gate.receive({"op": "lease", "seconds": 10})
    gate.receive({"op": "stop_at", "id": 1, "step": 2})
    clock.now += 11

    assert not gate.must_stop()
    steps(gate, 2)
    assert not gate.begin()
    assert gate.step == 2


def test_a_rank_that_nobody_tells_anything_ends_where_it_waits(gate, clock):
    gate.receive({"op": "stop_at", "id": 1, "step": 0})
    ended = []
    waiting = threading.Thread(target=lambda: ended.append(gate.begin()))
    waiting.start()
    waiting.join(0.05)
    assert waiting.is_alive()

    clock.now += LONGEST_HOLD_S + 1
    gate.receive({"op": "unknown"})  # anything wakes it
    waiting.join(5)

    assert ended == [False]


def test_an_ended_rank_offers_only_its_own_step(gate):
    steps(gate, 3)
    gate.end("lease")

    assert gate.receive({"op": "where"}) == {"op": "at", "begun": 3, "ended": "lease"}
    assert gate.receive({"op": "stop_at", "id": 1, "step": 4})["ok"] is False
    assert gate.receive({"op": "stop_at", "id": 2, "step": 3})["ok"] is True


@pytest.mark.parametrize(
    "message",
    [
        {"op": "lease"},
        {"op": "lease", "seconds": "soon"},
        {"op": "lease", "seconds": -1},
        {"op": "lease", "seconds": True},
        {"op": "stop_at", "id": 1},
        {"op": "stop_at", "id": 1, "step": "x"},
        {"op": "commit"},
        {"op": "commit", "id": None},
        {"op": "dance"},
    ],
)
def test_nonsense_changes_nothing(gate, message):
    assert gate.receive(message) is None
    steps(gate, 2)


def test_waiting_in_a_step_ends_with_the_order():
    gate = Gate()
    assert gate.begin()
    threading.Timer(0.05, gate.receive, [{"op": "stop"}]).start()
    began = time.monotonic()

    assert gate.wait(30)
    assert time.monotonic() - began < 5
    assert not Gate().wait(0.01)


def test_waiting_in_a_step_ends_with_the_lease():
    gate = Gate(lease_s=0.05)

    assert gate.wait(30)


def test_an_abandoned_step_does_not_count(gate):
    steps(gate, 1)
    gate.begin()
    gate.abandon()

    assert (gate.step, gate.begun) == (1, 1)
