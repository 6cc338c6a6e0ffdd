"""Catalogue files with models: step times, and speeds by CPUs and memory."""

import json
import math
import re
from pathlib import Path

import pytest

import rota
from rota import profiles
from rota.cli.main import main
from rota.core.errors import ConfigError, ProfileMissing, UnknownName

DOCUMENTATION = Path(__file__).parents[3] / "docs" / "profiles.md"
MODEL = {
    "profile": "resnet",
    "type": "a100",
    "step_s": 0.5,
    "cpus": 6,
    "memory_gb": 60,
    "speedup": 1.5,
    "cpu_axis": [1, 3, 6],
    "memory_axis": [20, 60],
    "speed": [[0.1, 0.4], [0.2, 1.0], [None, 1.5]],
}
TOML = """
name = "mine"
cpu_axis = [1, 3, 6]
memory_axis = [20, 60]
[[model]]
profile = "resnet"
type = "a100"
step_s = 0.5
cpus = 6
memory_gb = 60
speedup = 1.5
speed = [[0.1, 0.4], [0.2, 1.0], [nan, 1.5]]
"""


def load(folder, *models, **top):
    path = folder / "mine.json"
    path.write_text(json.dumps({**top, "model": list(models)}))
    return profiles.load(path)


def load_text(folder, text, name="mine.toml"):
    path = folder / name
    path.write_text(text)
    return profiles.load(path)


def without(*names):
    return {k: v for k, v in MODEL.items() if k not in names}


def test_toml_and_json_say_the_same(tmp_path):
    both = load_text(tmp_path, TOML), load(tmp_path, MODEL, name="mine")

    for catalogue in both:
        found = catalogue.sensitivity("resnet", 3, "a100")
        assert catalogue.name == "mine"
        assert catalogue.rate("resnet", 3, "a100") == 2.0
        assert found.cpus.tolist() == [1, 3, 6]
        assert found.memory_gb.tolist() == [20, 60]
        assert str(found.speed.tolist()) == "[[0.1, 0.4], [0.2, 1.0], [nan, 1.5]]"
        assert (found.ideal_cpus, found.ideal_memory_gb, found.speedup) == (6, 60, 1.5)


@pytest.mark.parametrize(
    ("cpus", "memory_gb", "speed"), [(2, 40, 0.425), (6, 60, 1.5), (4.5, 60, 1.25), (3, 20, 0.2), (8, 80, 1.5)]
)
def test_speeds_are_interpolated_where_they_were_measured(tmp_path, cpus, memory_gb, speed):
    found = load(tmp_path, MODEL).sensitivity("resnet", 1, "a100")

    assert found.at(cpus, memory_gb) == pytest.approx(speed, rel=1e-12)


@pytest.mark.parametrize(("cpus", "memory_gb"), [(6, 20), (6, 59), (3.1, 20), (9, 40)])
def test_beside_a_missing_cell_there_is_no_answer(tmp_path, cpus, memory_gb):
    found = load(tmp_path, MODEL).sensitivity("resnet", 1, "a100")

    with pytest.raises(ProfileMissing, match=r"'resnet' was not measured with .* add the missing cells"):
        found.at(cpus, memory_gb)


def test_a_model_with_no_more_than_a_step_time_does_not_care(tmp_path):
    catalogue = load(tmp_path, {"profile": "lm", "type": "a100", "step_s": 0.3})

    assert catalogue.sensitivity("lm", 8, "a100") is None
    assert catalogue.step_s("lm", 8, "a100") == 0.3


def test_a_model_for_a_number_of_gpus_goes_before_one_for_any(tmp_path):
    two = {**MODEL, "gpus": 2, "step_s": 0.7, "speedup": 1.2}

    catalogue = load(tmp_path, MODEL, two)

    assert [catalogue.step_s("resnet", g, "a100") for g in (1, 2, 3)] == [0.5, 0.7, 0.5]
    assert [catalogue.sensitivity("resnet", g, "a100").speedup for g in (1, 2, 3)] == [1.5, 1.2, 1.5]
    assert catalogue.gpu_counts("resnet") == (1, 2)
    assert [row.gpus for row in catalogue.describe()] == [None, 2]


