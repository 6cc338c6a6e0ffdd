import gzip
import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rota import profiles
from rota.core.errors import ConfigError, UnknownName

CSV = "profile,gpus,type,spread,partner,rate\nbert,1,a100,0,,10.5\nbert,1,a100,0,bert,6\nbert,2,a100,1,,18\n"


def a_file(folder, text, name="mine.csv"):
    path = folder / name
    path.write_bytes(gzip.compress(text.encode()) if name.endswith(".gz") else text.encode())
    return path


@pytest.mark.parametrize("name", ["mine.csv", "mine.csv.gz"])
def test_a_csv_file_is_a_catalogue(tmp_path, name):
    catalogue = profiles.load(a_file(tmp_path, CSV, name))

    assert catalogue.name == name
    assert catalogue.types == ("a100",)
    assert catalogue.rate("bert", 1, "a100") == 10.5
    assert catalogue.pair_rate("bert", "bert", 1, "a100") == 6
    assert catalogue.alone["bert", 2, "a100", True] == 18


def test_toml_and_json_say_the_same(tmp_path):
    toml = 'name = "mine"\n[[rate]]\nprofile = "bert"\ngpus = 1\ntype = "a100"\nrate = 10.1\nspread = false\n'
    entry = {"profile": "bert", "gpus": 1, "type": "a100", "rate": 10.1}
    files = [
        a_file(tmp_path, toml, "m.toml"),
        a_file(tmp_path, json.dumps({"name": "mine", "rate": [entry]}), "m.json"),
    ]

    for file in files:
        assert profiles.load(str(file)).rate("bert", 1, "a100") == 10.1
        assert profiles.load(str(file)).name == "mine"


def test_a_file_may_extend_a_built_in_catalogue(tmp_path):
    text = "# name: lab\n# base: gavel\nprofile,gpus,type,rate\nA3C,1,v100,1.5\nbert,1,v100,3\n"

    catalogue = profiles.load(a_file(tmp_path, text))

    assert catalogue.name == "lab"
    assert catalogue.rate("A3C", 1, "v100") == 1.5
    assert catalogue.rate("A3C", 1, "k80") == profiles.load("gavel").rate("A3C", 1, "k80")
    assert catalogue.pair_rate("A3C", "CycleGAN", 1, "v100") > 0


@pytest.mark.parametrize("value", ["nan", "inf", "-1", "fast", "", "1e308", "1e-308"])
def test_a_rate_that_is_no_speed_is_refused_with_its_place(tmp_path, value):
    text = f"# title: x\nprofile,gpus,type,rate\nbert,1,a100,1\nbert,2,a100,{value}\n"

    with pytest.raises(ConfigError, match=rf"mine\.csv, line 4: rate '{value}' is not a speed"):
        profiles.load(a_file(tmp_path, text))


@pytest.mark.parametrize("value", ["0", "-2", "1.5", "two"])
def test_a_count_of_gpus_that_is_none_is_refused_with_its_place(tmp_path, value):
    with pytest.raises(ConfigError, match=rf"line 2: gpus '{value}' is not a number of GPUs"):
        profiles.load(a_file(tmp_path, f"profile,gpus,type,rate\nbert,{value},a100,1\n"))


@pytest.mark.parametrize(("name", "kind"), [("m.toml", "TOML"), ("m.json", "JSON")])
def test_brackets_without_end_are_not_read(tmp_path, name, kind):
    with pytest.raises(ConfigError, match=f"not valid {kind}"):
        profiles.load(a_file(tmp_path, ("x = " if kind == "TOML" else "") + "[" * 100_000, name))


def test_a_spread_flag_is_zero_or_one(tmp_path):
    with pytest.raises(ConfigError, match="line 2: spread '2' is not 0 or 1"):
        profiles.load(a_file(tmp_path, "profile,gpus,type,rate,spread\nbert,1,a100,1,2\n"))


def test_a_bad_entry_of_json_is_named_by_its_number(tmp_path):
    entries = [{"profile": "b", "gpus": 1, "type": "t", "rate": r} for r in (1, float("nan"))]

    with pytest.raises(ConfigError, match="entry 2: rate 'nan' is not a speed"):
        profiles.load(a_file(tmp_path, json.dumps({"rate": entries}), "m.json"))


def test_an_unknown_column_is_answered_with_the_nearest(tmp_path):
    with pytest.raises(UnknownName, match="'partnr'; did you mean 'partner'"):
        profiles.load(a_file(tmp_path, "profile,gpus,type,rate,partnr\nbert,1,a100,1,x\n"))


def test_a_missing_column_is_named(tmp_path):
    with pytest.raises(ConfigError, match="column 'gpus' is missing"):
        profiles.load(a_file(tmp_path, "profile,type,rate\nbert,a100,1\n"))


def test_a_row_with_too_few_cells_is_named(tmp_path):
    with pytest.raises(ConfigError, match=r"line 2: 3 cells in 'bert,1,a100', but the header names 4 columns"):
        profiles.load(a_file(tmp_path, "profile,gpus,type,rate\nbert,1,a100\n"))


def test_a_repeated_measurement_is_refused_with_both_lines(tmp_path):
    with pytest.raises(ConfigError, match="line 3: 'bert' with 1 GPUs on a100 was already given in line 2"):
        profiles.load(a_file(tmp_path, "profile,gpus,type,rate\nbert,1,a100,1\nbert,1,a100,2\n"))


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("m.csv", "profile,gpus,type,rate\n", "has no rows"),
        ("m.csv", "profile,gpus,type,partner,rate\na,1,t,b,1\n", "no row without a partner"),
        ("m.csv", "# base: gravel\nprofile,gpus,type,rate\na,1,t,1\n", "did you mean 'gavel'"),
        ("m.csv.gz", None, "unknown column in .*m.csv.gz, line 1"),
        ("m.toml", "rate = [", "not valid TOML"),
        ("m.json", "{", "not valid JSON"),
        ("m.json", "[]", "no list `rate`"),
        ("m.json", '{"rate": [1]}', "entry 1: 1 is not a table"),
        ("m.json", '{"rates": 1, "rate": []}', "did you mean 'rate'"),
        ("m.xlsx", "x", "must end in .csv, .toml or .json"),
    ],
)
def test_a_file_that_is_no_catalogue_is_refused(tmp_path, name, text, message):
    path = tmp_path / name
    path.write_bytes(b"no gzip" if text is None else text.encode())

    with pytest.raises(ConfigError, match=message):
        profiles.load(path)


def test_a_missing_file_is_reported():
    with pytest.raises(ConfigError, match=r"cannot read catalogue file 'nowhere\.csv'"):
        profiles.load("nowhere.csv")


@settings(deadline=None)
@given(rate=st.just(0.0) | st.floats(min_value=1e-9, max_value=1e18))
def test_every_float_survives_a_file(tmp_path_factory, rate):
    path = a_file(tmp_path_factory.mktemp("c"), f"profile,gpus,type,rate\nbert,1,a100,{rate!r}\n")

    assert profiles.load(path).rate("bert", 1, "a100") == rate


@pytest.mark.parametrize("name", ["/etc/passwd", "../secret.csv", "sub/pairs.csv", "..", ""])
def test_pairs_are_in_a_file_beside_the_catalogue_and_nowhere_else(tmp_path, name):
    with pytest.raises(ConfigError, match=r"mine\.csv.*pairs"):
        profiles.load(a_file(tmp_path, f"# pairs: {name}\n{CSV}"))
