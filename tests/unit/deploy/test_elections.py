"""Who may take over, and whom an agent obeys."""

import asyncio
import time

import pytest

from rota.core.errors import ConfigError
from rota.deploy.agent.schedulers import Schedulers
from rota.deploy.security.client import find_settings
from rota.deploy.security.sealing import Seal
from rota.deploy.server.election import SILENCE_S, Election
from rota.rpc import rota_pb2 as pb


def heard(nodes, *, term=3, at=0.0):
    election = Election()
    election.hear(pb.ReplicaBatch(term=term, nodes=nodes, lease_s=2.0), at)
    return election


def test_votes_are_asked_for_only_after_silence_and_only_where_servers_were_up():
    election = heard(["a", "b", "c"])
    election.look(SILENCE_S)
    before = election.asks_for
    election.look(SILENCE_S + 0.1)
    alone = heard([])
    alone.look(1e6)
    never = Election()
    never.look(1e6)

    assert (before, election.asks_for) == (0, 4)
    assert alone.asks_for == never.asks_for == 0


@pytest.mark.parametrize(
    ("nodes", "voters", "elected"),
    [
        ("abc", "ab", True),
        ("abc", "a", False),
        ("ab", "a", False),
        ("ab", "ab", True),
        ("a", "a", True),
        ("abcd", "ab", False),
    ],
)
def test_more_than_half_of_the_servers_that_were_up_have_to_vote(nodes, voters, elected):
    election = heard(list(nodes))
    election.look(10.0)
    for voter in [*voters, "a stranger"]:
        election.vote(voter, 4, 10.0)

    assert election.elected is elected


def test_the_lease_of_the_other_scheduler_is_waited_for_after_the_vote_that_decides():
    election = heard(["a", "b", "c"])
    election.look(10.0)
    election.vote("a", 4, 10.0)
    election.vote("b", 4, 11.0)
    election.vote("c", 4, 15.0)

    assert not election.takes_over(13.4)
    assert election.takes_over(13.6)


def test_votes_for_another_term_do_not_count_and_being_heard_again_ends_an_election():
    election = heard(["a"])
    election.look(10.0)
    election.vote("a", 3, 10.0)
    old = election.elected
    election.vote("a", 4, 10.0)
    election.hear(pb.ReplicaBatch(term=4, nodes=["a"], lease_s=2.0), 11.0)

    assert not old
    assert not election.elected


def test_promises_are_told_to_the_scheduler_that_is_still_there_but_no_server_raises_terms_without_end():
    election = heard(["a", "b"])
    election.vote("a", 5, 1.0)
    election.vote("b", 10**9, 1.0)
    election.look(10.0)
    election.vote("b", 10**9, 10.0)

    assert election.promised == 5
    assert election.asks_for == 4
    election.vote("a", 5, 10.0)
    assert election.asks_for == 5


class FakeStub:
    """A scheduler that answers votes."""

    def __init__(self, **reply):
        self.reply = reply
        self.asked = []

    async def Vote(self, request, timeout):
        del timeout
        self.asked.append(request.term)
        return pb.VoteReply(**self.reply)


def an_agent(folder, *stubs, silent_s=10.0):
    schedulers = Schedulers([], "n0", folder)
    schedulers._stubs = list(stubs)
    schedulers._heard = time.monotonic() - silent_s
    return schedulers


def test_an_agent_votes_once_for_a_term_and_keeps_its_promise_when_it_is_started_again(tmp_path):
    async def run():
        standby = FakeStub(term=3, asks_for=4, silent_s=1.0)
        agent = an_agent(tmp_path, FakeStub(), standby)
        await agent._ask(1)
        again = an_agent(tmp_path, FakeStub(), standby)
        return agent, again, standby

    agent, again, standby = asyncio.run(run())

    assert standby.asked == [0, 4]
    assert agent.changed.is_set()
    assert not agent._there.is_set()
    assert again.term == 4
    assert not again.obeys(3)
    assert again.obeys(4)


def test_an_agent_that_hears_its_scheduler_does_not_vote(tmp_path):
    async def run():
        agent = an_agent(tmp_path, FakeStub(), FakeStub(asks_for=4, silent_s=1.0), silent_s=0.1)
        await agent._ask(1)
        return agent

    assert asyncio.run(run()).term == 0


def test_a_scheduler_in_charge_of_an_earlier_term_is_not_followed(tmp_path):
    async def run():
        agent = an_agent(tmp_path, FakeStub(), FakeStub(active=True, term=3))
        agent._keep(4)
        await agent._ask(1)
        refused = agent._current
        agent._stubs[1].reply = {"active": True, "term": 5}
        await agent._ask(1)
        return refused, agent

    refused, agent = asyncio.run(run())

    assert refused == 0
    assert (agent._current, agent.term) == (1, 5)


def test_a_damaged_file_of_the_term_is_read_as_none(tmp_path):
    (tmp_path / "term").write_text("4 or so")

    assert asyncio.run(_term_of(tmp_path)) == 0


async def _term_of(folder):
    return Schedulers([], "n0", folder).term


def test_secrets_are_sealed_with_a_key_of_their_own():
    seal = Seal(b"k" * 32)

    assert seal.open(seal.close(b"of a job")) == b"of a job"
    assert b"of a job" not in seal.close(b"of a job")
    with pytest.raises(ConfigError, match="one certificate for both machines"):
        Seal(b"x" * 32).open(seal.close(b"of a job"))
    with pytest.raises(ConfigError):
        seal.open(b"short")


@pytest.mark.parametrize(
    "text", ["127.0.0.1:1,", ",", "127.0.0.1:1,127.0.0.1:1", ",".join(f"127.0.0.1:{n}" for n in range(1, 9))]
)
def test_a_list_of_schedulers_that_is_none_is_refused(text):
    with pytest.raises(ConfigError, match="no list of schedulers"):
        find_settings(text, insecure=True)


def test_addresses_of_a_standby_are_found_beside_that_of_the_scheduler():
    found = find_settings("127.0.0.1:1, 127.0.0.1:2", insecure=True)

    assert (found.address, found.others) == ("127.0.0.1:1", ("127.0.0.1:2",))
    assert [one.address for one in found.each()] == ["127.0.0.1:1", "127.0.0.1:2"]
    with pytest.raises(ConfigError, match="loopback"):
        find_settings("127.0.0.1:1,10.0.0.1:2", insecure=True)