def test_a_model_for_a_number_of_gpus_holds_for_that_number_only(tmp_path):
    catalogue = load(tmp_path, {**MODEL, "gpus": 2})

    with pytest.raises(ProfileMissing, match=r"not measured with 4 GPUs .* only with 2 \(on a100\)"):
        catalogue.sensitivity("resnet", 4, "a100")


def test_a_model_on_another_type_is_reported(tmp_path):
    catalogue = load(tmp_path, MODEL, {"profile": "lm", "type": "k80", "step_s": 1})

    with pytest.raises(ProfileMissing, match=r"'resnet' with 4 GPUs was not measured on k80 .* types are a100"):
        catalogue.rate("resnet", 4, "k80")


def test_rates_and_models_may_stand_in_one_file(tmp_path):
    rates = (
        '[[rate]]\nprofile="lm"\ngpus=1\ntype="k80"\nrate=4\n[[rate]]\nprofile="resnet"\ngpus=2\ntype="a100"\nrate=3\n'
    )

    catalogue = load_text(tmp_path, TOML + rates)

    assert catalogue.names == ("lm", "resnet")
    assert catalogue.types == ("a100", "k80")
    assert [catalogue.rate("resnet", g, "a100") for g in (1, 2)] == [2.0, 3.0]
    assert catalogue.step_s("resnet", 2, "a100") == 1 / 3
    assert catalogue.sensitivity("resnet", 2, "a100") is None
    assert catalogue.pair_rate("resnet", "resnet", 1, "a100") == 0


def test_a_rate_and_a_model_of_the_same_job_are_refused(tmp_path):
    entry = {"profile": "resnet", "gpus": 2, "type": "a100", "rate": 3}

    with pytest.raises(ConfigError, match="'resnet' with 2 GPUs on a100 is given as a rate and as a model; keep one"):
        load(tmp_path, {**MODEL, "gpus": 2}, rate=[entry])


def test_what_a_model_leaves_out_comes_from_the_base(tmp_path):
    changes = [{"profile": "alexnet", "type": "v100", "speedup": 3}, {"profile": "m5", "type": "v100", "step_s": 0.9}]

    catalogue, base = load(tmp_path, *changes, base="synergy"), profiles.load("synergy")

    assert catalogue.names == base.names
    assert catalogue.step_s("alexnet", 1, "v100") == 0.6
    assert catalogue.sensitivity("alexnet", 1, "v100").speedup == 3
    assert catalogue.sensitivity("alexnet", 1, "v100").ideal_cpus == 12
    assert catalogue.step_s("m5", 1, "v100") == 0.9
    assert catalogue.sensitivity("m5", 1, "v100") is base.sensitivity("m5", 1, "v100")
    assert catalogue.step_s("lstm", 1, "v100") == 0.011


def test_a_model_replaces_the_rates_of_the_base(tmp_path):
    mine = {"profile": "A3C", "type": "v100", "step_s": 0.25}
    resnet = {"profile": "ResNet-18 (batch size 16)", "gpus": 2, "type": "v100", "step_s": 0.5}

    catalogue = load(tmp_path, mine, resnet, base="gavel")

    assert [catalogue.rate("A3C", g, "v100", spread=True) for g in (1, 2)] == [4.0, 4.0]
    assert catalogue.rate("A3C", 1, "k80") == profiles.load("gavel").rate("A3C", 1, "k80")
    assert catalogue.rate(resnet["profile"], 2, "v100", spread=True) == 2.0
    assert catalogue.rate(resnet["profile"], 4, "v100") == profiles.load("gavel").rate(resnet["profile"], 4, "v100")


def test_a_rate_replaces_the_model_of_the_base(tmp_path):
    text = "# base: synergy\nprofile,gpus,type,rate\nres18,2,v100,5\n"

    catalogue = load_text(tmp_path, text, "mine.csv")

    assert [catalogue.rate("res18", g, "v100") for g in (1, 2)] == [1 / 0.64, 5.0]
    assert catalogue.sensitivity("res18", 2, "v100") is None
    assert catalogue.sensitivity("res18", 1, "v100") is not None


def test_what_the_command_line_shows_as_json_can_be_read_back(tmp_path, capsys):
    load(tmp_path, MODEL)
    assert main(["profiles", str(tmp_path / "mine.json"), "--json"]) == 0
    (row,) = json.loads(capsys.readouterr().out)["rows"]

    again = load(
        tmp_path,
        {"profile": row["profile"], "type": "a100", "step_s": row["step_s"]["a100"], **row["sensitivities"]["a100"]},
    )

    found = again.sensitivity("resnet", 1, "a100")
    assert again.step_s("resnet", 1, "a100") == 0.5
    assert math.isnan(found.speed[2, 0])
    assert found.at(3, 60) == 1.0


