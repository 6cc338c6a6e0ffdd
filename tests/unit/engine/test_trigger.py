"""When the policy is asked again."""

import math

import numpy as np
import pytest

from builders import a_cluster, a_view, ids, shares, some_jobs
from rota.core.events import (
    Allocated,
    ClusterChanged,
    JobsDropped,
    JobsFinished,
    JobsRejected,
    JobsSubmitted,
    RoundsRan,
)
from rota.core.rules import Rules, preset
from rota.engine.trigger import Trigger


def asked(rules, at=0.0):
    trigger = Trigger(rules)
    trigger.observe(Allocated(at=at, allocation=shares(a_view(1), [[1.0, 0.0]])))
    return trigger


def ran(lost=()):
    nothing = np.zeros(1)
    return RoundsRan(
        at=1.0, start=0.0, rounds=1, steps=nothing, partner_steps=nothing, seconds=nothing, lost=ids(*lost)
    )


FINISHED = JobsFinished(at=1.0, jobs=ids(0), finished_at=np.ones(1))


def test_at_first_the_policy_is_asked_at_once():
    assert Trigger(Rules(resolve_every_s=1000.0)).due(0.0)


def test_without_a_change_nobody_asks():
    trigger = asked(Rules())

    assert not trigger.due(1e9)
    assert trigger.next_due() == math.inf


@pytest.mark.parametrize(
    "change",
    [
        JobsSubmitted(at=1.0, first_id=0, jobs=some_jobs(1)),
        FINISHED,
        JobsDropped(at=1.0, jobs=ids(0), reason="x"),
        JobsRejected(at=1.0, jobs=ids(0), reason="x"),
        ClusterChanged(at=1.0, cluster=a_cluster(v100=1)),
        ran(lost=(0,)),
    ],
    ids=lambda e: type(e).__name__,
)
def test_a_change_of_jobs_or_gpus_asks_again(change):
    trigger = asked(Rules())

    trigger.observe(change)

    assert trigger.due(1.0)


def test_a_round_as_planned_is_no_change():
    trigger = asked(Rules())

    trigger.observe(ran())

    assert not trigger.due(1.0)


def test_the_least_time_between_two_answers_is_kept():
    trigger = asked(Rules(resolve_every_s=1920.0), at=100.0)

    trigger.observe(FINISHED)

    assert trigger.next_due() == 2020.0
    assert not trigger.due(2019.0)
    assert trigger.due(2020.0)


def test_the_artifact_asks_freely_while_its_last_answer_was_at_time_zero():
    artifact, sane = asked(preset("gavel-artifact")), asked(Rules(resolve_every_s=1920.0))

    for trigger in (artifact, sane):
        trigger.observe(FINISHED)

    assert artifact.due(360.0)
    assert not sane.due(360.0)
