"""Which phase of a job may follow which."""

import itertools

import pytest

from rota.core.errors import IllegalTransition, RotaError
from rota.core.lifecycle import (
    FINAL_PHASES,
    LEGAL_TRANSITIONS,
    STOP_REASON_OF_FINAL_PHASE,
    AttemptOutcome,
    JobPhase,
    StopReason,
    advance,
    outcome_named,
)


def test_every_phase_has_a_row_and_final_ones_lead_nowhere():
    assert set(LEGAL_TRANSITIONS) == set(JobPhase)
    assert {phase for phase, following in LEGAL_TRANSITIONS.items() if not following} == FINAL_PHASES


def test_every_phase_can_be_reached_and_left_for_an_end():
    reached = {JobPhase.QUEUED}
    for _ in JobPhase:
        reached |= {following for phase in reached for following in LEGAL_TRANSITIONS[phase]}
    assert reached == set(JobPhase)
    for phase in set(JobPhase) - FINAL_PHASES:
        assert JobPhase.FAILED in LEGAL_TRANSITIONS[phase]


@pytest.mark.parametrize(("before", "after"), list(itertools.product(JobPhase, JobPhase)))
def test_what_is_not_in_the_table_is_refused_with_the_story(before, after):
    if after in LEGAL_TRANSITIONS[before]:
        assert advance(7, before, after, ()) is after
        return
    with pytest.raises(IllegalTransition) as raised:
        advance(7, before, after, ("JobAccepted at 1.0 s", "CancelAsked at 2.0 s"))

    said = str(raised.value)
    assert f"job 7 cannot go from {before.value} to {after.value}" in said
    assert "JobAccepted at 1.0 s, CancelAsked at 2.0 s" in said
    assert (raised.value.job, len(raised.value.story)) == (7, 2)
    assert isinstance(raised.value, RotaError)


def test_every_end_has_a_reason_to_stop_what_is_left():
    assert set(STOP_REASON_OF_FINAL_PHASE) == FINAL_PHASES
    assert [reason for reason in StopReason if reason.kills] == [StopReason.RANK_FAILED]


def test_a_word_for_an_outcome_that_nobody_knows_is_kept():
    assert outcome_named("hung", "x") == (AttemptOutcome.HUNG, "x")
    assert outcome_named("melted", "too hot") == (AttemptOutcome.FAILED, "melted: too hot")
    assert outcome_named("", "") == (AttemptOutcome.FAILED, "")
