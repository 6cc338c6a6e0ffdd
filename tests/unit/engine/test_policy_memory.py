"""What a policy remembers, and how long its answer holds, come back from a journal."""

import json
import math

import numpy as np
import pytest

from rota.core.allocation import Allocation
from rota.core.events import Allocated, JobsFinished, JobsSubmitted
from rota.core.horizon import EVERY_ROUND, UNTIL_JOBS_CHANGE, UNTIL_JOBS_LEAVE, Horizon
from rota.engine.log import LineReader, LineWriter


def back(allocation, *, memory=True):
    line = LineWriter(memory=memory).write(Allocated(at=1.0, allocation=allocation))
    return LineReader().read(json.loads(line)).allocation


def an_allocation(**fields):
    return Allocation(jobs=np.array([3, 5]), types=("v100",), share=np.array([[0.5], [0.25]]), **fields)


@pytest.mark.parametrize("horizon", [EVERY_ROUND, UNTIL_JOBS_CHANGE, UNTIL_JOBS_LEAVE, Horizon(720.5, frozenset())])
def test_a_horizon_comes_back(horizon):
    assert back(an_allocation(horizon=horizon)).horizon == horizon


def test_numbers_texts_lists_and_arrays_come_back():
    state = {
        "times": np.array([1.5, math.inf]), "jobs": np.array([[1, 2], [3, 4]]), "told": np.array([True, False]),
        "price": 0.1 + 0.2, "lowest": -math.inf, "name": "x", "pairs": [(1, 2), (3, 4)], "random": (3, (1, 2), None),
        "kept": {1: 2.5},
    }  # fmt: skip
    again = back(an_allocation(state=state)).state
    assert again.keys() == state.keys()
    for name, value in state.items():
        if isinstance(value, np.ndarray):
            assert again[name].dtype == value.dtype
            assert np.array_equal(again[name], value)
        else:
            assert again[name] == value
            assert type(again[name]) is type(value)


def test_where_a_solver_begins_is_not_kept():
    state = {"basis": object(), "duals": np.zeros(3), "other": object(), "kept": 1}
    assert back(an_allocation(state=state)).state == {"kept": 1}


def test_logs_of_simulations_stay_what_they_were():
    line = LineWriter().write(Allocated(at=1.0, allocation=an_allocation(state={"kept": 1})))
    assert "memory" not in json.loads(line)
    assert back(an_allocation(horizon=UNTIL_JOBS_CHANGE), memory=False).horizon == EVERY_ROUND


def test_kinds_of_events_that_a_later_version_knows_are_left_out():
    line = json.loads(LineWriter(memory=True).write(Allocated(at=1.0, allocation=an_allocation())))
    line["memory"]["ended_by"] = ["JobsSubmitted", "JobsFinished", "SomethingNew"]
    assert LineReader().read(line).allocation.horizon.ended_by == {JobsSubmitted, JobsFinished}
