"""Logs as JSON: one object per line, with the ids that it is about."""

import asyncio
import json
import logging
import math
import sys

import pytest

from deployed import PlayedAgent, a_scheduler, look, submit, until
from rota.core.lifecycle import StopReason
from rota.deploy.observation.event_lines import EventLines
from rota.deploy.observation.observer import Observer
from rota.deploy.questions.asking import Questions
from rota.deploy.scheduler.options import QuestionLimits
from rota.deploy.scheduler.requests import Refused
from rota.deploy.structured_logs import JsonLines, about


def record(message, *args, exc_info=None, **ids):
    made = logging.LogRecord("rota.test", logging.WARNING, "file", 1, message, args, exc_info)
    made.__dict__.update(about(**ids))
    return made


def test_a_line_has_time_level_message_and_ids():
    line = JsonLines({"node": "a"}).format(record("job %d starts", 17, job=17, round=4, tenant="x"))

    fields = json.loads(line)
    assert fields.pop("time").endswith("Z")
    assert fields == {
        "level": "warning", "logger": "rota.test", "message": "job 17 starts", "node": "a", "job": 17, "round": 4,
        "tenant": "x",
    }  # fmt: skip


@pytest.mark.parametrize("words", ['a "quote"', "two\nlines", "\x1b[31m", "ü \u2028 \ud800", "\0"])
def test_words_of_others_stay_in_one_line(words):
    line = JsonLines().format(record("%s", words, reason=words))

    assert len(line.splitlines()) == 1
    assert line.isascii()
    assert json.loads(line)["reason"] == words


def test_values_that_json_does_not_know_are_still_json():
    line = JsonLines().format(record("x", until=math.inf, at=math.nan, reason=StopReason.HUNG, thing=object()))

    fields = json.loads(line, parse_constant=pytest.fail)
    assert (fields["until"], fields["at"], fields["reason"]) == ("inf", "nan", "hung")


def test_a_traceback_is_within_the_line():
    try:
        int("no")
    except ValueError:
        line = JsonLines().format(record("failed", exc_info=sys.exc_info()))

    assert "\n" not in line
    assert "ValueError: invalid literal" in json.loads(line)["exception"]


def test_events_are_lines_with_job_tenant_node_and_round(tmp_path, caplog):
    caplog.set_level(logging.INFO, logger="rota.events")
    scheduler = a_scheduler(tmp_path / "state.db")
    observer = Observer(scheduler, [EventLines()])
    observer.start()
    scheduler.start()
    agents = [PlayedAgent(scheduler, "a", gpus=2)]
    submit(scheduler, {"tenant": "x"})
    until(lambda: look(scheduler, lambda r: len(r.ended)), scheduler, agents)
    observer.catch_up()
    scheduler.stop()
    observer.stop()

    lines = [json.loads(JsonLines().format(one)) for one in caplog.records if one.name == "rota.events"]
    of_job = [line for line in lines if line.get("job") == 0]
    assert [line["event"] for line in of_job] == ["JobAccepted", "AttemptStarted", "AttemptEnded", "JobEnded"]
    assert {line["tenant"] for line in of_job} == {"x"}
    assert of_job[1]["node"] == "a"
    assert of_job[1]["round"] >= 0
    assert of_job[3]["message"] == "job 0 is over: finished"
    assert [line["node"] for line in lines if line["event"] == "NodeJoined"] == ["a"]


def test_a_question_that_fails_is_a_line_of_json_where_the_scheduler_logs_json(tmp_path, capfd):
    scheduler = a_scheduler(tmp_path / "state.db")
    scheduler.start()
    scheduler.stop()
    handler = logging.StreamHandler()
    handler.setFormatter(JsonLines())
    logging.getLogger().addHandler(handler)

    async def ask():
        questions = Questions(tmp_path / "state.db", QuestionLimits())
        with pytest.raises(Refused, match="the question failed"):
            await questions.ask({"kind": "nonsense"}, "x")
        await questions.close()

    try:
        asyncio.run(ask())
    finally:
        logging.getLogger().removeHandler(handler)
    (line,) = [line for line in capfd.readouterr().err.splitlines() if "nonsense" in line]
    assert "KeyError" in json.loads(line)["exception"]
