"""Another trace out of one: some of its jobs, more of the same, or the same without names."""

import numpy as np
import pytest

from rota.core.errors import ConfigError
from rota.core.jobs import Launch, requests, table
from rota.workloads.anonymity import anonymize
from rota.workloads.distributions import arrivals, by_name, durations, gpu_counts, histograms
from rota.workloads.losses import lost
from rota.workloads.sampling import sample
from rota.workloads.synthesis import fit_arrivals, synthesize

HOUR, DAY = 3600.0, 86400.0


def a_week(seed=0, days=14, night=0.1):
    """Jobs that arrive by day ten times as often as by night."""
    random = np.random.default_rng(seed)
    at = np.sort(random.uniform(0, days * DAY, 60 * days))
    by_day = (at % DAY) < 12 * HOUR
    at = at[by_day | (random.random(len(at)) < night)]
    at = np.concatenate(([0.0], at))
    count = len(at)
    return table(
        profile_names=random.choice(["res50", "gnmt"], count).tolist(),
        gpus=random.choice([1, 2, 8], count),
        total_steps=random.lognormal(8, 1, count),
        submitted=at,
        duration=random.lognormal(7, 1, count),
        slo=np.where(random.random(count) < 0.5, 2.0, np.nan),
        tenant_names=random.choice(["ann", "bob"], count).tolist(),
        launch=[Launch("python secret.py", "/home/ann", "-n", needs_data_dir=True)] * count,
        requests=requests(count, cpus=random.choice([4.0, 8.0], count)),
    )


def names(jobs):
    return [jobs.tenants[t] for t in jobs.tenant]


def test_a_sample_is_some_of_the_jobs_at_their_own_times():
    jobs = a_week()

    some = sample(jobs, count=50, seed=1)

    assert len(some) == 50
    assert (np.diff(some.submitted) >= 0).all()
    offset = set(np.round(some.duration, 9))
    assert offset <= set(np.round(jobs.duration, 9))
    assert some.submitted[0] == 0
    assert np.array_equal(sample(jobs, count=50, seed=1).duration, some.duration)
    assert not np.array_equal(sample(jobs, count=50, seed=2).duration, some.duration)
    assert len(some.requests.cpus) == 50


def test_a_window_keeps_every_job_in_it_and_their_deadlines():
    jobs = a_week()

    part = sample(jobs, from_s=DAY, to_s=2 * DAY)

    inside = (jobs.submitted >= DAY) & (jobs.submitted < 2 * DAY)
    assert part.duration.tolist() == jobs.duration[inside].tolist()
    assert np.allclose(part.deadline - part.submitted, (jobs.deadline - jobs.submitted)[inside])


def test_a_fraction_can_keep_the_load():
    jobs = a_week()

    thin, dense = (sample(jobs, fraction=0.25, keep_load=keep) for keep in (False, True))

    assert len(thin) == len(dense) == round(len(jobs) / 4)
    assert dense.submitted == pytest.approx(thin.submitted * len(thin) / len(jobs))


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"count": 10**6}, "cannot be drawn; give 1 to"),
        ({"fraction": 1.5}, "is not a part of the jobs"),
        ({"count": 1, "fraction": 0.5}, "not both"),
        ({"from_s": 1e9}, "no job arrives between"),
    ],
)
def test_a_sample_that_cannot_be_drawn_is_refused(asked, message):
    with pytest.raises(ConfigError, match=message):
        sample(a_week(), **asked)


def test_new_jobs_follow_from_the_seed():
    one, same, two = (synthesize(a_week(), count=300, seed=s) for s in (1, 1, 2))

    assert np.array_equal(one.submitted, same.submitted)
    assert np.array_equal(one.duration, same.duration)
    assert not np.array_equal(one.submitted, two.submitted)


def test_new_jobs_keep_the_rate_the_daily_wave_and_the_mix():
    jobs = a_week()

    new = synthesize(jobs, hours=24 * 70, seed=3)

    by_day = np.mean(new.submitted % DAY < 12 * HOUR)
    assert by_day == pytest.approx(np.mean(jobs.submitted % DAY < 12 * HOUR), abs=0.03)
    assert len(new) / 70 == pytest.approx(len(jobs) / 14, rel=0.1)
    assert np.mean(new.gpus == 8) == pytest.approx(np.mean(jobs.gpus == 8), abs=0.05)
    assert np.median(new.duration) == pytest.approx(np.median(jobs.duration), rel=0.15)
    assert (np.diff(new.submitted) >= 0).all()
    assert new.submitted[-1] < 24 * 70 * HOUR
    assert np.isinf(new.deadline[np.isnan(new.slo)]).all()
    held = ~np.isnan(new.slo)
    assert new.deadline[held] == pytest.approx((new.submitted + new.slo * new.duration)[held])


def test_load_multiplies_arrivals_per_hour():
    jobs = a_week()

    once, twice = (len(synthesize(jobs, hours=240, load=load, seed=5)) for load in (1.0, 2.0))

    assert twice / once == pytest.approx(2, rel=0.15)


