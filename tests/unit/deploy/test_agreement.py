"""A gang of real gates and one agreement, with messages delivered in any order, lost connections and ranks that die."""

from collections import deque

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rota.client.gate import Gate, Verdict
from rota.deploy.agreement import Agreement


class Gang:
    """Ranks that count steps, the messages under way, and a clock that a test moves."""

    def __init__(self, size, *, together, steps=None, margin=0):
        self.now = 0.0
        self.gates = [Gate(clock=lambda: self.now) for _ in range(size)]
        self.together, self.steps = together, steps
        self.agreement = Agreement(range(size), margin=margin, retry_s=1.0, limit_s=1e6)
        self.to = [deque() for _ in range(size)]
        self.back = [deque() for _ in range(size)]
        self.dead = set()
        self.proposals = 0

    def begin(self):
        self.post(self.agreement.begin(self.now))

    def post(self, sends):
        for rank, message in sends:
            self.proposals += message["op"] == "stop_at"
            if rank not in self.dead:
                self.to[rank].append(message)

    def hear(self, rank):
        if self.to[rank] and rank not in self.dead:
            answer = self.gates[rank].receive(self.to[rank].popleft())
            if answer is not None:
                self.back[rank].append(answer)

    def answer(self, rank):
        if self.back[rank]:
            self.post(self.agreement.answer(rank, self.back[rank].popleft(), self.now))

    def work(self, rank):
        gate = self.gates[rank]
        if rank in self.dead or gate.ended is not None:
            return
        if gate.begun > gate.step:
            if self.together and any(other.begun < gate.begun for other in self.gates):
                return  # in a collective that somebody has not joined
            gate.complete()
        elif self.steps is not None and gate.step >= self.steps:
            gate.end("done")
            self.back[rank].append({"op": "done", "step": gate.step})
        elif gate._verdict() is Verdict.GO:
            gate.begin()
        elif gate._verdict() is Verdict.STOP:
            gate.begin()
            self.back[rank].append({"op": "stopped", "step": gate.step})

    def reconnect(self, rank):
        """What was under way is lost; the rank repeats its last word and is told again."""
        if rank in self.dead:
            return
        gate = self.gates[rank]
        self.to[rank].clear()
        self.back[rank].clear()
        self.post(self.agreement.rejoined(rank, self.now))
        if gate.ended is not None:
            self.back[rank].append({"op": "stopped" if gate.ended == "lease" else "done", "step": gate.step})

    def die(self, rank):
        self.dead.add(rank)
        self.agreement.lost(rank)

    def expire(self, rank):
        self.gates[rank].receive({"op": "lease", "seconds": 0})

    def tick(self):
        self.now += 1.0
        self.post(self.agreement.tick(self.now))

    def restart(self):
        """The agent died and came back: it knows of no agreement, all connections are new."""
        self.agreement = Agreement(self.agreement.ranks, retry_s=1.0, limit_s=1e6)
        self.begin()
        for rank in range(len(self.gates)):
            self.reconnect(rank)

    def settle(self, rounds=600):
        """Everybody gets a fair turn until it is over. A rank alone on a fast machine makes many steps per message."""
        for _ in range(rounds):
            if self.agreement.finished or self.agreement.state == "broken":
                return
            for rank in range(len(self.gates)):
                self.hear(rank)
                self.answer(rank)
                for _ in range(3):
                    self.work(rank)
            self.tick()


moves = st.lists(
    st.tuples(st.sampled_from(["hear", "answer", "work", "work", "work", "reconnect"]), st.integers(0, 4)), max_size=120
)


def play(gang, script):
    for name, rank in script:
        getattr(gang, name)(rank % len(gang.gates))


@settings(max_examples=300)
@given(st.integers(1, 5), st.booleans(), st.integers(0, 2), moves, moves)
def test_all_ranks_stop_on_the_same_step(size, together, margin, before, after):
    gang = Gang(size, together=together, margin=margin)
    play(gang, before)
    gang.begin()
    play(gang, after)
    gang.settle()

    assert gang.agreement.finished, gang.agreement.state
    assert {gate.step for gate in gang.gates} == {gang.agreement.step}
    assert {gate.begun for gate in gang.gates} == {gang.agreement.step}


@settings(max_examples=300)
@given(st.integers(1, 4), st.booleans(), st.integers(1, 12), moves, moves)
def test_a_gang_that_is_nearly_done_ends_on_the_same_step_too(size, together, steps, before, after):
    gang = Gang(size, together=together, steps=steps)
    play(gang, before)
    gang.begin()
    play(gang, after)
    gang.settle()

    assert gang.agreement.finished, (gang.agreement.state, gang.agreement.reason)
    assert len({gate.step for gate in gang.gates}) == 1


@settings(max_examples=300)
@given(st.integers(2, 4), st.booleans(), moves, st.integers(0, 3), moves)
def test_a_rank_that_dies_breaks_the_agreement_unless_it_had_ended(size, together, script, victim, after):
    gang = Gang(size, together=together)
    gang.begin()
    play(gang, script)
    victim %= size
    had_ended = victim in gang.agreement.ended
    gang.die(victim)
    play(gang, after)
    gang.settle()

    if had_ended:
        assert gang.agreement.finished
    else:
        assert gang.agreement.state == "broken"
        assert gang.agreement.reason == f"rank {victim} died or failed"


