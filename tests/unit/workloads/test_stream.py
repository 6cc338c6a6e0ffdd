import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rota.core.errors import ConfigError
from rota.core.jobs import COLUMNS, TableSource
from rota.workloads import materialise, workload
from rota.workloads.stream import joined


def a_stream(**settings):
    return workload("gavel-continuous", interarrival_s=100, **settings)


def assert_same(a, b):
    assert all(np.array_equal(getattr(a, c), getattr(b, c), equal_nan=True) for c in COLUMNS)


@settings(deadline=None)
@given(st.lists(st.floats(0, 20_000), min_size=1, max_size=5))
def test_taking_in_parts_gives_the_same_jobs_as_taking_at_once(gaps):
    source, times = a_stream(), np.cumsum(gaps)

    parts = [part for part in map(source.take, times.tolist()) if part is not None]

    assert_same(joined(parts), a_stream().take(float(times[-1])))


def test_peek_tells_the_next_arrival_and_takes_nothing():
    source = a_stream()

    assert source.peek() == source.peek() == 0.0
    assert len(source.take(source.peek())) == 1
    assert source.take(0.0) is None
    assert source.peek() > 0


def test_every_taken_job_has_arrived_and_the_next_has_not():
    source = a_stream()

    taken = source.take(1e6)

    assert taken.submitted[-1] <= 1e6 < source.peek()
    assert len(taken) > 9000


def test_a_finite_stream_ends():
    source = a_stream(jobs=300)

    assert len(source.take(np.inf)) == 300
    assert source.peek() == np.inf
    assert source.take(np.inf) is None
    with pytest.raises(ConfigError, match="no jobs left"):
        materialise(source, 1)


def test_an_endless_stream_refuses_to_be_taken_whole():
    with pytest.raises(ConfigError, match="endless"):
        materialise(a_stream())


def test_materialise_gives_the_first_jobs_of_any_source():
    jobs = materialise(a_stream(), 1000)

    assert len(jobs) == 1000
    assert_same(materialise(TableSource(jobs), 10), jobs.rows(0, 10))


@pytest.mark.parametrize("until", [0.0, 30_000.0, 500_000.0])
def test_a_restored_stream_goes_on_where_the_snapshot_was_taken(until):
    source = a_stream(multi_gpu=True, slos=True)
    source.take(until)
    saved = json.loads(json.dumps(source.snapshot()))

    fresh = a_stream(multi_gpu=True, slos=True)
    fresh.restore(saved)

    assert_same(fresh.take(until + 50_000), source.take(until + 50_000))
    assert fresh.snapshot() == source.snapshot()


def test_a_stream_can_be_restored_to_its_own_past():
    source = a_stream()
    start = source.snapshot()
    first = source.take(5000.0)

    source.restore(start)

    assert_same(source.take(5000.0), first)


def test_a_restored_table_goes_on_where_the_snapshot_was_taken():
    jobs = materialise(a_stream(), 50)
    source = TableSource(jobs)
    source.take(2000.0)

    fresh = TableSource(jobs)
    fresh.restore(source.snapshot())

    assert_same(fresh.take(np.inf), source.take(np.inf))
