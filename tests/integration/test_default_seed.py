"""A run without a seed takes that of its workload; a seed that is given wins; the result says which it was."""

import json

import pytest

import rota
from rota.cli.main import main
from rota.core.errors import UnknownName
from rota.workloads.synergy_models import MODELS, step_seconds


@pytest.fixture
def speeds(tmp_path):
    path = tmp_path / "speeds.csv"
    rows = [f"{model},1,v100,{1 / step_seconds('synergy', model)!r}" for model in MODELS]
    path.write_text("\n".join(["profile,gpus,type,rate", *rows]) + "\n")
    return str(path)


def philly(speeds, **given):
    run = {"settings": {"jobs_per_hour": 9, "jobs": 12}, "cluster": "v100=8/8", "policy": "fifo", "profiles": speeds}
    return rota.simulate(workload="philly-derived", **(run | given))


def test_a_workload_brings_its_own_seed(speeds):
    result = philly(speeds)

    assert result.config["seed"] == 42
    assert result.jobs["arrival_s"][:3].tolist() == [409.0, 951.0, 1053.0]


@pytest.mark.parametrize("seed", [0, 7])
def test_a_seed_that_is_given_wins(speeds, seed):
    result = philly(speeds, seed=seed)

    assert result.config["seed"] == seed
    assert result.jobs["arrival_s"][0] != 409.0


def test_a_seed_among_the_settings_is_for_the_workload_only(speeds):
    result = philly(speeds, settings={"jobs_per_hour": 9, "jobs": 12, "seed": 7})

    assert result.config["seed"] == 42
    assert result.jobs["arrival_s"].tolist() == philly(speeds, seed=7).jobs["arrival_s"].tolist()


def test_other_workloads_and_tables_still_begin_at_0():
    run = {"workload": "gavel-static", "settings": {"jobs": 5}, "cluster": "v100=2", "policy": "fifo"}
    found = rota.simulate(**run)

    assert found.config["seed"] == 0
    assert found.config == rota.simulate(**run, seed=0).config


def test_an_unknown_workload_is_named():
    with pytest.raises(UnknownName, match="philly-derived"):
        rota.simulate(workload="philly-derivd", cluster="v100=2", policy="fifo")


@pytest.mark.parametrize(("arguments", "seed"), [((), 42), (("--seed", "3"), 3)])
def test_the_command_line_does_the_same(speeds, capsys, arguments, seed):
    told = ["--workload", "philly-derived", "--set", "jobs_per_hour=9", "--set", "split=20,70,10", "--set", "jobs=6"]
    rest = ["--cluster", "v100=8/8", "--policy", "fifo", "--profiles", speeds, "--json", *arguments]

    assert main(["simulate", *told, *rest]) == 0
    assert json.loads(capsys.readouterr().out)["config"]["seed"] == seed


def test_a_run_without_a_seed_can_be_resumed(speeds, tmp_path):
    whole, cut = philly(speeds), tmp_path / "run.ckpt"

    philly(speeds, until=9000.0, checkpoint=cut, checkpoint_every=3000.0)
    resumed = philly(speeds, until=9000.0, resume=cut)

    assert resumed.config["seed"] == whole.config["seed"]


def test_generated_traces_follow_the_same_rule(tmp_path):
    lines = {}
    for name, arguments in {"own": (), "same": ("--seed", "42"), "other": ("--seed", "0")}.items():
        path = tmp_path / f"{name}.csv"
        told = ["trace", "generate", "philly-derived", str(path), "--jobs", "5", "--set", "jobs_per_hour=9"]
        assert main([*told, "--to", "synergy", *arguments]) == 0
        lines[name] = path.read_text().splitlines()

    assert lines["own"][:2] == ["0,alexnet,409,3447,1", "1,gnmt,951,34181,1"]
    assert lines["own"] == lines["same"] != lines["other"]
    assert main(["trace", "info", str(tmp_path / "own.csv"), "--json"]) == 0
