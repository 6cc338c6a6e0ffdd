"""Two runs compared: what is counted, what is refused, and how often the verdict is wrong."""

import math

import numpy as np
import pytest
from scipy import stats

from rota.analysis import student
from rota.analysis.comparison import Estimate, block_length, compare_jobs, mean_ratio, ratio_of_means
from rota.core.errors import ConfigError


def a_run(times, **columns):
    times = np.asarray(times, dtype=float)
    return {"job_id": np.arange(len(times)), "arrival_s": 10.0 * np.arange(len(times)), "jct_s": times, **columns}


def correlated(rng, count, rho):
    """A series whose neighbours resemble each other, with mean 0 and variance 1."""
    shocks = rng.normal(size=count) * math.sqrt(1 - rho * rho)
    series = np.empty(count)
    series[0] = rng.normal()
    for i in range(1, count):
        series[i] = rho * series[i - 1] + shocks[i]
    return series


@pytest.mark.parametrize("freedom", [1, 2, 3, 4, 9, 30, 31, 500, 9_999, 20_000])
@pytest.mark.parametrize("confidence", [0.5, 0.95, 0.99])
def test_quantiles_of_student_are_those_of_scipy(freedom, confidence):
    expected = stats.t.ppf((1 + confidence) / 2, freedom)

    assert student.quantile(confidence, freedom) == pytest.approx(expected, rel=2e-4 if freedom > 10_000 else 1e-9)


def test_jobs_that_gain_lose_and_stay_equal_are_counted_and_named():
    a = a_run([100.0, 50.0, 10.0, 7.0, 20.0])
    b = a_run([10.0, 60.0, 10.0 + 1e-9, 6.0, 120.0])

    found = compare_jobs(a, b)

    assert (found.jobs, found.gained, found.lost, found.equal) == (5, 2, 2, 1)
    assert [c.job_id for c in found.most_gained] == [0, 3]
    assert [(c.job_id, c.a_s, c.b_s) for c in found.most_lost] == [(4, 20.0, 120.0), (1, 50.0, 60.0)]
    assert (found.a.mean_s, found.a.median_s) == (pytest.approx(37.4), 20.0)
    assert found.a.p99_s == pytest.approx(np.percentile([100.0, 50.0, 10.0, 7.0, 20.0], 99))
    assert found.mean.ratio == pytest.approx(206.0 / 187.0)


def test_only_jobs_that_count_in_both_runs_are_compared():
    a = a_run([5.0, 6.0, np.nan, 8.0], measured=np.array([0, 1, 0, 1]))
    b = a_run([1.0, 3.0, 4.0, 4.0, 9.0], measured=np.array([True, True, True, True, True]))

    found = compare_jobs(a, b)

    assert (found.jobs, found.only_a, found.only_b) == (2, 0, 3)
    assert found.mean.ratio == 0.5


def test_rows_may_stand_in_any_order():
    rng = np.random.default_rng(5)
    a, b = a_run(rng.exponential(size=60)), a_run(rng.exponential(size=60))
    order = rng.permutation(60)

    assert compare_jobs(a, {k: v[order] for k, v in b.items()}) == compare_jobs(a, b)


def test_different_arrivals_are_refused_with_the_first_job_that_differs():
    a, b = a_run([1.0, 2.0, 3.0]), a_run([1.0, 2.0, 3.0])
    b["arrival_s"] = np.array([0.0, 10.0, 25.0])

    with pytest.raises(ConfigError, match=r"job 2 arrives at 20 s in one\.csv and arrives at 25 s in two\.csv"):
        compare_jobs(a, b, names=("one.csv", "two.csv"))


def test_different_sizes_are_refused_even_if_all_jobs_arrive_at_once():
    a, b = a_run([1.0, 2.0], gpus=np.array([1, 4])), a_run([1.0, 2.0], gpus=np.array([1, 8]))

    with pytest.raises(ConfigError, match="job 1 asks for 4 GPUs"):
        compare_jobs(a, b)


