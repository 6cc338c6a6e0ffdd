"""Several catalogues as one."""

import pytest

from rota import profiles
from rota.core.errors import ConfigError, ProfileMissing
from rota.profiles import Catalogue
from rota.profiles.merging import merged

FIRST = Catalogue(
    "one",
    {("m", 1, "a", False): 1.0, ("m", 2, "a", False): 2.0, ("m", 2, "a", True): 1.5},
    lambda: {("m", 1, "a", False, "m"): 0.7},
    {"licence": "MIT", "reference": "a"},
)
SECOND = Catalogue(
    "two",
    {
        ("m", 1, "a", False): 9.0,
        ("m", 1, "b", False): 3.0,
        ("m", 2, "b", False): 5.0,
        ("m", 2, "b", True): 4.0,
        ("n", 1, "b", False): 6.0,
    },
    lambda: {("m", 1, "a", False, "m"): 0.1, ("n", 1, "b", False, "n"): 2.0},
    {"licence": "Apache-2.0", "reference": "b"},
    origins={("m", 1, "a", False): "derived", ("n", 1, "b", False): "derived"},
)


def test_the_first_that_has_a_speed_is_believed():
    both = merged([FIRST, SECOND])

    assert both.rate("m", 1, "a") == 1.0
    assert both.rate("m", 1, "b") == 3.0
    assert both.rate("n", 1, "b") == 6.0
    assert both.pair_rate("m", "m", 1, "a") == 0.7
    assert both.pair_rate("n", "n", 1, "b") == 2.0


def test_the_other_way_round_the_other_one_is():
    assert merged([SECOND, FIRST]).rate("m", 1, "a") == 9.0


def test_the_speed_on_several_servers_comes_with_the_one_on_one():
    other = Catalogue("spread", {("m", 1, "a", False): 7.0, ("m", 2, "a", False): 8.0, ("m", 2, "a", True): 7.5})
    without = Catalogue("plain", {("m", 2, "a", False): 2.0})

    both = merged([without, other])

    assert both.rate("m", 2, "a", spread=True) == 2.0
    assert both.rate("m", 1, "a") == 7.0


def test_origins_come_with_their_rows():
    both = merged([FIRST, SECOND])

    assert both.origin("m", 1, "a") == "measured"
    assert both.origin("n", 1, "b") == "derived"


def test_conflicts_and_mixed_profiles_are_said():
    conflict, mixed = merged([FIRST, SECOND]).remarks

    assert "1 speeds are in catalogue 'one' and, different, in 'two'" in conflict
    assert "those of 'one', which is named first, are used" in conflict
    assert "'m' with 1 GPUs on a: 1 and not 9 steps/s" in conflict
    assert "'m'" in mixed
    assert "a step must mean the same" in mixed


def test_catalogues_with_nothing_in_common_have_nothing_to_say():
    assert profiles.load("gavel,lambda").remarks == ()


def test_equal_speeds_are_no_conflict():
    assert profiles.load("gavel,gavel-physical").rate("A3C", 1, "v100") == profiles.load("gavel").rate("A3C", 1, "v100")
    (remark,) = profiles.load("gavel,gavel-physical").remarks
    assert remark.startswith("73 speeds") or "speeds are in catalogue 'gavel'" in remark


def test_names_files_and_lists_can_be_given(tmp_path):
    file = tmp_path / "own, with a comma.csv"
    file.write_text("profile,gpus,type,rate\nA3C,1,h100,100\n")

    assert profiles.load(str(file)).types == ("h100",)
    both = profiles.load([file, "gavel"])
    assert (both.rate("A3C", 1, "h100"), both.rate("A3C", 1, "v100")) == (
        100.0,
        profiles.load("gavel").rate("A3C", 1, "v100"),
    )


def test_a_catalogue_named_twice_is_refused():
    with pytest.raises(ConfigError, match="'gavel' is named twice"):
        profiles.load("gavel,gavel")


def test_what_none_of_them_has_is_missing():
    with pytest.raises(ProfileMissing, match="'one,two'"):
        merged([FIRST, SECOND]).rate("n", 1, "a")


def test_the_reference_type_is_that_of_the_first():
    assert merged([FIRST, SECOND]).reference_type == "a"
    assert merged([SECOND, FIRST]).reference_type == "b"
