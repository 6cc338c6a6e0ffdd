"""Finish-time fairness and deadlines of jobs, as a page shows them."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rota.experiments.blobs import pack, unpack
from rota.experiments.store import Run
from rota.report.outcomes import deadlines, deadlines_of, fairness
from rota.report.records import Record


def jobs(*rows):
    """Rows are (arrival, finish or NaN, deadline)."""
    arrival, finish, deadline = (np.array(column, dtype=float) for column in zip(*rows, strict=True))
    return {"arrival_s": arrival, "finish_s": finish, "jct_s": finish - arrival, "deadline_s": deadline}


def record(table=None, **metrics):
    run = Run(key="a", point={}, status="ok", metrics=metrics, error=None, config={})
    return Record(run=run, jobs=table)


BY_HAND = jobs((0, 50, 100), (10, 110, 110), (0, 130, 100), (100, math.nan, 200), (0, 7, math.inf), (0, 240, 200))


def test_deadlines_by_hand():
    found = deadlines_of(BY_HAND)

    assert (found.jobs, found.met, found.late, found.unfinished) == (5, 2, 2, 1)
    assert found.late_by_s.tolist() == [30, 40]
    assert found.used.tolist() == [0.5, 1.0, 1.3, 1.2]


def test_a_page_has_the_deadlines_of_all_runs_of_a_group():
    shown = deadlines([record(BY_HAND), record(slo_jobs=4, slo_violations=1), record(slo_jobs=0, slo_violations=0)])

    assert (shown["jobs"], shown["met"], shown["late"], shown["unfinished"], shown["missed"]) == (9, 5, 2, 1, 1)
    assert (shown["mean_late_s"], shown["worst_late_s"]) == (35.0, 40.0)
    assert shown["used"] == {"t": [0.5, 1.0, 1.2, 1.3], "top": 0.8}


@pytest.mark.parametrize("table", [jobs((0, 5, math.inf)), jobs((0, 5, math.nan)), {"jct_s": np.array([1.0])}])
def test_jobs_without_deadlines_have_no_panel(table):
    assert deadlines_of(table) is None
    assert deadlines([record(table), record()]) is None


@given(st.lists(st.tuples(st.floats(0, 1e6), st.floats(0, 1e6), st.floats(1, 1e6), st.booleans()), min_size=1))
def test_every_job_with_a_deadline_is_met_late_or_unfinished(rows):
    table = jobs(*((a, math.nan if lost else a + d, a + s) for a, d, s, lost in rows))

    found = deadlines_of(table)

    assert found.met + found.late + found.unfinished == len(rows)
    assert found.late == sum(not lost and a + d > a + s for a, d, s, lost in rows)
    assert found.unfinished == sum(lost for *_, lost in rows)


def test_fairness_is_the_distribution_of_known_values():
    shown = fairness([{"ftf": np.array([2.0, 0.5, math.nan])}, {"jct_s": np.array([1.0])}, {"ftf": np.array([1.0])}])

    assert shown == {"t": [0.5, 1.0, 2.0], "top": 1.0, "jobs": 3, "worse": 1}
    assert fairness([{"ftf": np.array([math.nan])}]) is None
    assert fairness([]) is None


def test_a_long_distribution_is_a_few_steps_up_to_its_largest_value():
    shown = fairness([{"ftf": np.arange(1.0, 10_001.0)}])

    assert len(shown["t"]) == 160
    assert shown["t"][-1] == 10_000
    assert shown["t"][79] == pytest.approx(5000, rel=1e-3)


def test_a_store_keeps_deadlines_and_reads_what_older_versions_wrote():
    columns = {"job_id": np.arange(3), "arrival_s": np.zeros(3), "finish_s": np.ones(3), "gpus": np.ones(3, dtype=int)}
    late = {"ftf": np.full(3, 0.5), "deadline_s": np.array([1.0, math.inf, 3.0])}

    assert unpack(pack({**columns, **late}, None))["deadline_s"].tolist() == [1.0, math.inf, 3.0]
    assert "deadline_s" not in unpack(pack({**columns, "ftf": late["ftf"]}, None))
    assert "deadline_s" not in unpack(pack({**columns, "deadline_s": late["deadline_s"]}, None))
