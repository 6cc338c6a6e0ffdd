"""Which profile a job gets whose log does not say what it trains."""

import numpy as np
import pytest

from rota.core.errors import ConfigError
from rota.profiles import load
from rota.workloads.assign import STAND_INS, Assignment, Logged


def a_log(count=200, gpus=None, models=None):
    return Logged(
        submitted=np.arange(count, dtype=np.float64)[::-1] + 50,
        duration=np.linspace(60, 6000, count),
        gpus=np.ones(count, dtype=np.int64) if gpus is None else np.asarray(gpus),
        tenants=["default"] * count,
        models=models,
    )


def models_of(jobs):
    return [jobs.profiles[p] for p in jobs.profile]


def test_the_mix_has_no_chance_in_it_without_a_seed():
    first, again = (models_of(Assignment().jobs(a_log())) for _ in range(2))

    assert first == again
    assert first[:4] == ["alexnet", "gnmt", "transformer", "m5"]


def test_a_seed_shuffles_the_mix_and_keeps_its_counts():
    plain, one, same, two = (models_of(Assignment("mix", seed).jobs(a_log())) for seed in (None, 1, 1, 2))

    assert one == same
    assert one != two
    assert sorted(one) == sorted(two) == sorted(plain)


def test_jobs_are_sorted_by_arrival_and_begin_at_zero():
    jobs = Assignment().jobs(a_log(3))

    assert jobs.submitted.tolist() == [0.0, 1.0, 2.0]
    assert jobs.duration.tolist() == [6000.0, 3030.0, 60.0]


def test_random_profiles_were_measured_with_the_gpus_of_the_job():
    jobs = Assignment("random", 3, "gavel").jobs(a_log(gpus=[1, 2, 4, 8] * 50))
    catalogue = load("gavel")

    for name, gpus, steps, duration in zip(models_of(jobs), jobs.gpus, jobs.total_steps, jobs.duration, strict=True):
        assert steps == pytest.approx(duration * catalogue.rate(name, int(gpus), "v100"))
    assert models_of(jobs) == models_of(Assignment("random", 3, "gavel").jobs(a_log(gpus=[1, 2, 4, 8] * 50)))
    assert models_of(jobs) != models_of(Assignment("random", 4, "gavel").jobs(a_log(gpus=[1, 2, 4, 8] * 50)))


def test_one_profile_for_all_is_found_in_either_catalogue():
    for name, catalogue in (("res50", "synergy"), ("ResNet-50 (batch size 64)", "gavel")):
        jobs = Assignment(name).jobs(a_log(2))

        assert jobs.profiles == (name,)
        assert jobs.total_steps == pytest.approx(jobs.duration * load(catalogue).rate(name, 1, "v100"))


def test_gpus_that_were_not_measured_go_at_the_speed_of_the_next_smaller_number():
    jobs = Assignment("ResNet-50 (batch size 64)").jobs(a_log(1, gpus=[7]))

    assert jobs.total_steps[0] == pytest.approx(jobs.duration[0] * load("gavel").rate(jobs.profiles[0], 4, "v100"))


def test_stand_ins_are_profiles_that_were_measured():
    assert [name for name in STAND_INS.values() if not load("synergy").known(name)] == []


def test_models_that_are_known_stay_and_others_get_a_stand_in_or_the_mix():
    jobs = Assignment("like").jobs(a_log(3, models=["nobody-knows", "VGG16", "m5"]))

    assert models_of(jobs) == ["m5", "alexnet", "transformer"]


@pytest.mark.parametrize(
    ("assignment", "message"),
    [
        (Assignment("mux"), "assign = 'mux' is neither a rule"),
        (Assignment("keep"), "names no models"),
        (Assignment("mix", None, "gavel"), "give assign=random or a profile"),
    ],
)
def test_a_rule_that_cannot_be_followed_is_refused(assignment, message):
    with pytest.raises(ConfigError, match=message):
        assignment.jobs(a_log())