def test_the_command_line_shows_what_pays_beside_jobs_that_do_not_care(tmp_path, capsys):
    load(tmp_path, MODEL, {"profile": "lm", "gpus": 2, "type": "a100", "step_s": 0.25})
    assert main(["profiles", str(tmp_path / "mine.json")]) == 0
    shown = [line.split() for line in capsys.readouterr().out.splitlines()]

    assert ["resnet", "a100", "any", "2.000", "6", "60", "1.5"] in shown
    assert ["lm", "a100", "2", "4.000", "-", "-", "-"] in shown


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"step_s": 0}, r"mine\.json, model 1 \('resnet'\): step_s = 0 cannot be used; give a number > 0"),
        ({"step_s": -1}, "step_s = -1"),
        ({"step_s": math.nan}, "step_s = nan"),
        ({"step_s": math.inf}, "step_s = inf"),
        ({"step_s": 1e-320}, "step_s = 1e-320"),
        ({"step_s": "fast"}, "step_s = 'fast'"),
        ({"step_s": True}, "step_s = True"),
        ({"cpus": 0}, "cpus = 0"),
        ({"memory_gb": None}, "memory_gb is missing"),
        ({"speedup": -2}, "speedup = -2"),
        ({"gpus": 0}, "gpus = 0; give a whole number >= 1, or leave it out for any number"),
        ({"gpus": 1.5}, "gpus = 1.5"),
        ({"profile": ""}, "profile = '' is not a text"),
        ({"type": 3}, "type = 3 is not a text"),
        ({"cpu_axis": 3}, "cpu_axis = 3 is not a list"),
        ({"cpu_axis": []}, r"cpu_axis = \[\] is not a list"),
        ({"cpu_axis": [1, math.nan, 6]}, "nan in cpu_axis is not an amount"),
        ({"cpu_axis": [1, None, 6]}, "None in cpu_axis is not an amount"),
        ({"memory_axis": [-20, 60]}, "-20 in memory_axis"),
        ({"memory_axis": [20, math.inf]}, "inf in memory_axis"),
        ({"cpu_axis": [1, 6, 3]}, "cpu_axis goes from 6 to 3; give the amounts in ascending order"),
        ({"memory_axis": [20, 20]}, "memory_axis goes from 20 to 20"),
        ({"speed": [[1, 1], [1, 1]]}, "speed must have 3 rows, one per entry of cpu_axis; it has 2 rows"),
        ({"speed": 1}, "speed must have 3 rows, one per entry of cpu_axis; it is 1"),
        ({"speed": [[1, 1], [1], [1, 1]]}, "row of speed for 3 CPUs must have 2 numbers, .* it has 1 number"),
        ({"speed": [[1, 1], 1, [1, 1]]}, "row of speed for 3 CPUs must have 2 numbers, .* it is 1"),
        (
            {"speed": [[1, 1], [1, -0.5], [1, 1]]},
            "row of speed for 3 CPUs has -0.5 at 60 GB; give a relative speed >= 0",
        ),
        ({"speed": [[1, 1], [1, "x"], [1, 1]]}, "has 'x' at 60 GB"),
        ({"speed": [[1, 1], [1, math.inf], [1, 1]]}, "has inf at 60 GB"),
    ],
)
def test_a_value_that_cannot_be_used_is_refused_with_its_place(tmp_path, change, message):
    with pytest.raises(ConfigError, match=message):
        load(tmp_path, {**MODEL, **change})


@pytest.mark.parametrize(
    ("left_out", "message"),
    [
        ("profile", "model 1: profile is missing"),
        ("type", "model 1: type is missing"),
        ("step_s", "step_s is missing"),
        ("cpus", "cpus is missing"),
        ("speedup", "speedup is missing"),
        ("speed", "speed is missing; give a row per entry of cpu_axis"),
        ("cpu_axis", "cpu_axis is missing"),
        ("memory_axis", "memory_axis is missing"),
    ],
)
def test_what_is_missing_is_named(tmp_path, left_out, message):
    with pytest.raises(ConfigError, match=message):
        load(tmp_path, without(left_out))


