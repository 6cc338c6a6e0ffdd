"""The published figures of Synergy, written down a second time."""

import numpy as np
import pytest

import rota
from rota import profiles
from rota.core.errors import ProfileMissing, UnknownName
from rota.core.jobs import table
from rota.core.ports import Sensitivities
from rota.profiles.estimator import Estimator

ZOO = ["alexnet", "res18", "res50", "mobilenet", "shufflenet", "gnmt", "transformer", "lstm", "m5", "deepspeech"]
LANGUAGE = ["gnmt", "transformer", "lstm", "bert", "vae"]
CPUS = [1, 2, 3, 4, 5, 6, 9, 12, 24]
MEMORY = [20.83, 62.5, 125, 187.5, 250]
SETS = ["synergy", "synergy-cpu4", "synergy-cpu5", "synergy-cpu6"]

SCALARS = {
    "alexnet": (12, 125, 2.94, 0.6),
    "res18": (9, 62.5, 2.4, 0.64),
    "res50": (4, 62.5, 1.15, 0.78),
    "mobilenet": (6, 62.5, 1.55, 0.71),
    "shufflenet": (12, 125, 2.89, 0.615),
    "gnmt": (1, 20, 1, 0.12),
    "transformer": (1, 20, 1, 0.67),
    "lstm": (1, 20, 1, 0.011),
    "m5": (6, 187.5, 2.5, 0.6),
    "deepspeech": (3, 62.5, 1, 0.757),
    "bert": (1, 20, 1, 0.011),
    "vae": (1, 20, 1, 0.011),
}
"""CPUs, GB, speed-up, seconds."""
CHANGED = {
    "synergy": {},
    "synergy-cpu4": {
        "alexnet": (12, 125, 2.352, 0.48),
        "res18": (9, 62.5, 1.85, 0.5),
        "res50": (4, 62.5, 1, 0.68),
        "mobilenet": (6, 62.5, 1.2, 0.55),
        "shufflenet": (12, 125, 2.312, 0.492),
        "m5": (6, 187.5, 2.08, 0.5),
    },
    "synergy-cpu5": {
        "alexnet": (12, 125, 1.92, 0.392),
        "res18": (9, 62.5, 1.568, 0.41),
        "res50": (4, 62.5, 1, 0.68),
        "mobilenet": (6, 62.5, 1.04, 0.47),
        "shufflenet": (12, 125, 1.88, 0.401),
        "m5": (6, 187.5, 1.78, 0.42),
    },
    "synergy-cpu6": {
        "alexnet": (24, 125, 2.18, 0.34),
        "res18": (9, 62.5, 1.37, 0.365),
        "res50": (4, 62.5, 1, 0.68),
        "mobilenet": (6, 62.5, 1.0, 0.458),
        "shufflenet": (24, 125, 2.59, 0.351),
        "m5": (6, 187.5, 1, 0.3),
    },
}
AT_62_5_GB = {
    "alexnet": [0.3, 0.66, 1, 1.25, 1.53, 1.75, 2, 2, 2],
    "res18": [0.37, 0.72, 1, 1.3, 1.53, 1.75, 2.4, 2.4, 2.4],
    "res50": [0.4, 0.74, 1, 1.15, 1.15, 1.15, 1.15, 1.15, 1.15],
    "mobilenet": [0.37, 0.72, 1, 1.3, 1.49, 1.55, 1.55, 1.55, 1.55],
    "shufflenet": [0.3, 0.66, 1, 1.25, 1.53, 1.75, 2, 2, 2],
    "m5": [0.3, 0.66, 1, 1.2, 1.4, 1.5, 1.5, 1.5, 1.5],
    "deepspeech": [0.3, 0.66, 1, 1, 1, 1, 1, 1, 1],
}


def of(profile, catalogue="synergy"):
    return profiles.load(catalogue).sensitivity(profile, 1, "v100")