@settings(max_examples=300)
@given(st.integers(2, 4), st.booleans(), moves, st.lists(st.integers(0, 3), max_size=4), moves)
def test_when_leases_run_out_meanwhile_it_ends_on_one_step_or_says_that_it_did_not(size, together, script, late, after):
    gang = Gang(size, together=together)
    gang.begin()
    play(gang, script)
    for rank in late:
        gang.expire(rank % size)
    play(gang, after)
    gang.settle()

    assert gang.agreement.finished or gang.agreement.state == "broken"
    if gang.agreement.finished:
        assert len({gate.step for gate in gang.gates}) == 1


@settings(max_examples=300)
@given(st.integers(2, 4), st.booleans(), moves, moves, moves)
def test_an_agent_that_restarts_in_the_middle_still_stops_all_on_the_same_step(size, together, before, first, second):
    gang = Gang(size, together=together)
    play(gang, before)
    gang.begin()
    play(gang, first)
    gang.restart()
    play(gang, second)
    gang.settle()

    assert gang.agreement.finished, (gang.agreement.state, gang.agreement.reason)
    assert len({gate.step for gate in gang.gates}) == 1


def test_a_fast_rank_that_waits_for_nobody_is_caught_by_larger_margins():
    gang = Gang(2, together=False)
    gang.begin()
    for _ in range(40):
        gang.hear(0)
        gang.answer(0)
        for _ in range(50):
            gang.work(1)
        gang.hear(1)
        gang.answer(1)
        gang.work(0)
    gang.settle(3000)

    assert gang.agreement.finished
    assert gang.proposals <= 2 * 10


def test_one_refusal_leads_to_a_higher_proposal():
    agreement = Agreement([0, 1])
    agreement.begin(0.0)
    agreement.answer(0, {"op": "at", "begun": 5}, 0.0)

    first = agreement.answer(1, {"op": "at", "begun": 4}, 0.0)
    assert {send.rank: send.message["step"] for send in first} == {0: 5, 1: 5}

    agreement.answer(1, {"op": "will", "id": 1, "stop_at": 5, "ok": True, "begun": 4}, 0.0)
    second = agreement.answer(0, {"op": "will", "id": 1, "stop_at": 5, "ok": False, "begun": 6}, 0.0)
    assert {send.rank: send.message for send in second} == {
        rank: {"op": "stop_at", "id": 2, "step": 7} for rank in (0, 1)
    }


def test_answers_to_an_older_proposal_do_not_count():
    agreement = Agreement([0, 1])
    agreement.begin(0.0)
    for rank in (0, 1):
        agreement.answer(rank, {"op": "at", "begun": 1}, 0.0)
    agreement.answer(0, {"op": "will", "id": 1, "ok": False, "begun": 2}, 0.0)

    assert agreement.answer(1, {"op": "will", "id": 1, "ok": True, "begun": 1}, 0.0) == []
    assert agreement.answer(0, {"op": "will", "id": 2, "ok": True, "begun": 2}, 0.0) == []
    assert agreement.state == "proposing"


def test_a_silent_rank_is_asked_again_and_then_given_up():
    agreement = Agreement([0, 1], retry_s=1.0, limit_s=5.0)
    agreement.begin(0.0)
    agreement.answer(0, {"op": "at", "begun": 1}, 0.0)

    assert agreement.tick(0.5) == []
    assert [send.rank for send in agreement.tick(1.5)] == [1]
    assert agreement.tick(6.0) == []
    assert (agreement.state, agreement.reason) == ("broken", "no answer from rank 1 in 5 s")


@pytest.mark.parametrize(
    "nonsense",
    [{}, {"op": "at"}, {"op": "at", "begun": -1}, {"op": "at", "begun": True}, {"op": "will", "id": 7, "begun": 1}],
)
def test_nonsense_changes_nothing(nonsense):
    agreement = Agreement([0])
    agreement.begin(0.0)

    assert agreement.answer(0, nonsense, 0.0) == []
    assert agreement.state == "asking"
    assert agreement.answer(9, {"op": "at", "begun": 1}, 0.0) == []


def test_a_rank_with_a_new_connection_is_told_again_at_once():
    agreement = Agreement([0, 1])
    agreement.begin(0.0)
    assert [send.message["op"] for send in agreement.rejoined(1, 0.0)] == ["where"]
    for rank in (0, 1):
        agreement.answer(rank, {"op": "at", "begun": 1}, 0.0)
    assert [send.message["op"] for send in agreement.rejoined(1, 0.0)] == ["stop_at"]
    for rank in (0, 1):
        agreement.answer(rank, {"op": "will", "id": 1, "ok": True, "begun": 1}, 0.0)
    assert [send.message for send in agreement.rejoined(1, 0.0)] == [{"op": "commit", "id": 1}]
    agreement.answer(1, {"op": "stopped", "step": 1}, 0.0)
    assert agreement.rejoined(1, 0.0) == []