def test_without_jitter_jobs_are_rows_of_the_trace_in_blocks():
    jobs = a_week()

    new = synthesize(jobs, count=100, seed=0, jitter=0.0, block=10)

    where = [jobs.duration.tolist().index(d) for d in new.duration]
    steps = np.diff(np.array(where).reshape(10, 10), axis=1) % len(jobs)
    assert (steps == 1).all()


def test_a_steps_follow_the_duration():
    jobs = a_week()

    new = synthesize(jobs, count=100, seed=0, jitter=0.5)

    speeds = set(np.round(jobs.total_steps / jobs.duration, 6))
    assert set(np.round(new.total_steps / new.duration, 6)) <= speeds


def test_a_trace_that_arrives_at_once_gives_one_that_does():
    still = table(profile_names=["a"] * 3, gpus=[1] * 3, total_steps=[1] * 3, submitted=[0] * 3)

    assert synthesize(still, count=10).submitted.tolist() == [0.0] * 10
    with pytest.raises(ConfigError, match="give jobs"):
        synthesize(still, hours=5)


def test_gaps_are_one_on_average_when_measured_in_expected_arrivals():
    assert fit_arrivals(a_week().submitted).gaps.mean() == pytest.approx(1.0, rel=0.05)


@pytest.mark.parametrize(
    "asked",
    [{}, {"count": 1, "hours": 1}, {"count": 1, "load": 0}, {"count": 1, "jitter": 1}, {"count": 1, "block": 0}],
)
def test_settings_of_synthesize_are_checked(asked):
    with pytest.raises(ConfigError, match="give"):
        synthesize(a_week(), **asked)


def test_names_and_commands_are_gone_and_everything_else_is_there():
    jobs = a_week()

    hidden = anonymize(jobs)

    assert set(hidden.tenants) == {"tenant-1", "tenant-2"}
    assert {(a, b) for a, b in zip(names(jobs), names(hidden), strict=True)} == {
        (jobs.tenants[0], "tenant-1"),
        (jobs.tenants[1], "tenant-2"),
    }
    assert hidden.launches == (Launch("command-1", "", "", needs_data_dir=True),)
    assert hidden.profiles == jobs.profiles
    assert hidden.duration.tolist() == jobs.duration.tolist()


def test_a_key_gives_the_same_pseudonyms_in_every_file_and_another_key_others():
    first, second = sample(a_week(), count=20), sample(a_week(), count=20, seed=9)

    one, same, other = anonymize(first, key="k"), anonymize(second, key="k"), anonymize(first, key="l")

    assert set(one.tenants) == set(same.tenants)
    assert not set(one.tenants) & set(other.tenants)
    assert "ann" not in "".join(one.tenants)
    with pytest.raises(ConfigError, match="the key is empty"):
        anonymize(first, key="")


def test_times_begin_at_zero_and_can_be_rounded():
    jobs = table(
        profile_names=["a", "a"],
        gpus=[1, 1],
        total_steps=[10.0, 100.0],
        submitted=[1000.0, 1119.0],
        duration=[5.0, 100.0],
        slo=[2.0, np.nan],
    )

    hidden = anonymize(jobs, round_s=60, models=True)

    assert hidden.submitted.tolist() == [0.0, 60.0]
    assert hidden.duration.tolist() == [60.0, 120.0]
    assert hidden.total_steps.tolist() == [120.0, 120.0]
    assert hidden.deadline.tolist() == [120.0, np.inf]
    assert hidden.profiles == ("model-1",)
    with pytest.raises(ConfigError, match="round"):
        anonymize(jobs, round_s=0)


def test_histograms_count_every_job_once():
    jobs = a_week()

    found = histograms(jobs)

    assert set(found) == {"arrivals", "hour_of_day", "durations", "gpus", "tenants", "models"}
    assert all(sum(h.counts) == len(jobs) and len(h.counts) == len(h.labels) for h in found.values())


def test_bars_have_round_edges():
    at = np.array([0.0, 10.0, 3599.0, 3600.0, 30 * HOUR])

    assert arrivals(at[:4]).counts == (3, 1)
    assert arrivals(at).labels[:2] == ("0-2 h", "2-4 h")
    assert durations(np.array([59.0, 60.0, 7200.0, np.nan])).counts == (1, 1, 0, 0, 0, 1)
    assert durations(np.array([np.nan])).counts == ()
    assert gpu_counts(np.array([1, 1, 64])).labels == ("1", "64")
    assert gpu_counts(np.arange(1, 40)).labels == ("1", "2-3", "4-7", "8-15", "16-31", "32-63")
    many = by_name("x", [f"t{n}" for n in range(20)], np.arange(20))
    assert many.labels[-1] == "(8 others)"
    assert sum(many.counts) == 20


@pytest.mark.parametrize(
    ("form", "gone"),
    [
        ("csv", []),
        ("gavel", ["durations", "tenants", "CPU and memory requests"]),
        ("synergy", ["durations", "tenants", "commands", "CPU and memory requests"]),
        ("swf", ["commands", "CPU and memory requests"]),
    ],
)
def test_what_a_format_has_no_place_for_is_known(form, gone):
    assert lost(a_week(), form) == gone