@pytest.mark.parametrize("name", SETS)
def test_every_published_scalar_is_there(name):
    catalogue = profiles.load(name)

    assert catalogue.names == (*ZOO, "bert", "vae")
    assert catalogue.types == ("v100",)
    for profile, scalars in {**SCALARS, **CHANGED[name]}.items():
        found = catalogue.sensitivity(profile, 1, "v100")
        step_s = catalogue.step_s(profile, 1, "v100")
        assert (found.ideal_cpus, found.ideal_memory_gb, found.speedup, step_s) == scalars, profile
        assert found.profile == profile


def test_every_published_speed_is_there():
    for profile, column in AT_62_5_GB.items():
        found = of(profile)
        assert found.cpus.tolist() == CPUS
        assert found.memory_gb.tolist() == MEMORY
        assert found.speed[:, 0].tolist() == [0.1] * 9
        assert found.speed[:, 1].tolist() == column
    for profile in LANGUAGE:
        assert of(profile).speed.tolist() == [[1.0] * 5] * 9


def test_more_memory_helps_only_those_it_was_measured_to_help():
    for profile, best in (("alexnet", 2.94), ("shufflenet", 2.89)):
        speed = of(profile).speed
        assert (speed[:7, 2:] == speed[:7, 1:2]).all()
        assert speed[7:, 2:].tolist() == [[best] * 3] * 2
    m5 = of("m5").speed
    assert (m5[:5, 2:] == m5[:5, 1:2]).all()
    assert m5[5:, 2:].tolist() == [[2, 2.5, 2.5]] * 4
    for profile in ("res18", "res50", "mobilenet", "deepspeech"):
        assert (of(profile).speed[:, 2:] == of(profile).speed[:, 1:2]).all()


@pytest.mark.parametrize("name", SETS[1:])
def test_sets_for_more_cpus_have_the_same_tables_relative_to_their_own_step(name):
    cpus = int(name[-1])
    for profile in SCALARS:
        found, three = of(profile, name), of(profile)
        assert found.at(cpus, 62.5) == pytest.approx(1.0)
        assert (found.speed * three.at(cpus, 62.5)).tolist() == [pytest.approx(row) for row in three.speed.tolist()]


@pytest.mark.parametrize("name", ["synergy-cpu4", "synergy-cpu5"])
def test_the_published_speed_ups_of_other_sets_follow_from_the_table(name):
    for profile in ("alexnet", "res18", "shufflenet", "m5"):
        found = of(profile, name)
        assert found.at(found.ideal_cpus, found.ideal_memory_gb) == pytest.approx(found.speedup, abs=0.01)


@pytest.mark.parametrize("profile", [p for p in SCALARS if p not in LANGUAGE])
def test_the_speed_up_is_the_speed_with_the_ideal_amounts(profile):
    found = of(profile)

    assert found.at(found.ideal_cpus, found.ideal_memory_gb) == found.speedup


@pytest.mark.parametrize(
    ("profile", "cpus", "memory_gb", "speed"),
    [
        ("alexnet", 3, 62.5, 1.0),
        ("alexnet", 7.5, 62.5, 1.875),  # half way from 1.75 to 2
        ("alexnet", 3, 41.665, 0.55),  # half way from 0.1 to 1
        ("alexnet", 10.5, 93.75, 2.235),  # the mean of 2, 2, 2 and 2.94
        ("alexnet", 12, 78.125, 2.235),  # a quarter of the way from 2 to 2.94
        ("m5", 24, 156.25, 2.25),  # half way from 2 to 2.5
        ("res18", 3.5, 100, 1.15),  # half way from 1 to 1.3
        ("alexnet", 100, 1000, 2.94),  # more than was measured counts as the most that was
        ("m5", 6, 10_000, 2.5),
        ("gnmt", 1, 20.83, 1.0),
    ],
)
def test_speeds_between_measured_points_are_interpolated(profile, cpus, memory_gb, speed):
    assert of(profile).at(cpus, memory_gb) == pytest.approx(speed, rel=1e-12)


