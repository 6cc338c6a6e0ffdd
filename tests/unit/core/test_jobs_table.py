"""Jobs as columns, and the source that hands them out."""

import math

import numpy as np
import pytest

from builders import some_jobs
from rota.core.jobs import Launch, TableSource, intern, table


def test_text_is_kept_once():
    values, index = intern(["b", "a", "b", "b"])

    assert values == ("b", "a")
    assert index.tolist() == [0, 1, 0, 0]


def test_what_is_not_given_is_plain():
    jobs = some_jobs(2)

    assert jobs.weight.tolist() == [1.0, 1.0]
    assert jobs.deadline.tolist() == [math.inf, math.inf]
    assert np.isnan(jobs.duration).all()
    assert jobs.tenants == ("default",)
    assert jobs.launches == (Launch(),)


def test_a_deadline_is_a_multiple_of_the_duration_after_arrival():
    jobs = some_jobs(3, arrivals=[10.0, 10.0, 10.0], duration=[100.0, 100.0, np.nan], slo=[1.5, np.nan, 2.0])

    assert jobs.deadline.tolist() == [160.0, math.inf, math.inf]


def test_a_slice_shares_the_text():
    jobs = some_jobs(4, profiles=["a", "b", "a", "c"], tenant_names=["x", "y", "x", "y"])

    part = jobs.rows(1, 3)

    assert len(part) == 2
    assert [part.profiles[p] for p in part.profile] == ["b", "a"]
    assert [part.tenants[t] for t in part.tenant] == ["y", "x"]


def test_an_empty_table_is_a_table():
    assert len(table(profile_names=[], gpus=[], total_steps=[], submitted=[])) == 0


def test_a_source_hands_out_what_has_arrived_once():
    source = TableSource(some_jobs(4, arrivals=[0.0, 5.0, 5.0, 9.0]))

    assert source.peek() == 0.0
    assert len(source.take(5.0)) == 3
    assert source.take(5.0) is None
    assert source.peek() == 9.0
    assert len(source.take(math.inf)) == 1
    assert source.peek() == math.inf


def test_a_source_goes_on_where_the_snapshot_was_taken():
    jobs = some_jobs(4, arrivals=[0.0, 1.0, 2.0, 3.0])
    source, later = TableSource(jobs), TableSource(jobs)
    source.take(1.0)

    later.restore(source.snapshot())

    assert later.peek() == 2.0
    assert later.take(9.0).submitted.tolist() == [2.0, 3.0]


@pytest.mark.parametrize("column", ["profile", "gpus", "total_steps", "submitted", "weight", "tenant", "launch"])
def test_every_column_has_one_entry_per_job(column):
    assert len(getattr(some_jobs(5), column)) == 5
