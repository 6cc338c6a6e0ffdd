"""A queue that grows for ever is told from one that only fluctuates."""

import numpy as np
import pytest

import rota
from builders import ids, some_jobs
from rota.analysis.overload import Overload, standard_errors
from rota.core.events import JobsFinished, JobsSubmitted

STREAM = {"workload": "gavel-continuous", "cluster": "v100=8", "policy": "fifo"}


def simulated(load, *, mode="auto", measure=(900, 1000), seed=0, **settings):
    how = {"interarrival_s": 3600 / load, **settings}
    return rota.simulate(**STREAM, settings=how, seed=seed, measure=measure, guard=Overload(mode))


def test_a_run_far_beyond_capacity_is_stopped_early_with_the_numbers():
    guard = Overload("auto")

    result = rota.simulate(**STREAM, settings={"interarrival_s": 900}, measure=(5000, 6000), guard=guard)

    assert "queue keeps growing" in result.stopped
    assert result.summary["jobs_submitted"] < 1500
    assert guard.numbers()["demand_gpus"] >= 3 * 8
    assert guard.numbers()["offered_over_served"] > 1.03


def test_the_same_run_is_stopped_in_the_same_place():
    first, second = (simulated(4.0, measure=(5000, 6000)) for _ in range(2))

    assert first.stopped == second.stopped
    assert first.summary["makespan_s"] == second.summary["makespan_s"]


@pytest.mark.parametrize("seed", range(3))
def test_a_busy_cluster_that_keeps_up_is_left_alone(seed):
    result = simulated(0.42, measure=(2400, 2500), seed=seed)

    assert result.stopped is None
    assert result.summary["utilization"] > 0.75


def test_a_workload_with_an_end_is_watched_only_when_asked():
    assert simulated(4.0, jobs=600, measure=None).stopped is None
    assert simulated(4.0, jobs=600, measure=None, mode="on").stopped is not None


def test_off_means_off():
    assert simulated(4.0, mode="off", measure=(300, 400)).stopped is None


def walk(rng, drift, steps=4000):
    """A queue in jobs: up at each arrival, down by Poisson departures."""
    level, path = 0.0, []
    for left in rng.poisson(1 - drift, steps):
        level = max(0.0, level + 1 - left)
        path.append(level)
    return np.array(path)


def test_walks_without_a_drift_stay_below_the_threshold_and_those_with_one_do_not():
    rng = np.random.default_rng(0)

    calm = [standard_errors(walk(rng, 0.0)) for _ in range(300)]
    growing = [standard_errors(walk(rng, 0.2)) for _ in range(50)]

    assert max(calm) < 7
    assert min(growing) > 7


def test_a_batch_at_the_start_that_is_worked_off_is_no_overload():
    guard = Overload("on")
    guard.begin(4, endless=False)
    guard.observe(JobsSubmitted(at=0.0, first_id=0, jobs=some_jobs(500)))
    for job in range(500):
        guard.observe(JobsFinished(at=1.0, jobs=ids(job), finished_at=np.array([1.0])))
    guard.observe(JobsSubmitted(at=2.0, first_id=500, jobs=some_jobs(100)))

    assert guard.verdict() is None
