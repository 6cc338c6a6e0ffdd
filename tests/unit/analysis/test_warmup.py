import numpy as np
import pytest

from rota.analysis.job_table import JobTable
from rota.analysis.warmup import LAST_LOOK, at_the_end, drift, mser, next_look, on_the_way, present
from rota.core.jobs import table

RNG = np.random.default_rng(7)


def filled(arrival, jct):
    """A table of jobs that ended; infinity is one that goes on."""
    arrival, jct = np.asarray(arrival, dtype=float), np.asarray(jct, dtype=float)
    found = JobTable()
    count = len(arrival)
    found.add(0, table(profile_names=["A3C"] * count, gpus=[1] * count, total_steps=[1.0] * count, submitted=arrival))
    done = np.flatnonzero(np.isfinite(jct))
    found.finish(done, (arrival + jct)[done])
    return found


def test_the_beginning_that_differs_is_cut_off():
    values = np.concatenate([np.linspace(0, 10, 100), 10 + RNG.normal(0, 0.5, 900)])

    assert 60 <= mser(values) <= 110


def test_nothing_is_cut_off_from_what_is_steady_from_the_start():
    assert mser(RNG.normal(5, 1, 1000)) <= 100
    assert mser(np.ones(100)) == 0


def test_a_ramp_has_no_steady_part():
    assert mser(np.arange(1000.0)) is None


def test_mser_minimises_the_error_as_written_down():
    values = np.array([9.0] * 5 + [1.0, 2.0] * 20)
    means = values.reshape(-1, 5).mean(axis=1)

    errors = [((means[d:] - means[d:].mean()) ** 2).sum() / (len(means) - d) ** 2 for d in range(len(means) - 2)]

    assert mser(values) == 5 * int(np.argmin(errors)) == 5


def test_a_drift_is_many_standard_errors_and_noise_few():
    assert drift(RNG.normal(0, 1, 2000)) < 3
    assert drift(np.arange(2000.0) + RNG.normal(0, 1, 2000)) > 3
    assert drift(np.ones(100)) == 0.0


def test_jobs_count_those_that_are_there_when_they_arrive():
    assert present(filled([0, 1, 2, 10], [5, 1, np.inf, 1]), 4).tolist() == [0, 1, 1, 1]


def test_the_window_of_a_workload_that_ends_leaves_out_both_ends():
    arrival = np.arange(2000.0)
    jct = np.full(2000, 100.0)

    window = at_the_end(filled(arrival, jct))

    assert window.steady
    assert 50 <= window.first <= 150
    assert window.last == 1900  # 100 s before the last arrival


def test_a_queue_that_only_grows_is_not_called_steady():
    arrival = np.arange(2000.0)

    window = at_the_end(filled(arrival, arrival))

    assert not window.steady
    assert "no steady state" in window.why


def test_few_jobs_and_jobs_that_come_at_once_all_count():
    few, at_once = at_the_end(filled(np.arange(50.0), np.ones(50))), at_the_end(filled(np.zeros(500), np.ones(500)))

    assert (few.range, few.steady) == ((0, 50), False)
    assert (at_once.range, at_once.steady) == ((0, 500), False)


def test_a_workload_without_an_end_is_decided_by_the_first_steady_look():
    arrival = np.arange(3000.0)
    steady = np.full(3000, 30.0) + RNG.normal(0, 1, 3000)

    assert on_the_way(filled(arrival[:1099], steady[:1099])) is None
    window = on_the_way(filled(arrival, steady))

    assert window.range == on_the_way(filled(arrival[:1100], steady[:1100])).range
    assert window.steady
    assert window.last == 1000


def test_after_the_last_look_the_second_half_counts():
    arrival = np.arange(1.1 * LAST_LOOK)

    window = on_the_way(filled(arrival, arrival))

    assert not window.steady
    assert window.range == (LAST_LOOK // 2, LAST_LOOK)


@pytest.mark.parametrize(("arrivals", "next_"), [(0, 1100), (1099, 1100), (1100, 2200), (5000, 8800)])
def test_looks_are_twice_as_far_apart_each_time(arrivals, next_):
    assert next_look(arrivals) == next_
