import math

import pytest

from rota import profiles
from rota.core.errors import ConfigError, ProfileMissing, UnknownName
from rota.core.ports import Sensitivities
from rota.profiles import Catalogue


@pytest.fixture
def gavel() -> Catalogue:
    return profiles.load("gavel")


def test_the_built_in_catalogues_are_listed():
    of_today = ["arena", "lambda", "mlperf", "sia", "zeus"]
    of_synergy = ["synergy", "synergy-cpu4", "synergy-cpu5", "synergy-cpu6"]
    others = ["examples", "gavel", "gavel-physical", "gpemu", "pipeline", "recorded"]

    assert profiles.names() == sorted([*of_today, *of_synergy, *others])


def test_gavel_knows_26_models_on_three_types(gavel):
    assert len(gavel.names) == 26
    assert gavel.types == ("k80", "p100", "v100")
    assert gavel.known("A3C")
    assert not gavel.known("GPT-7")


def test_published_figures_survive_to_the_last_bit(gavel):
    assert gavel.rate("ResNet-18 (batch size 16)", 1, "k80") == 4.795294551566172
    assert profiles.load("gavel-physical").rate("ResNet-18 (batch size 16)", 1, "k80") == 4.907044539018749


def test_the_physical_table_differs_in_73_figures_and_shares_the_pairs(gavel):
    physical = profiles.load("gavel-physical")

    assert physical.alone.keys() == gavel.alone.keys()
    assert sum(physical.alone[k] != gavel.alone[k] for k in gavel.alone) == 73
    assert physical.pairs == gavel.pairs


def test_a_spread_job_has_its_own_speed(gavel):
    together = gavel.rate("ResNet-50 (batch size 16)", 8, "v100")
    apart = gavel.rate("ResNet-50 (batch size 16)", 8, "v100", spread=True)

    assert 0 < apart != together


@pytest.mark.parametrize("gpus", [2, 4, 8])
def test_without_a_spread_figure_the_one_for_a_single_server_is_used(gavel, gpus):
    profile = "ResNet-50 (batch size 64)"

    assert (profile, gpus, "k80", True) not in gavel.alone
    assert gavel.rate(profile, gpus, "k80", spread=True) == gavel.rate(profile, gpus, "k80") > 0


def test_a_spread_figure_of_zero_counts_as_not_measured():
    catalogue = Catalogue("x", {("a", 2, "t", False): 5.0, ("a", 2, "t", True): 0.0})

    assert catalogue.rate("a", 2, "t", spread=True) == 5.0


def test_a_job_that_does_not_fit_has_rate_zero(gavel):
    assert gavel.rate("ResNet-50 (batch size 128)", 4, "k80") == 0


def test_pairs_are_read_only_when_one_is_asked_for():
    asked = []
    pairs = {("a", 1, "t", False, "b"): 2.0}
    catalogue = Catalogue("x", {("a", 1, "t", False): 3.0, ("b", 1, "t", False): 4.0}, lambda: asked.append(1) or pairs)

    catalogue.rate("a", 1, "t")
    assert not asked

    assert catalogue.pair_rate("a", "b", 1, "t") == 2.0
    assert catalogue.pair_rate("a", "b", 1, "t", spread=True) == 2.0
    assert asked == [1]


def test_two_jobs_never_measured_together_do_not_fit_together():
    catalogue = Catalogue("x", {("a", 1, "t", False): 3.0, ("b", 1, "t", False): 4.0})

    assert catalogue.pair_rate("a", "b", 1, "t") == 0


def test_sharing_slows_both_jobs_down_or_is_impossible(gavel):
    assert all(rate <= 1.5 * gavel.alone[key[:4]] for key, rate in gavel.pairs.items() if rate and not key[3])


def test_an_unknown_profile_is_answered_with_the_nearest(gavel):
    with pytest.raises(ProfileMissing, match=r"'ResNet18 \(batch size 64\)'.*did you mean 'ResNet-18 \(batch size 64"):
        gavel.rate("ResNet18 (batch size 64)", 1, "v100")
    with pytest.raises(ProfileMissing, match=r"k80, p100, v100\. .*--profiles \(`rota profiles`"):
        gavel.pair_rate("A3C", "something else", 1, "v100")


def test_a_number_of_gpus_that_was_not_measured_is_named_with_those_that_were(gavel):
    with pytest.raises(ProfileMissing, match=r"'LM \(batch size 5\)' was not measured with 3 GPUs.*1, 2, 4, 8"):
        gavel.rate("LM (batch size 5)", 3, "v100")


def test_an_unknown_type_is_answered_with_the_nearest(gavel):
    with pytest.raises(UnknownName, match="'V100'; did you mean 'v100'"):
        gavel.rate("A3C", 1, "V100")


def test_a_type_without_a_measurement_of_this_profile_is_reported():
    catalogue = Catalogue("x", {("a", 1, "t", False): 3.0, ("b", 1, "u", False): 4.0})

    with pytest.raises(ProfileMissing, match="not measured on u in catalogue 'x'; measured types are t"):
        catalogue.rate("a", 1, "u")


def test_an_unknown_catalogue_is_answered_with_the_nearest():
    with pytest.raises(ConfigError, match="'gavle'; did you mean 'gavel'"):
        profiles.load("gavle")


def test_rates_have_step_times_but_no_sensitivity(gavel):
    assert isinstance(gavel, Sensitivities)
    assert gavel.step_s("A3C", 1, "v100") == 1 / gavel.rate("A3C", 1, "v100")
    assert gavel.step_s("ResNet-50 (batch size 128)", 4, "k80") == math.inf
    assert gavel.sensitivity("A3C", 1, "v100") is None


@pytest.mark.parametrize("ask", ["step_s", "sensitivity"])
def test_step_times_and_sensitivities_of_unknown_jobs_are_refused_as_rates_are(gavel, ask):
    with pytest.raises(ProfileMissing, match="no profile 'GPT-7'"):
        getattr(gavel, ask)("GPT-7", 1, "v100")
    with pytest.raises(ProfileMissing, match="not measured with 3 GPUs"):
        getattr(gavel, ask)("A3C", 3, "v100")
    with pytest.raises(UnknownName, match="accelerator type"):
        getattr(gavel, ask)("A3C", 1, "v1000")


def test_a_description_has_one_row_per_profile_and_number_of_gpus(gavel):
    rows = gavel.describe()

    assert len(rows) == 26 + 3 * 19
    assert (rows[1].profile, rows[1].gpus) == ("ResNet-18 (batch size 16)", 2)
    assert set(rows[1].rates) == set(rows[1].spread_rates) == {"k80", "p100", "v100"}


def test_the_catalogue_names_its_source_and_licence(gavel):
    assert gavel.about["licence"] == "MIT"
    assert "OSDI 2020" in gavel.about["source"]


def test_the_templates_are_in_the_order_of_the_artifact():
    found = profiles.templates()

    assert [t.profile for t in found] == list(profiles.load("gavel").names)
    assert [t.multi_gpu for t in found] == [True] * 19 + [False] * 7
    assert [t.launch.needs_data_dir for t in found] == [True] * 24 + [False, True]
    assert all(t.launch.command.count("%s") == t.launch.needs_data_dir for t in found)
    assert found[9].launch.steps_argument == "-step"
