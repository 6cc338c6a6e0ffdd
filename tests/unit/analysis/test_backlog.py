"""Work that is left tells an overload that only long jobs feel, and leaves a busy cluster alone."""

import math

import numpy as np
import pytest

import rota
from builders import a_cluster, a_state, shares, some_jobs
from rota.analysis.backlog import Rise, dispersion
from rota.analysis.overload import Overload, OverloadLimits
from rota.core.allocation import Traits
from rota.core.events import Allocated, JobsSubmitted

HOUR = 3600.0
GPUS = 8
MEAN_WORK_H = 16.767
"""Of a job of Gavel's stream on a V100."""
DEMAND_ONLY = OverloadLimits(chance=1e-300)


def simulated(load, policy="srtf", *, cluster=f"v100={GPUS}", guard=None, measure=(2900, 3000), seed=0, **more):
    """A load of 1 is as much work as the cluster can do."""
    settings = {"interarrival_s": MEAN_WORK_H * HOUR / GPUS / load}
    how = {"workload": "gavel-continuous", "settings": settings, "cluster": cluster, "policy": policy}
    return rota.simulate(**how, round_s=HOUR, seed=seed, measure=measure, guard=guard or Overload(), **more)


def test_an_overload_that_only_long_jobs_feel_is_found_in_their_work_and_much_earlier_than_in_gpus():
    guard, by_gpus = Overload(), Overload(limits=DEMAND_ONLY)

    result = simulated(1.2, guard=guard, measure=(30_000, 30_001))
    twice = 2 * result.summary["makespan_s"]
    late = simulated(1.2, guard=by_gpus, measure=(30_000, 30_001), until=twice)

    assert "GPU hours" in result.stopped
    assert guard.numbers()["log10_chance"] < -6
    assert guard.numbers()["work_rise_gpu_h"] < guard.numbers()["work_left_gpu_h"]
    assert late.stopped is None


@pytest.mark.parametrize("policy", ["fifo", "srtf", "las"])
@pytest.mark.parametrize("seed", range(2))
def test_a_busy_cluster_that_keeps_up_is_left_alone(policy, seed):
    result = simulated(0.9, policy, seed=seed)

    assert result.stopped is None
    assert result.summary["utilization"] > 0.8


def test_a_run_that_is_left_alone_is_the_same_as_without_a_guard():
    watched, free = simulated(0.9), simulated(0.9, guard=Overload("off"))

    assert watched.summary["rounds"] == free.summary["rounds"]
    for name, column in free.jobs.items():
        assert np.array_equal(watched.jobs[name], column, equal_nan=column.dtype.kind == "f"), name


def test_a_run_that_ends_before_an_overload_is_proved_says_so():
    slight, busy = simulated(1.2, "fifo", measure=(2400, 2500)), simulated(0.9, "fifo", measure=(2400, 2500))

    assert slight.stopped is None
    assert any("at the limit of the cluster" in note for note in slight.notes)
    assert busy.notes == []


def test_a_run_that_goes_on_from_a_checkpoint_is_stopped_in_the_same_place(tmp_path):
    saved = tmp_path / "run.ckpt"
    whole = simulated(1.3, measure=(30_000, 30_001))
    half = whole.summary["makespan_s"] / 2
    simulated(1.3, measure=(30_000, 30_001), checkpoint=saved, checkpoint_every=half)

    resumed = simulated(1.3, measure=(30_000, 30_001), resume=saved)

    assert resumed.stopped == whole.stopped
    assert resumed.summary["makespan_s"] == whole.summary["makespan_s"]


def flooded(count, *, packs=False, gpus=300):
    """The guard of a cluster on which nobody runs while jobs of 10,000 seconds come one by one."""
    state = a_state(0, cluster=a_cluster(v100=gpus))
    guard = Overload("on", OverloadLimits(turnover=1.0))
    guard.begin(gpus, endless=True)
    guard.follow(state)
    answer = shares(state.view(0.0), [], traits=Traits(packs=packs))
    guard.observe(Allocated(at=0.0, allocation=answer))
    for job in range(count):
        event = JobsSubmitted(at=float(job), first_id=job, jobs=some_jobs(1, steps=40_000.0, arrivals=float(job)))
        state.apply(event)
        guard.observe(event)
    return guard


def test_a_second_job_per_gpu_is_a_backlog_only_where_jobs_cannot_share():
    assert flooded(590).verdict() is not None
    assert flooded(590, packs=True).verdict() is None
    assert flooded(890, packs=True).verdict() is not None


def test_work_up_to_the_size_of_the_cluster_is_no_backlog():
    assert flooded(299).verdict() is None


@pytest.mark.parametrize("level", [1.0, 2.0, 3.0])
def test_the_chance_of_a_rise_at_the_load_in_question_is_what_it_is_said_to_be(level):
    rng = np.random.default_rng(0)
    load, walkers = 0.95, 4000
    rise = np.zeros(walkers)
    for _ in range(6000):
        rise = np.maximum(0.0, rise + rng.exponential(1.0, walkers) - rng.exponential(1.0 / load, walkers))

    seen = np.mean(
        [Rise(left_s=r, rise_s=r, mean_s=1.0, dispersion=2.0).evidence(load) >= level for r in rise.tolist()]
    )

    assert seen == pytest.approx(math.exp(-level), rel=0.25)


def arrivals(rng, count=4000, rhythm=0.0):
    """A Poisson stream whose rate goes up and down some times; exponential work."""
    gaps = rng.exponential(1.0, count) / (1.0 + rhythm * np.sin(np.linspace(0, 12 * math.pi, count)))
    return np.cumsum(gaps), rng.exponential(1.0, count)


def test_the_dispersion_is_two_for_exponential_gaps_and_work_and_more_with_a_rhythm():
    rng = np.random.default_rng(1)

    plain = [dispersion(*arrivals(rng)) for _ in range(20)]
    rhythm = [dispersion(*arrivals(rng, rhythm=0.8)) for _ in range(20)]

    assert np.mean(plain) == pytest.approx(2.0, rel=0.2)
    assert min(rhythm) > 5 * max(plain)


def test_equal_works_at_equal_gaps_have_no_dispersion_and_jobs_at_once_no_end_of_it():
    assert dispersion(np.arange(4001.0), np.ones(4001)) < 0.02
    assert dispersion(np.zeros(100), np.ones(100)) == math.inf


def test_one_giant_job_is_no_overload():
    work = np.ones(4000)
    work[2000] = 1000.0

    rise = Rise(left_s=1000.0, rise_s=1000.0, mean_s=work.mean(), dispersion=dispersion(np.arange(4000.0), work))

    assert rise.evidence(0.95) < 2
