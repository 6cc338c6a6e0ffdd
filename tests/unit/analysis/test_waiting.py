"""Who waits beside idle GPUs."""

import numpy as np
import pytest
from event_builders import submitted

from builders import a_placement, ids
from rota.analysis.waiting import Waiting
from rota.core.events import JobsFinished, Planned, RoundsRan
from rota.core.placement import Plan


def ran(placement, start, end):
    zero = np.zeros(len(placement))
    return [
        Planned(at=start, plan=Plan(round=0, start=start, placement=placement)),
        RoundsRan(
            at=end, start=start, rounds=1, steps=zero, partner_steps=zero, seconds=zero + end - start, lost=ids()
        ),
    ]


def remarks(*events, gpus=4):
    waiting = Waiting("greedy", gpus)
    for event in events:
        waiting.observe(event)
    return waiting.remarks()


def test_idle_gpus_beside_a_job_that_asks_for_no_more_are_told():
    (said,) = remarks(submitted(0, [0.0, 0.0], gpus=[1, 2]), *ran(a_placement((0, -1, 0, 1)), 0.0, 7200.0))

    assert said.startswith("greedy left 3.0 GPUs idle on average for 2.0 h while jobs waited that asked for no more;")
    assert said.endswith("job 1 waited longest (2.0 h)")


@pytest.mark.parametrize(("size", "gpus"), [(4, 4), (1, 1)])
def test_nothing_is_said_when_the_idle_gpus_are_too_few_or_none(size, gpus):
    assert (
        remarks(submitted(0, [0.0, 0.0], gpus=[1, size]), *ran(a_placement((0, -1, 0, 1)), 0.0, 60.0), gpus=gpus) == []
    )


def test_a_wait_ends_when_the_job_runs_and_begins_again_when_it_is_stopped():
    both = a_placement((0, -1, 0, 1), (1, -1, 0, 1))
    events = [
        submitted(0, [0.0, 0.0]),
        *ran(a_placement((0, -1, 0, 1)), 0.0, 3600.0),
        *ran(both, 3600.0, 7200.0),
        *ran(a_placement((1, -1, 0, 1)), 7200.0, 18000.0),
        *ran(both, 18000.0, 21600.0),
        JobsFinished(at=21600.0, jobs=ids(0, 1), finished_at=np.array([21600.0, 21600.0])),
    ]

    (said,) = remarks(*events)

    assert said.endswith("job 0 waited longest (3.0 h)")
    assert "for 4.0 h" in said
