import numpy as np
import pytest

from rota import profiles
from rota.core.errors import ConfigError, ProfileMissing
from rota.core.jobs import table
from rota.profiles import Catalogue
from rota.workloads import with_durations

SPEEDS = Catalogue(
    "x",
    {("a", 1, "v100", False): 4.0, ("a", 2, "v100", False): 8.0, ("a", 1, "k80", False): 0.0},
    about={"reference": "v100"},
)


def some_jobs(**columns):
    return table(**{"profile_names": ["a"] * 2, "gpus": [1, 2], "submitted": [0, 10]} | columns)


def test_durations_and_deadlines_follow_from_steps():
    jobs = with_durations(some_jobs(total_steps=[40, 40], slo=[np.nan, 2]), SPEEDS)

    assert jobs.duration.tolist() == [10.0, 5.0]
    assert jobs.deadline.tolist() == [np.inf, 20.0]


def test_steps_follow_from_durations():
    jobs = with_durations(some_jobs(total_steps=[np.nan, 16], duration=[10, np.nan]), SPEEDS)

    assert jobs.total_steps.tolist() == [40.0, 16.0]
    assert jobs.duration.tolist() == [10.0, 2.0]


def test_complete_jobs_need_no_catalogue():
    jobs = table(profile_names=["?"], gpus=[1], submitted=[0], total_steps=[1], duration=[1])

    assert with_durations(jobs, SPEEDS) is jobs


def test_a_job_that_does_not_fit_the_reference_type_has_no_duration():
    jobs = table(profile_names=["a"], gpus=[1], submitted=[0], total_steps=[1], slo=[2])

    found = with_durations(jobs, SPEEDS, "k80")

    assert np.isnan(found.duration[0])
    assert found.deadline[0] == np.inf


def test_steps_cannot_follow_from_a_job_that_does_not_fit():
    jobs = table(profile_names=["a"], gpus=[1], submitted=[0], total_steps=[np.nan], duration=[3])

    with pytest.raises(ConfigError, match="job 0: 'a' with 1 GPUs has a duration but no steps"):
        with_durations(jobs, SPEEDS, "k80")


def test_an_unknown_profile_is_reported():
    with pytest.raises(ProfileMissing, match="'a'"):
        with_durations(some_jobs(total_steps=[1, 1]), profiles.load("gavel"))
