"""The catalogue that joins Synergy's and Gavel's measurements: its formula, its fit, and what it says about itself."""

from __future__ import annotations

import json

import numpy as np
import pytest

from rota import profiles
from rota.cli.main import main
from rota.core.sensitivity import Sensitivity
from rota.profiles.pipeline import COUNTERPART, CPUS, MEMORY, Pipeline, fit

CATALOGUE = profiles.load("pipeline")
JOINED = sorted(COUNTERPART)
TYPES = ("k80", "p100", "v100")


def a_table(speed, cpus, memory):
    return Sensitivity(
        profile="made up",
        cpus=np.array(cpus, dtype=float),
        memory_gb=np.array(memory, dtype=float),
        speed=np.array(speed, dtype=float),
        ideal_cpus=1.0,
        ideal_memory_gb=1.0,
        speedup=1.0,
    )


def test_the_slowest_stage_sets_the_pace():
    job = Pipeline(gpu=10.0, cpu=2.0, storage=1.0, data_gb=100.0)

    assert job.rate(3, 1000) == 6.0
    assert job.rate(9, 1000) == 10.0
    assert job.rate(9, 0) == 1.0
    assert job.rate(9, 75) == pytest.approx(4.0)
    assert job.rate(9, 1000, ratio=0.5) == 5.0


def test_a_fit_finds_the_numbers_that_a_table_was_made_with():
    made = Pipeline(gpu=3.0, cpu=0.5, storage=0.2, data_gb=80.5)
    cpus, memory = np.array([1.0, 2.0, 4.0, 8.0]), np.array([20.0, 60.0, 120.0])
    table = a_table(made.rate(cpus[:, None], memory[None, :]), cpus, memory)

    found, error = fit(table, step_s=2.0)

    assert found.gpu == 1.5
    assert found.cpu == pytest.approx(0.25, rel=1e-9)
    assert found.storage == pytest.approx(0.1, rel=1e-9)
    assert found.data_gb == 80.5
    assert error.max() < 1e-9


def test_stages_that_never_hold_up_the_others_are_left_out():
    found, error = fit(a_table(np.ones((3, 2)), [1, 2, 3], [10, 20]), step_s=0.5)

    assert found == Pipeline(gpu=2.0, cpu=None, storage=None, data_gb=None)
    assert error.max() == 0


def test_the_rate_by_cpus_is_the_least_squares_of_relative_errors_by_hand():
    """Two cells below the limit, 1 at 1 CPU and 4 at 2: k minimises (k - 1)^2 + (2k / 4 - 1)^2, so k = 1.5 / 1.25."""
    found, error = fit(a_table([[1.0], [4.0], [9.0]], [1, 2, 100], [10]), step_s=1.0)

    assert found.cpu == pytest.approx(1.2)
    assert error.ravel() == pytest.approx([0.2, 0.4, 0.0])


@pytest.mark.parametrize("type_", TYPES)
@pytest.mark.parametrize("profile", JOINED)
def test_more_of_anything_is_never_slower(profile, type_):
    speed = CATALOGUE.sensitivity(profile, 1, type_).speed

    assert speed.shape == (len(CPUS), len(MEMORY))
    assert (np.diff(speed, axis=0) >= 0).all()
    assert (np.diff(speed, axis=1) >= 0).all()


@pytest.mark.parametrize("profile", JOINED)
def test_slower_gpus_need_no_more_cpus_and_memory_to_be_busy(profile):
    rates = [CATALOGUE.rate(profile, 1, t) * CATALOGUE.sensitivity(profile, 1, t).speedup for t in TYPES]
    needs = [CATALOGUE.sensitivity(profile, 1, t) for t in TYPES]

    assert rates == sorted(rates)
    assert [n.ideal_cpus for n in needs] == sorted(n.ideal_cpus for n in needs)
    assert [n.ideal_memory_gb for n in needs] == sorted(n.ideal_memory_gb for n in needs)


def test_with_the_published_share_of_cpus_a_faster_gpu_is_wasted_on_what_cannot_be_fed():
    needs = {t: CATALOGUE.sensitivity("res18", 1, t) for t in TYPES}

    assert [needs[t].ideal_cpus for t in TYPES] == [1, 6, 8]
    assert CATALOGUE.rate("res18", 1, "v100") == CATALOGUE.rate("res18", 1, "p100")
    best = {t: CATALOGUE.rate("res18", 1, t) * needs[t].speedup for t in TYPES}
    assert best["v100"] == pytest.approx(2.4 / 0.64)
    assert best["p100"] / best["v100"] == pytest.approx(7.72278472419796 / 10.300256501360458)


def test_the_errors_of_the_fit_are_those_of_the_catalogue_against_the_measured_cells():
    measured = profiles.load("synergy").sensitivity("res18", 1, "v100")
    mine = CATALOGUE.sensitivity("res18", 1, "v100")
    scale = CATALOGUE.rate("res18", 1, "v100") * 0.64
    cells = np.array([[mine.at(c, m) * scale for m in measured.memory_gb] for c in measured.cpus])
    error = np.abs(cells / measured.speed - 1)
    told = next(f for f in CATALOGUE.fits if f.profile == "res18")

    assert told.cells == 45
    assert told.max_error == pytest.approx(error.max(), abs=1e-6)
    assert told.mean_error == pytest.approx(error.mean(), abs=1e-6)
    assert 0.03 < told.mean_error < told.max_error < 0.13


def test_it_says_what_is_measured_and_what_is_not_and_which_models_cannot_be_joined(capsys):
    assert main(["profiles", "pipeline"]) == 0
    shown = capsys.readouterr().out
    assert main(["profiles", "pipeline", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)

    assert "not measured" in told["about"]["title"]
    assert "nothing to compare with" in told["about"]["derived"]
    assert "largest error" in shown
    assert "ResNet-18 (batch size 256)" in shown
    assert {row["profile"] for row in told["rows"]} == set(JOINED)
    without = {f["profile"] for f in told["fits"] if f["counterpart"] is None}
    assert without == {"alexnet", "mobilenet", "shufflenet", "gnmt", "m5", "deepspeech", "bert", "vae"}
    worst = {f["profile"]: f["max_error"] for f in told["fits"]}
    assert worst["m5"] > worst["res18"] > worst["lstm"] == 0


def test_a_catalogue_of_ones_own_can_stand_on_it(tmp_path):
    mine = tmp_path / "mine.toml"
    mine.write_text('base = "pipeline"\n[[model]]\nprofile = "res18"\ntype = "k80"\nstep_s = 2.0\n')

    catalogue = profiles.load(mine)

    assert catalogue.rate("res18", 1, "k80") == 0.5
    assert catalogue.rate("res50", 1, "k80") == CATALOGUE.rate("res50", 1, "k80")
