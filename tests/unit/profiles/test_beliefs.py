"""Speeds that a scheduler has to find out: what it believes before, and what it makes of what it sees."""

import math

import numpy as np
import pytest

import rota
from rota.core.errors import ConfigError, UnknownName
from rota.profiles import load
from rota.profiles.beliefs import UNKNOWN, BelievedCatalogue
from rota.profiles.inference import completed
from rota.profiles.settings import estimated

RUN = {
    "workload": "gavel-continuous",
    "settings": {"interarrival_s": 900, "jobs": 80},
    "cluster": "v100=4,p100=4,k80=4",
    "seed": 3,
}
MISTAKEN = {"unprofiled_fraction": 0.3, "wrong_fraction": 0.2}
TYPES = ("k80", "p100", "v100")


@pytest.fixture(scope="module")
def gavel():
    return load("gavel")


def test_fractions_of_the_jobs_have_no_profile_or_a_wrong_one(gavel):
    beliefs = [BelievedCatalogue(gavel, **MISTAKEN, seed=5).belief(draw) for draw in range(4000)]

    assert beliefs.count(UNKNOWN) / 4000 == pytest.approx(0.3, abs=0.03)
    assert beliefs.count("too fast") / 4000 == pytest.approx(0.1, abs=0.02)
    assert beliefs.count("too slow") / 4000 == pytest.approx(0.1, abs=0.02)
    assert beliefs == [BelievedCatalogue(gavel, **MISTAKEN, seed=5).belief(draw) for draw in range(4000)]


def test_a_wrong_profile_is_off_by_the_factor_and_the_first_measurement_mends_all_types(gavel):
    speeds = BelievedCatalogue(gavel, wrong_fraction=1.0, wrong_factor=3.0)
    true = {gpu_type: gavel.rate("A3C", 1, gpu_type) for gpu_type in TYPES}

    assert speeds.believed_rate("A3C", "too fast", 1, "k80") == pytest.approx(3 * true["k80"])
    assert speeds.believed_rate("A3C", "too slow", 1, "k80") == pytest.approx(true["k80"] / 3)
    assert speeds.after_measuring("A3C", "too fast", 1, {"p100": true["p100"]}, TYPES) == pytest.approx(true)


def test_a_job_without_a_profile_is_taken_to_be_like_the_models_that_are_known(gavel):
    rates = [gavel.rate(name, 1, "v100") for name in gavel.names if gavel.measured(name, 1, "v100")]
    usual = math.exp(np.log([rate for rate in rates if rate > 0]).mean())

    assert BelievedCatalogue(gavel).believed_rate("A3C", UNKNOWN, 1, "v100") == pytest.approx(usual)


def test_other_types_are_estimated_from_models_that_are_alike_and_measurements_stay(gavel):
    errors = []
    for name in gavel.names:
        true = {gpu_type: gavel.rate(name, 1, gpu_type) for gpu_type in TYPES}
        if min(true.values()) <= 0:
            continue
        rates = completed(gavel, 1, {"v100": true["v100"]}, TYPES)
        assert rates["v100"] == true["v100"]
        errors += [abs(math.log(rates[gpu_type] / true[gpu_type])) for gpu_type in ("k80", "p100")]
        more = completed(gavel, 1, {"v100": true["v100"], "k80": true["k80"]}, TYPES)
        assert more["k80"] == true["k80"]

    assert np.median(errors) < math.log(1.6)


def test_renaming_types_changes_no_estimate(gavel):
    rates = completed(gavel, 1, {"v100": 2.0}, TYPES)
    other_order = completed(gavel, 1, {"v100": 2.0}, TYPES[::-1])

    assert rates == pytest.approx(other_order, rel=1e-12)


def test_without_mistakes_a_run_is_the_run_with_the_catalogue():
    plain = rota.simulate(**RUN, policy="srtf-perf")
    believed = rota.simulate(**RUN, policy="srtf-perf", profile_settings={"unprofiled_fraction": 0.0})

    assert believed.summary["mean_jct_s"] == plain.summary["mean_jct_s"]
    assert believed.summary["makespan_s"] == plain.summary["makespan_s"]


@pytest.mark.parametrize("policy", ["srtf-perf", "max-min-fairness-perf", "finish-time-fairness-perf"])
def test_what_is_learned_is_worth_nearly_as_much_as_the_truth(policy):
    """Asked: at most 10 % longer mean JCT with 30 % of the jobs unprofiled and 20 % wrong by a factor of 2."""
    true = rota.simulate(**RUN, policy=policy).summary["mean_jct_s"]
    learned = rota.simulate(**RUN, policy=policy, profile_settings=MISTAKEN).summary["mean_jct_s"]

    assert learned <= 1.1 * true


def test_jobs_progress_at_their_true_speed_whatever_is_believed():
    """One job alone: the end is steps over the true rate."""
    settings = {"wrong_fraction": 1.0, "wrong_factor": 7.0, "learn": False}
    run = {**RUN, "settings": {"interarrival_s": 1e7, "jobs": 5}, "policy": "fifo"}
    true = rota.simulate(**run)
    believed = rota.simulate(**run, profile_settings=settings)

    assert believed.summary["mean_jct_s"] == pytest.approx(true.summary["mean_jct_s"])


def test_a_run_that_learns_goes_on_from_its_checkpoint_and_replays_from_its_log(tmp_path):
    run = {**RUN, "policy": "srtf-perf", "profile_settings": MISTAKEN}
    whole = rota.simulate(**run, events=tmp_path / "log.jsonl")
    rota.simulate(**run, until=200_000.0, checkpoint=tmp_path / "part")
    resumed = rota.simulate(**run, resume=tmp_path / "part")

    assert resumed.summary["mean_jct_s"] == pytest.approx(whole.summary["mean_jct_s"], rel=1e-12)
    assert rota.replay(tmp_path / "log.jsonl").summary["mean_jct_s"] == whole.summary["mean_jct_s"]
    assert '"event":"SpeedsLearned"' in (tmp_path / "log.jsonl").read_text()


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"unprofiled_fraction": 1.5}, "is no fraction"),
        ({"wrong_fraction": "nan"}, "wrong_fraction"),
        ({"unprofiled_fraction": 0.7, "wrong_fraction": 0.7}, "more than 1 together"),
        ({"wrong_fraction": 0.1, "wrong_factor": 0.5}, "is not above 1"),
        ({"wrong_fraction": 0.1, "profiled_fraction": 0.5}, "cannot be used together"),
    ],
)
def test_settings_that_make_no_sense_are_refused_by_name(gavel, settings, said):
    with pytest.raises(ConfigError, match=said):
        estimated(gavel, settings, 0)


def test_an_unknown_setting_is_answered_with_the_nearest(gavel):
    with pytest.raises(UnknownName, match="wrong_fraction"):
        estimated(gavel, {"wrong_fractoin": 0.1}, 0)
