"""Numbers of GPUs that nobody measured, by a rule with a name."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rota.core.errors import ProfileMissing, UnknownName
from rota.profiles import Catalogue
from rota.profiles.scaling import scaled
from rota.profiles.settings import estimated

MEASURED = {1: 10.0, 2: 18.0, 8: 36.0}
counts = st.dictionaries(st.sampled_from([1, 2, 3, 4, 6, 8, 16]), st.floats(0.1, 100), min_size=1)


@pytest.mark.parametrize(
    ("rule", "gpus", "rate"),
    [
        ("none", 16, None),
        ("constant", 16, 36.0),
        ("constant", 4, 18.0),
        ("linear", 16, 72.0),
        ("linear", 4, 36.0),
        ("trend", 4, (18.0 * 36.0) ** 0.5),
        ("trend", 32, 72.0),
    ],
)
def test_a_rule_says_what_its_name_says(rule, gpus, rate):
    assert scaled(MEASURED, gpus, rule) == (None if rate is None else pytest.approx(rate))


def test_fewer_gpus_than_were_ever_measured_are_not_guessed():
    assert all(scaled({4: 10.0, 8: 15.0}, gpus, rule) is None for gpus in (1, 2) for rule in ("constant", "trend"))


def test_one_measured_number_has_no_trend():
    assert scaled({4: 10.0}, 8, "trend") is None


def test_a_number_with_which_the_job_does_not_fit_says_nothing():
    assert scaled({4: 10.0, 8: 0.0}, 16, "constant") == 10.0


@given(rate_of=counts, gpus=st.integers(1, 64))
def test_a_trend_is_never_steeper_than_linear(rate_of, gpus):
    guess = scaled(rate_of, gpus, "trend")

    below = [count for count in rate_of if count < gpus]
    if guess is not None:
        assert 0 < guess <= rate_of[max(below)] * gpus / max(below) * (1 + 1e-9)


@given(exponent=st.floats(0, 1), gpus=st.integers(1, 64))
def test_a_power_law_is_found_again(exponent, gpus):
    law = {count: 3.0 * count**exponent for count in (1, 2, 4, 8)}

    guess = scaled({count: rate for count, rate in law.items() if count != gpus}, gpus, "trend")

    assert guess is None or guess == pytest.approx(3.0 * gpus**exponent)


@pytest.fixture
def catalogue():
    alone = {("m", 1, "a", False): 1.0, ("m", 2, "a", False): 2.0, ("m", 2, "a", True): 1.5, ("m", 1, "b", False): 4.0}
    return Catalogue("c", alone)


def test_without_a_rule_nothing_is_estimated(catalogue):
    with pytest.raises(ProfileMissing):
        catalogue.rate("m", 4, "a")


def test_estimates_are_marked_and_measurements_stay(catalogue):
    with_rule = catalogue.scaled("constant")

    assert with_rule.rate("m", 4, "a") == 2.0
    assert with_rule.rate("m", 2, "a", spread=True) == 1.5
    assert with_rule.origin("m", 4, "a") == "estimated"
    assert with_rule.origin("m", 2, "a") == "measured"
    assert with_rule.step_s("m", 4, "a") == 0.5


def test_described_rows_mark_every_estimate(catalogue):
    rows = {row.gpus: row for row in catalogue.scaled("linear").describe([16])}

    assert rows[16].rates == {"a": 16.0, "b": 64.0}
    assert rows[16].origins == {"a": "estimated", "b": "estimated"}
    assert rows[2].rates == {"a": 2.0, "b": 8.0}
    assert rows[2].origins == {"b": "estimated"}
    assert rows[1].origins == {}


def test_it_is_a_setting_of_profiles_by_name(catalogue):
    assert estimated(catalogue, {"scaling": "linear"}, 0).rate("m", 4, "a") == 4.0
    with pytest.raises(UnknownName, match="linaer"):
        estimated(catalogue, {"scaling": "linaer"}, 0)
