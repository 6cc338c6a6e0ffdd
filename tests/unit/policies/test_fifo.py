"""First in, first out, on whatever type has room."""

import numpy as np

from builders import a_cluster, a_run, a_view, some_jobs
from rota.core.events import JobsFinished, Planned
from rota.core.horizon import UNTIL_JOBS_LEAVE
from rota.policies.registry import policies


def order_of(view):
    return policies.create("fifo").allocate(view).order.tolist()


def test_the_queue_is_in_order_of_arrival():
    assert order_of(a_view(some_jobs(3, arrivals=[5.0, 1.0, 3.0]))) == [1, 2, 0]


def test_ties_go_to_the_smaller_id():
    assert order_of(a_view(some_jobs(3, arrivals=[2.0, 2.0, 1.0]))) == [2, 0, 1]


def test_it_sees_no_types_and_promises_no_shares():
    allocation = policies.create("fifo").allocate(a_view(2))

    assert not allocation.traits.aware
    assert allocation.horizon is UNTIL_JOBS_LEAVE
    assert not allocation.share.any()


def test_jobs_are_served_one_after_the_other():
    run = a_run(some_jobs(3, steps=4.0 * 360), policy="fifo", cluster=a_cluster(v100=1))

    assert [run.finished[j] for j in range(3)] == [360.0, 720.0, 1080.0]


def test_a_small_job_overtakes_a_large_one_that_does_not_fit():
    jobs = some_jobs(3, gpus=[1, 2, 1], steps=[4000.0, 400.0, 400.0], arrivals=[0.0, 0.0, 0.0])

    run = a_run(jobs, policy="fifo", cluster=a_cluster(v100=2, per_server=2))

    assert run.finished[2] < run.finished[1]


def test_nobody_is_stopped_for_a_later_job():
    jobs = some_jobs(4, steps=np.array([9000.0, 50.0, 9000.0, 50.0]), arrivals=[0.0, 400.0, 800.0, 1200.0])

    run = a_run(jobs, policy="fifo", cluster=a_cluster(v100=1))

    done = set()
    for event in run.of((JobsFinished, Planned)):
        if isinstance(event, JobsFinished):
            done |= set(event.jobs.tolist())
        else:
            assert set(event.plan.stop) <= done
    assert list(run.finished) == [0, 1, 2, 3]
