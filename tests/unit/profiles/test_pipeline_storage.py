"""What the storage of servers does to the rates of `pipeline`, and that it does nothing to what was measured."""

from __future__ import annotations

import numpy as np
import pytest

from rota import profiles
from rota.core.cluster import uniform
from rota.core.ports import StorageDependent, on_servers
from rota.profiles.estimator import Estimator
from rota.profiles.pipeline import COUNTERPART, FAIR_MBPS, MEMORY, Pipeline

CATALOGUE = profiles.load("pipeline")
FITTED = {f.profile: f.pipeline for f in CATALOGUE.fits}
READS = ("res18", "res50")
TYPES = CATALOGUE.types


def with_(mbps, catalogue=CATALOGUE):
    return catalogue.with_storage(dict.fromkeys(TYPES, mbps))


def rates(catalogue, profile, type_):
    """[CPUs, memory] steps/s on the grid of the published storage."""
    found = catalogue.sensitivity(profile, 1, type_)
    return catalogue.rate(profile, 1, type_) * found.speed[:, np.isin(found.memory_gb, MEMORY)]


def test_storage_delivers_in_proportion_to_its_bandwidth_and_the_other_stages_stay():
    job = Pipeline(gpu=10.0, cpu=2.0, storage=1.0, data_gb=100.0)
    half, twice = job.with_storage(FAIR_MBPS / 2), job.with_storage(FAIR_MBPS * 2)

    assert [float(p.rate(9, 0)) for p in (half, job, twice)] == [0.5, 1.0, 2.0]
    assert [float(p.rate(9, 75)) for p in (half, job, twice)] == pytest.approx([2.0, 4.0, 8.0])
    assert [float(p.rate(9, 95)) for p in (half, job, twice)] == pytest.approx([10.0, 10.0, 10.0])
    assert [float(p.rate(1, 75)) for p in (half, job, twice)] == [2.0, 2.0, 2.0]


@pytest.mark.parametrize("mbps", [0.0, 62.5])
@pytest.mark.parametrize("profile", sorted(COUNTERPART))
def test_undeclared_or_as_published_nothing_changes_to_the_last_bit(profile, mbps):
    for type_ in TYPES:
        mine, plain = with_(mbps).sensitivity(profile, 1, type_), CATALOGUE.sensitivity(profile, 1, type_)

        assert with_(mbps).step_s(profile, 1, type_) == CATALOGUE.step_s(profile, 1, type_)
        assert np.array_equal(mine.speed, plain.speed)
        assert (mine.ideal_cpus, mine.ideal_memory_gb, mine.speedup) == (
            plain.ideal_cpus, plain.ideal_memory_gb, plain.speedup,
        )  # fmt: skip


@pytest.mark.parametrize("type_", TYPES)
@pytest.mark.parametrize("profile", READS)
def test_half_the_storage_halves_the_rate_where_storage_was_the_limit_and_a_full_cache_makes_up_for_it(profile, type_):
    half, plain, twice = (rates(with_(b), profile, type_) for b in (31.25, 62.5, 125.0))
    fitted = FITTED[profile]
    bound = fitted.storage / (1 - MEMORY[0] / fitted.data_gb)
    ratio = plain[:, 0] / bound

    assert (half <= plain).all()
    assert (plain <= twice).all()
    limited = ratio >= 1 - 1e-9
    assert limited.any()
    assert half[limited, 0] == pytest.approx(plain[limited, 0] / 2)
    cached = fitted.data_gb < MEMORY
    assert half[:, cached] == pytest.approx(plain[:, cached])


def test_with_the_published_memory_half_the_storage_holds_res50_up_and_a_quarter_res18_too():
    """By hand: 62.5 of 66.33 GB are cached, so 0.0879 / 2 steps/s of misses are 0.76 steps/s; 3 CPUs prepare 1.40."""
    fitted = FITTED["res50"]
    hit = 62.5 / fitted.data_gb

    assert with_(31.25).rate("res50", 1, "v100") == pytest.approx(fitted.storage / 2 / (1 - hit))
    assert with_(31.25).rate("res50", 1, "v100") == pytest.approx(0.7615, rel=1e-3)
    assert with_(31.25).rate("res18", 1, "v100") == CATALOGUE.rate("res18", 1, "v100")
    assert with_(15.625).rate("res18", 1, "v100") < CATALOGUE.rate("res18", 1, "v100")
    assert with_(31.25).sensitivity("res50", 1, "v100").ideal_memory_gb == 65.0
    assert with_(125.0).sensitivity("res50", 1, "v100").ideal_memory_gb == 60.0


@pytest.mark.parametrize("mbps", [31.25, 5.0, 0.1])
def test_with_little_storage_a_server_that_just_holds_the_data_set_is_as_fast_as_with_much(mbps):
    """64 GB per GPU hold the 63.83 GB of res18, although the next amounts of the grid are 62.5 and 65."""
    few, plain = (
        c.rate("res18", 1, "v100") * c.sensitivity("res18", 1, "v100").at(8, 64) for c in (with_(mbps), CATALOGUE)
    )

    assert few == pytest.approx(plain)


@pytest.mark.parametrize("profile", ["transformer", "lstm"])
def test_who_never_waited_for_data_does_not_care(profile):
    starved = with_(0.01)

    assert starved.rate(profile, 1, "v100") == CATALOGUE.rate(profile, 1, "v100")
    assert starved.sensitivity(profile, 1, "v100") is CATALOGUE.sensitivity(profile, 1, "v100")


def test_each_type_has_its_own_storage_and_what_it_was_before_does_not_matter():
    one = CATALOGUE.with_storage({"v100": 10.0, "k80": 0.0})
    back = one.with_storage({"v100": 0.0})

    assert one.rate("res50", 1, "v100") < CATALOGUE.rate("res50", 1, "v100")
    assert one.rate("res50", 1, "p100") == CATALOGUE.rate("res50", 1, "p100")
    assert back.rate("res50", 1, "v100") == CATALOGUE.rate("res50", 1, "v100")
    assert one.fits == CATALOGUE.fits


@pytest.mark.parametrize("name", [n for n in profiles.names() if n not in {"pipeline", "examples"}])
def test_catalogues_without_a_pipeline_stay_as_measured(name):
    catalogue = profiles.load(name)

    assert catalogue.with_storage(dict.fromkeys(catalogue.types, 1.0)) is catalogue


def test_a_file_that_stands_on_it_keeps_its_own_figures_and_the_others_follow_storage(tmp_path):
    mine = tmp_path / "mine.toml"
    mine.write_text('base = "pipeline"\n[[model]]\nprofile = "res50"\ntype = "k80"\nstep_s = 2.0\n')
    catalogue = profiles.load(mine)

    assert with_(5.0, catalogue).rate("res50", 1, "k80") == 0.5
    assert with_(5.0, catalogue).rate("res50", 1, "v100") == with_(5.0).rate("res50", 1, "v100")


def test_an_estimator_passes_storage_on():
    estimator = Estimator(CATALOGUE, profiled_fraction=0.5, seed=3)

    assert isinstance(estimator, StorageDependent)
    found = with_(31.25, estimator)
    assert found.rate("res50", 1, "v100") == with_(31.25).rate("res50", 1, "v100")
    assert (found.profiled_fraction, found.seed) == (0.5, 3)
    measured = Estimator(profiles.load("gavel"))
    assert with_(31.25, measured) is measured


def test_throughputs_that_know_nothing_of_storage_are_left_alone():
    class Own:
        name = "own"

    own = Own()

    assert on_servers(own, uniform("test", [("v100", 8, 8)])) is own