def test_another_number_of_steps_is_told():
    a, b = a_run([1.0, 2.0], steps=np.array([10.0, 20.0])), a_run([1.0, 2.0], steps=np.array([10.0, 21.0]))

    assert compare_jobs(a, b).other_work == 1


@pytest.mark.parametrize(
    ("a", "b", "says"),
    [
        (a_run([np.nan, 1.0]), a_run([1.0, np.nan]), "no job finished"),
        (a_run([1.0]), {**a_run([1.0]), "job_id": np.array([7])}, "no job in common"),
        ({**a_run([1.0, 2.0]), "job_id": np.array([3, 3])}, a_run([1.0]), "job 3 is there twice"),
        (a_run([0.0, 0.0]), a_run([1.0, 1.0]), "every job took 0 s"),
    ],
)
def test_what_cannot_be_compared_is_refused(a, b, says):
    with pytest.raises(ConfigError, match=says):
        compare_jobs(a, b)


def test_a_run_equals_itself_and_a_constant_factor_has_no_noise():
    times = np.random.default_rng(1).exponential(size=100)

    same = compare_jobs(a_run(times), a_run(times)).mean
    twice = compare_jobs(a_run(times), a_run(2 * times)).mean

    assert (same, same.verdict()) == (Estimate(ratio=1.0, low=1.0, high=1.0), "no difference")
    assert (twice.low, twice.high) == (pytest.approx(2.0), pytest.approx(2.0))
    assert twice.verdict() == "A is 50 % faster, beyond noise"


def test_few_jobs_have_no_interval():
    mean = compare_jobs(a_run([2.0] * 10), a_run([1.0] * 10)).mean

    assert (mean.low, mean.high, mean.beyond_noise) == (None, None, None)
    assert "too little to tell" in mean.verdict()


@pytest.mark.parametrize(
    ("estimate", "says"),
    [
        (Estimate(ratio=0.88, low=0.8, high=0.95), "las is 12 % faster, beyond noise"),
        (Estimate(ratio=1 / 0.965, low=1.01, high=1.1), "fifo is 3.5 % faster, beyond noise"),
        (Estimate(ratio=0.9, low=0.7, high=1.0), "no difference beyond noise"),
    ],
)
def test_the_verdict_names_the_faster_one(estimate, says):
    assert estimate.verdict("fifo", "las") == says


def test_blocks_are_wrong_seldom_where_single_jobs_are_wrong_often():
    """Runs without any true difference, whose neighbouring jobs are correlated: about 5 % may look different."""
    count, trials = 400, 200
    wrong = {1: 0, block_length(count): 0}
    for seed in range(trials):
        rng = np.random.default_rng(seed)
        a, b = (100.0 + 20.0 * correlated(rng, count, 0.8) for _ in range(2))
        for block in wrong:
            wrong[block] += bool(ratio_of_means(a, b, block=block, seed=seed).beyond_noise)

    assert wrong[20] <= 0.12 * trials
    assert wrong[1] >= 0.3 * trials


def test_the_same_input_gives_the_same_interval():
    rng = np.random.default_rng(2)
    a, b = rng.exponential(size=101), rng.exponential(size=101)

    assert ratio_of_means(a, b, block=10) == ratio_of_means(a, b, block=10)
    assert ratio_of_means(a, b, block=10) != ratio_of_means(a, b, block=10, seed=1)


def test_ratios_of_several_seeds_have_the_interval_of_student():
    ratios = [0.8, 0.9, 0.7, 0.85]
    expected = stats.t.interval(0.95, 3, loc=np.log(ratios).mean(), scale=stats.sem(np.log(ratios)))

    found = mean_ratio(ratios)

    assert (found.low, found.high) == pytest.approx(tuple(np.exp(expected)))
    assert found.ratio == pytest.approx(stats.gmean(ratios))
    assert mean_ratio([0.5]) == Estimate(ratio=0.5)