def test_axes_without_speeds_do_not_change_those_of_the_base(tmp_path):
    with pytest.raises(ConfigError, match="speed is missing"):
        load(tmp_path, {"profile": "m5", "type": "v100", "cpu_axis": [1, 2]}, base="synergy")


def test_an_unknown_key_is_answered_with_the_nearest(tmp_path):
    with pytest.raises(UnknownName, match=r"key in .*mine\.json, model 1: 'steps_s'; did you mean 'step_s'"):
        load(tmp_path, {**MODEL, "steps_s": 1})
    with pytest.raises(UnknownName, match="'cpu_axes'; did you mean 'cpu_axis'"):
        load(tmp_path, MODEL, cpu_axes=[1])


@pytest.mark.parametrize(("gpus", "count"), [({}, "any number of"), ({"gpus": 2}, "2")])
def test_a_repeated_model_is_refused(tmp_path, gpus, count):
    with pytest.raises(ConfigError, match=f"model 2 .* with {count} GPUs on a100 was already given"):
        load(tmp_path, {**MODEL, **gpus}, {**MODEL, **gpus})


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"model": [3]}', "model 1: 3 is not a table"),
        ('{"model": []}', "has no rows"),
        ('{"model": {}}', "no list `model`"),
        ('{"model": 1, "rate": []}', "model = 1 is not a list"),
    ],
)
def test_a_file_without_usable_models_is_refused(tmp_path, text, message):
    with pytest.raises(ConfigError, match=message):
        load_text(tmp_path, text, "mine.json")


def test_the_files_in_the_documentation_can_be_read(tmp_path):
    blocks = re.findall(
        r"^```(toml|csv)\n(.*?)^```$", DOCUMENTATION.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL
    )
    catalogues = [load_text(tmp_path, body, f"page.{kind}") for kind, body in blocks]

    assert len(catalogues) == 4
    rates, models, changed, profiled = catalogues
    assert profiled.origin("resnet18", 1, "a100") == "derived"
    assert rates.rate("bert", 2, "a100", spread=True) == 18
    assert models.sensitivity("resnet", 4, "v100").at(6, 62.5) == 1.5
    assert models.sensitivity("lm", 2, "v100") is None
    assert changed.step_s("res18", 1, "v100") == 0.6


@pytest.mark.parametrize(("consolidate", "hours"), [(None, 2340 / 3600), (True, 2340 / 3600), (False, 6000 / 3600)])
def test_a_rate_for_several_servers_is_the_penalty_of_a_model_there(tmp_path, consolidate, hours):
    """res50 holds 4 of 8 GPUs beside an lstm on 2: `tune` keeps it whole unless it is told not to."""
    slow = {"profile": "res50", "gpus": 4, "type": "v100", "spread": True, "rate": 0.5}
    catalogue = tmp_path / "penalty.json"
    catalogue.write_text(json.dumps({"base": "synergy", "rate": [slow]}))
    assert profiles.load(catalogue).sensitivity("res50", 4, "v100") is not None
    trace = tmp_path / "jobs.csv"
    trace.write_text("arrival_s,profile,gpus,steps\n0,lstm,2,30000\n0,res50,4,3000\n")

    result = rota.simulate(
        trace=trace, profiles=str(catalogue), cluster="v100=8/4:cpus=12:memory=250", policy="fifo", mechanism="tune",
        mechanism_settings={"consolidate": consolidate},
    )  # fmt: skip

    assert result.jobs["jct_s"][1] / 3600 == pytest.approx(hours)


def test_a_share_outside_what_was_measured_is_why_a_job_is_refused(tmp_path):
    trace = tmp_path / "jobs.csv"
    trace.write_text("arrival_s,profile,gpus,steps\n0,res18,1,3000\n")

    result = rota.simulate(trace=trace, cluster="v100=8/8:cpus=4:memory=400", policy="fifo", mechanism="tune")

    assert result.summary["jobs_rejected"] == 1
    assert "'res18' was measured from 1 CPUs per GPU up, not with 0.5" in result.notes[0]


@pytest.mark.parametrize("name", ["1" * 5000, "a\0b", "x" * 5000 + ",gavel"])
def test_a_name_that_no_file_can_have_is_an_unknown_catalogue(name):
    with pytest.raises(UnknownName, match="catalogue"):
        profiles.load(name)