@pytest.mark.parametrize(
    ("profile", "cpus", "memory_gb", "message"),
    [
        ("alexnet", 0.5, 62.5, "measured from 1 CPUs per GPU up, not with 0.5"),
        ("alexnet", 3, 10, "measured from 20.83 GB per GPU up, not with 10"),
        ("gnmt", 1, 20, "measured from 20.83 GB per GPU up, not with 20"),
    ],
)
def test_less_than_was_measured_has_no_answer(profile, cpus, memory_gb, message):
    with pytest.raises(ProfileMissing, match=message):
        of(profile).at(cpus, memory_gb)


@pytest.mark.parametrize("gpus", [1, 2, 3, 16, 500])
def test_the_speed_does_not_depend_on_the_number_of_gpus_nor_on_where_they_are(gpus):
    catalogue = profiles.load("synergy")

    assert isinstance(catalogue, Sensitivities)
    assert catalogue.rate("res18", gpus, "v100") == catalogue.rate("res18", gpus, "v100", spread=True) == 1 / 0.64
    assert catalogue.step_s("res18", gpus, "v100") == 0.64
    assert catalogue.sensitivity("res18", gpus, "v100") is catalogue.sensitivity("res18", 1, "v100")
    assert catalogue.pair_rate("res18", "m5", gpus, "v100") == 0


def test_a_model_for_any_number_of_gpus_is_known_and_counts_as_one():
    catalogue = profiles.load("synergy")

    assert catalogue.known("vae")
    assert not catalogue.known("A3C")
    assert catalogue.gpu_counts("m5") == (1,)
    assert catalogue.gpu_counts("A3C") == ()


def test_what_the_catalogue_does_not_have_is_refused():
    catalogue = profiles.load("synergy")

    with pytest.raises(ProfileMissing, match="no profile 'res81' in catalogue 'synergy'; did you mean 'res18'"):
        catalogue.rate("res81", 1, "v100")
    with pytest.raises(UnknownName, match="accelerator type for catalogue 'synergy'"):
        catalogue.sensitivity("res18", 1, "a100")
    with pytest.raises(ProfileMissing, match="not measured"):
        catalogue.rate("res18", 0, "v100")


def test_a_description_has_one_row_per_model():
    rows = profiles.load("synergy").describe()

    assert [(r.profile, r.gpus) for r in rows] == [(p, None) for p in (*ZOO, "bert", "vae")]
    assert rows[0].rates == {"v100": 1 / 0.6}
    assert rows[0].step_s == {"v100": 0.6}
    assert rows[0].sensitivities["v100"].speedup == 2.94


def test_the_catalogue_names_its_source_and_licence():
    for name in SETS:
        about = profiles.load(name).about
        assert about["licence"] == "MIT"
        assert about["source"].startswith("Synergy artifact (Mohan et al., OSDI 2022)")


def test_the_estimator_passes_step_times_and_sensitivities_through():
    catalogue = profiles.load("synergy")
    estimator = Estimator(catalogue, profiled_fraction=0.5, reference_models=4, seed=1)

    assert isinstance(estimator, Sensitivities)
    assert estimator.step_s("m5", 2, "v100") == 0.6
    assert estimator.sensitivity("m5", 2, "v100") is catalogue.sensitivity("m5", 2, "v100")
    reference = estimator.reference("m5", 2, 0)
    assert reference in estimator.references
    assert estimator.estimated_pair_rate("m5", reference, "lstm", reference, 2, "v100") == 0


def test_jobs_of_synergy_run_at_the_speed_of_their_fair_share():
    jobs = table(profile_names=["res18", "lstm"], gpus=[1, 4], total_steps=[1000, 1000], submitted=[0.0, 0.0])

    result = rota.simulate(jobs=jobs, cluster="synergy-32", policy="fifo", profiles="synergy")

    assert np.allclose(result.jobs["jct_s"], [640.0, 11.0], rtol=0.01)
