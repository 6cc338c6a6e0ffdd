"""Questions that make no sense, and questions whose answer fails: what their tenant hears of it."""

import asyncio

import pytest

from deployed import a_scheduler
from rota.core.errors import ConfigError
from rota.deploy.questions.answers import Answers
from rota.deploy.questions.asking import Questions
from rota.deploy.questions.following import Follower
from rota.deploy.scheduler.options import QuestionLimits
from rota.deploy.scheduler.requests import Refused
from rota.deploy.server.questions import QuestionDesk
from rota.rpc import rota_pb2 as pb


@pytest.fixture
def state(tmp_path):
    """A state file on which a scheduler has run."""
    scheduler = a_scheduler(tmp_path / "state.db")
    scheduler.start()
    scheduler.stop()
    return tmp_path / "state.db"


@pytest.mark.parametrize(("tenant", "told"), [("x", False), (None, True)])
def test_words_of_an_internal_error_are_told_to_administrators_only(state, tenant, told):
    async def ask():
        questions = Questions(state, QuestionLimits())
        with pytest.raises(Refused, match=r"the question failed \(KeyError") as refused:
            await questions.ask({"kind": "nonsense", "tenant": tenant}, "x")
        await questions.close()
        return str(refused.value)

    assert ("nonsense" in asyncio.run(ask())) is told


@pytest.mark.parametrize("change", [{"release": [-3]}, {"cancel": [-3]}, {"job": -3, "gpus": 1}])
def test_a_number_below_0_is_that_of_no_job(state, change):
    follower = Follower(state)
    follower.catch_up()
    question = {"kind": "what-if", "tenant": "x", "now": 0.0, "change": change}

    with pytest.raises(ConfigError, match="there is no job -3"):
        Answers(follower).answer(question)


@pytest.mark.parametrize("ask", [QuestionDesk.ledger, QuestionDesk.usage])
def test_a_span_that_begins_in_the_future_is_refused(ask):
    desk = QuestionDesk(None, None)
    request = {QuestionDesk.ledger: pb.LedgerRequest, QuestionDesk.usage: pb.UsageRequest}[ask](last_s=-1e6)

    with pytest.raises(ConfigError, match=r"last_s is -1e\+06; give engine seconds above 0"):
        asyncio.run(ask(desk, request, None))
