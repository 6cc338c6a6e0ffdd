"""Jobs of any catalogue."""

from collections import Counter

import numpy as np
import pytest

from rota import profiles
from rota.core.errors import ConfigError, UnknownName
from rota.core.jobs import COLUMNS
from rota.workloads import materialise, workload

CATALOGUES = ["arena", "gavel", "lambda", "mlperf", "sia", "zeus"]


def jobs_of(count=None, **settings):
    return materialise(workload("catalogue", jobs_per_hour=10, **settings), count)


@pytest.mark.parametrize("name", CATALOGUES)
def test_every_job_runs_somewhere_for_its_length(name):
    catalogue = profiles.load(name)
    reference = catalogue.reference_type or "v100"
    jobs = jobs_of(jobs=400, profiles=name, reference=reference)

    for job in range(len(jobs)):
        profile, gpus = jobs.profiles[jobs.profile[job]], int(jobs.gpus[job])
        rates = {t: catalogue.measured(profile, gpus, t) or 0.0 for t in catalogue.types}
        speed = rates[reference] or max(rates.values())
        assert jobs.total_steps[job] == pytest.approx(jobs.duration[job] * speed)
    assert (jobs.total_steps > 0).all()
    assert (np.diff(jobs.submitted) >= 0).all()


def test_models_are_equally_likely_however_many_profiles_they_have():
    jobs = jobs_of(jobs=6000, profiles="zeus")
    seen = Counter(jobs.profiles[p].partition(" (")[0] for p in jobs.profile.tolist())

    assert max(seen.values()) < 1.2 * min(seen.values())


def test_gpus_and_lengths_are_spread_as_in_gavels_workload():
    jobs = jobs_of(jobs=8000)

    part = {gpus: np.mean(jobs.gpus == gpus) for gpus in (1, 2, 4, 8)}
    assert part == pytest.approx({1: 0.7, 2: 0.1, 4: 0.15, 8: 0.05}, abs=0.02)
    assert np.mean(jobs.duration >= 60000) == pytest.approx(0.2, abs=0.02)
    assert 60 * 10**1.5 <= jobs.duration.min() <= jobs.duration.max() <= 60 * 10**4


def test_a_stream_is_the_same_however_it_is_taken():
    whole = jobs_of(count=900, seed=3)
    source = workload("catalogue", jobs_per_hour=10, seed=3)
    parts = [source.next(count) for count in (1, 99, 800)]

    for column in COLUMNS:
        joined = np.concatenate([getattr(part, column) for part in parts])
        assert np.array_equal(joined, getattr(whole, column), equal_nan=True)


def test_some_models_can_be_chosen():
    jobs = jobs_of(jobs=50, models="resnet50, ssd")

    assert {jobs.profiles[p].partition(" (")[0] for p in jobs.profile.tolist()} == {"resnet50", "ssd"}


def test_bad_settings_are_named():
    with pytest.raises(UnknownName, match="did you mean 'resnet50'"):
        jobs_of(jobs=5, models="resnet5")
    with pytest.raises(UnknownName, match="reference type"):
        jobs_of(jobs=5, reference="k80")
    with pytest.raises(ConfigError, match="jobs_per_hour is not given"):
        workload("catalogue")
