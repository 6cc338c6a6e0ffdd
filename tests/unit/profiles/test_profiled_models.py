"""What `rota profile` writes: pipeline parameters, cells with origins and errors, ratios for other types."""

import json
import math
from dataclasses import replace

import numpy as np
import pytest

from rota import profiles
from rota.cli import profile_text
from rota.cli.main import main
from rota.core.errors import ConfigError
from rota.profiles.cells import CellNotes
from rota.profiles.stages import Stages
from rota.profiles.writing import ProfiledModel, ProfileDocument, document_text

STAGES = Stages(
    device_rate=50.0, cpu_s=0.01, workers=2, prepare_s=0.01, fetch_s=0.002, step_mb=0.2, data_gb=10.0,
    reserve_gb=0.5, reserve_part=0.25, storage_mbps=100.0,
)  # fmt: skip


def a_model(stages=STAGES, cpus=(0.25, 0.5, 1.0), memory=(0.5, 4.0, 14.0), rates=None, **changes):
    cpus, memory = np.array(cpus), np.array(memory)
    rates = stages.rate(cpus[:, None], memory[None, :]) if rates is None else rates
    notes = CellNotes(
        origin=tuple(tuple("measured" if c == 0 else "predicted" for c in range(len(memory))) for _ in cpus),
        error=np.full((len(cpus), len(memory)), 0.02),
    )
    given = {"profile": "r18", "type": "v100", "gpus": 1, "cpus": cpus, "memory_gb": memory}
    return ProfiledModel(**{**given, "rates": rates, "cells": notes, "stages": stages, **changes})


def written(path, *models, more="", **about):
    path.write_text(document_text(ProfileDocument(name="mine", models=models, about=about)) + more)
    return path


def test_the_slowest_stage_sets_the_pace():
    assert STAGES.limit(2.0, 14.0) == "device"
    assert float(STAGES.rate(2.0, 14.0)) == 50.0
    assert float(STAGES.rate(0.25, 14.0)) == pytest.approx(25.0)
    assert STAGES.limit(0.25, 14.0) == "CPUs"
    assert STAGES.limit(2.0, 0.5, mbps=5.0) == "storage"
    assert float(STAGES.rate(2.0, 0.5, mbps=5.0)) == pytest.approx(25.0)
    assert STAGES.knee_cpus(14.0) == pytest.approx(0.5)


def test_a_worker_reads_and_then_prepares():
    one = Stages(device_rate=1000.0, workers=1, prepare_s=0.01, step_mb=0.1, storage_mbps=10.0)

    assert float(one.rate(8.0, 1.0)) == pytest.approx(50.0)


def test_without_workers_the_stages_add_up():
    alone = Stages(device_rate=50.0, cpu_s=0.01, prepare_s=0.01)

    assert float(alone.rate(1.0, 1.0)) == pytest.approx(1 / 0.03)
    assert float(alone.rate(0.1, 1.0)) == pytest.approx(10.0, rel=0.15)


def test_half_of_the_memory_that_is_not_reserved_caches_half_of_the_data():
    assert float(STAGES.cached(0.5)) == 0.0
    assert float(STAGES.cached(20 / 3)) == pytest.approx(0.5)
    for part in (0.0, 0.05, 0.5, 1.0):
        assert float(STAGES.cached(STAGES.memory_for(part))) == pytest.approx(part)


def test_what_is_written_is_read_again(tmp_path):
    catalogue = profiles.load(written(tmp_path / "r18.toml", a_model(), command='python "train.py"\n'))

    model = catalogue.models["r18", 1, "v100"]
    assert model.stages == STAGES
    assert model.cells.origin[1] == ("measured", "predicted", "predicted")
    assert model.cells.error.max() == 0.02
    assert catalogue.rate("r18", 1, "v100") == pytest.approx(50.0, rel=1e-5)
    assert model.sensitivity.ideal_cpus == 0.5
    assert catalogue.about["command"] == 'python "train.py"\n'


def test_another_storage_is_computed_from_the_pipeline_and_marked_predicted(tmp_path):
    catalogue = profiles.load(written(tmp_path / "r18.toml", a_model()))

    slow = catalogue.with_storage({"v100": 5.0})

    model = slow.models["r18", 1, "v100"]
    rates = model.sensitivity.speed / model.step_s
    assert rates[2, 0] == pytest.approx(25.0, rel=1e-4)
    assert rates[2, 2] == pytest.approx(50.0, rel=1e-4)
    assert slow.origin("r18", 1, "v100") == "predicted"
    assert slow.with_storage({"v100": 100.0}).rate("r18", 1, "v100") == pytest.approx(50.0, rel=1e-4)


def test_a_type_that_nobody_measured_is_given_by_a_ratio_and_marked(tmp_path):
    ratio = '\n[[ratio]]\nprofile = "r18"\ntype = "a100"\nof = "v100"\nratio = 2\nsource = "data sheet"\n'
    catalogue = profiles.load(written(tmp_path / "r18.toml", a_model(), more=ratio))

    model = catalogue.models["r18", 1, "a100"]
    rates = model.sensitivity.speed / model.step_s
    assert rates[2, 2] == pytest.approx(100.0, rel=1e-4)
    assert rates[0, 2] == pytest.approx(25.0, rel=1e-4), "CPUs do not care which GPU they feed"
    assert catalogue.origin("r18", 1, "a100") == "derived"
    assert catalogue.origin("r18", 1, "v100") == "measured"
    row = next(row for row in catalogue.describe() if "a100" in row.rates)
    assert row.origins == {"a100": "derived"}


@pytest.mark.parametrize("mbps", [5.0, 20.0, 100.0, 1000.0])
def test_a_type_given_by_a_ratio_reads_from_the_storage_of_its_servers(tmp_path, mbps):
    ratios = [
        f'\n[[ratio]]\nprofile = "r18"\ntype = "{name}"\nof = "v100"\nratio = {ratio}\n'
        for name, ratio in (("alike", 1), ("a100", 2))
    ]
    catalogue = profiles.load(written(tmp_path / "r18.toml", a_model(), more="".join(ratios)))

    moved = catalogue.with_storage(dict.fromkeys(("v100", "alike", "a100"), mbps))

    measured, alike, faster = (moved.models["r18", 1, name] for name in ("v100", "alike", "a100"))
    right = (
        replace(STAGES, storage_mbps=mbps)
        .on_device(2)
        .rate(faster.sensitivity.cpus[:, None], faster.sensitivity.memory_gb[None, :])
    )
    assert alike.sensitivity.speed / alike.step_s == pytest.approx(measured.sensitivity.speed / measured.step_s)
    assert faster.sensitivity.speed / faster.step_s == pytest.approx(right, rel=1e-3)
    assert faster.origin == "derived"
    assert moved.with_storage({"a100": 100.0}).rate("r18", 1, "a100") == catalogue.with_storage({"a100": 100.0}).rate(
        "r18", 1, "a100"
    )


@pytest.mark.parametrize("seed", range(12, 17))
def test_nothing_faster_makes_a_job_slower_whatever_was_measured_beside_the_formula(tmp_path, seed):
    rates = STAGES.rate(np.array([0.25, 0.5, 1.0])[:, None], np.array([0.5, 4.0, 14.0])[None, :])
    rates = rates * np.exp(0.05 * np.random.default_rng(seed).standard_normal(rates.shape))
    more = '[[ratio]]\nprofile = "r18"\ntype = "a100"\nof = "v100"\nratio = 1.02\n'
    models = profiles.load(written(tmp_path / "r18.toml", a_model(rates=rates), more=more)).models
    measured = models["r18", 1, "v100"]

    faster = [models["r18", 1, "a100"], measured.with_storage(105.0)]
    slower = measured.with_storage(95.0)

    for model in faster:
        assert (speeds(model) >= speeds(measured) * (1 - 1e-9)).all()
    assert (speeds(slower) <= speeds(measured) * (1 + 1e-9)).all()


def speeds(model):
    return model.sensitivity.speed / model.step_s


def test_a_ratio_also_multiplies_rates_of_a_base(tmp_path):
    path = tmp_path / "more.toml"
    path.write_text(
        'base = "gavel"\n[[ratio]]\nprofile = "ResNet-18 (batch size 32)"\ntype = "a100"\nof = "v100"\nratio = 2.0\n'
    )

    catalogue = profiles.load(path)

    name = "ResNet-18 (batch size 32)"
    assert catalogue.rate(name, 1, "a100") == 2 * catalogue.rate(name, 1, "v100")
    assert catalogue.origin(name, 1, "a100") == "derived"


@pytest.mark.parametrize(
    "measured",
    [
        '[[rate]]\nprofile = "x"\ngpus = 2\ntype = "a100"\nrate = 20\n',
        '[[model]]\nprofile = "x"\ngpus = 2\ntype = "a100"\nstep_s = 0.05\n',
        '[[model]]\nprofile = "x"\ntype = "a100"\nstep_s = 0.05\n',
    ],
)
@pytest.mark.parametrize(
    "known",
    [
        (
            '[[rate]]\nprofile = "x"\ngpus = 2\ntype = "v100"\nrate = 10\n'
            '[[rate]]\nprofile = "x"\ngpus = 2\ntype = "v100"\nspread = true\nrate = 8\n'
        ),
        '[[model]]\nprofile = "x"\ngpus = 2\ntype = "v100"\nstep_s = 0.1\n',
    ],
)
def test_what_was_measured_in_any_form_goes_before_a_ratio(tmp_path, known, measured):
    path = tmp_path / "x.toml"
    path.write_text(f'{known}{measured}[[ratio]]\nprofile = "x"\ntype = "a100"\nof = "v100"\nratio = 3\n')

    catalogue = profiles.load(path)

    assert [catalogue.rate("x", 2, "a100", spread=spread) for spread in (False, True)] == [20.0, 20.0]


def test_a_profile_and_a_built_in_catalogue_go_together(tmp_path):
    path = written(tmp_path / "r18.toml", a_model())

    both = profiles.load(f"{path},gavel")

    assert both.rate("r18", 1, "v100") == pytest.approx(50.0, rel=1e-4)
    assert both.sensitivity("r18", 1, "v100") is not None
    assert both.rate("ResNet-18 (batch size 32)", 1, "v100") > 0


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("format = 1", "format = 2", "format = 2"),
        ("device_rate = 50.0", "device_rate = nan", "device_rate = nan"),
        ("device_rate = 50.0", "device_rat = 50.0", "did you mean 'device_rate'"),
        ("step_s = 0.02", "step_s = nan", "step_s = nan"),
        ("    [0.02, 0.02, 0.02],\n", "", "error must have 3 rows"),
        ("    [0.02, 0.02, 0.02],", "    [-1, 0.02, 0.02],", "-1"),
        ('["measured", "predicted"', '["guessed", "predicted"', "guessed"),
        ("reserve_part = 0.25", "reserve_part = 1.5", "reserve_part"),
        ("device_rate = 50.0", "device_rate = 1e-320", "device_rate = 1e-320"),
        ("cpu_s = 0.01", "cpu_s = 1e300", "cpu_s = 1e+300"),
        ("cpu_axis = [0.25", "cpu_axis = [0", "begins with 0 CPUs"),
        ("cpu_axis = [0.25, 0.5, 1.0", "cpu_axis = [0.25, 0.5, 1e300", "1e+300 in cpu_axis"),
        ("    [0.5, 0.5, 0.5],", "    [nan, 0.5, 0.5],", "is nan and its origin not 'failed'"),
        ('["measured", "predicted"', '["failed", "predicted"', "is nan and its origin not 'failed'"),
    ],
)
def test_a_damaged_profile_is_refused_with_its_place(tmp_path, old, new, said):
    text = document_text(ProfileDocument(name="mine", models=[a_model()]))
    assert old in text
    path = tmp_path / "r18.toml"
    path.write_text(text.replace(old, new, 1))

    with pytest.raises(ConfigError) as caught:
        profiles.load(path)

    assert said in str(caught.value)
    assert str(path) in str(caught.value)


@pytest.mark.parametrize("cell", ["nan", "0.0"])
def test_a_profile_without_any_speed_is_refused(tmp_path, cell):
    head, _, rest = document_text(ProfileDocument(name="mine", models=[a_model()])).partition("speed = [")
    row = f"[{cell}, {cell}, {cell}]"
    path = tmp_path / "r18.toml"
    path.write_text(f"{head}speed = [{row}, {row}, {row}{rest[rest.index('origin') - 2 :]}")

    with pytest.raises(ConfigError, match="no cell of speed is above 0"):
        profiles.load(path)


def test_a_pipeline_without_speeds_is_refused(tmp_path):
    """Other storage and ratios are computed cell by cell: without cells both would be ignored."""
    head, _, rest = document_text(ProfileDocument(name="mine", models=[a_model()])).partition("[[model]]")
    model = '[[model]]\nprofile = "r18"\ntype = "v100"\ngpus = 1\nstep_s = 0.1\n'
    path = tmp_path / "r18.toml"
    path.write_text("\n".join(line for line in head.splitlines() if "axis" not in line) + "\n" + model)
    assert profiles.load(path).rate("r18", 1, "v100") == 10.0
    path.write_text(path.read_text() + rest[rest.index("[model.pipeline]") :])

    with pytest.raises(ConfigError, match="a pipeline without speeds"):
        profiles.load(path)


@pytest.mark.parametrize(
    ("second", "said"),
    [
        ('type = "a100"\nof = "v100"\nratio = 3.0', "'r18' on a100 was already given by a ratio"),
        ('type = "v100"\nof = "v100"\nratio = 3.0', "v100 is given by itself"),
        ('type = "h100"\nof = "v100"\nratio = 1e300', "ratio = 1e\\+300 cannot be used"),
    ],
)
def test_ratios_that_contradict_themselves_are_refused(tmp_path, second, said):
    ratios = ['type = "a100"\nof = "v100"\nratio = 2.0', second]
    more = "".join(f'[[ratio]]\nprofile = "r18"\n{ratio}\n' for ratio in ratios)

    with pytest.raises(ConfigError, match=said):
        profiles.load(written(tmp_path / "r18.toml", a_model(), more=more))


def test_no_cpus_are_wanted_for_less_than_the_error_of_a_cell(tmp_path):
    rates = np.array([[9.0, 9.0], [9.7, 9.7], [9.8, 9.8], [10.0, 10.0]])
    amounts = {"cpus": (0.25, 0.5, 1.0, 2.0), "memory": (0.5, 4.0)}

    def wanted(error):
        notes = CellNotes(origin=(("measured",) * 2,) * 4, error=np.full((4, 2), error))
        path = written(tmp_path / "r18.toml", a_model(rates=rates, cells=notes, **amounts))
        return profiles.load(path).models["r18", 1, "v100"].sensitivity.ideal_cpus

    assert [wanted(0.001), wanted(0.025), wanted(0.04), wanted(0.3)] == [2.0, 1.0, 0.5, 0.5]


def test_a_knee_of_the_formula_that_the_cells_contradict_is_told_so(tmp_path, capsys):
    rates = STAGES.rate(np.array([0.25, 0.5, 1.0])[:, None], np.array([0.5, 4.0, 14.0])[None, :])
    rates[2] *= 1.16
    path = written(tmp_path / "r18.toml", a_model(rates=rates))

    assert main(["profiles", str(path)]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert "CPUs beyond which nothing is gained 0.5 per GPU by the formula, but 16 % are gained up to 1" in shown


def test_a_heat_map_with_a_failed_cell_keeps_its_colours(tmp_path, monkeypatch):
    model = profiles.load(written(tmp_path / "r18.toml", a_model_with_a_failed_cell())).models["r18", 1, "v100"]
    drawn = []
    monkeypatch.setattr(profile_text.sys.stdout, "isatty", lambda: True, raising=False)
    monkeypatch.setattr(profile_text, "_show_heat", lambda *given: drawn.append(given))

    profile_text.show_model("\x1b[31mred", model)

    title, _, _, heat = drawn[0]
    assert np.isnan(heat).sum() == 1
    assert np.nanmax(heat) == 1.0
    assert title == "^[[31mred"


def test_measured_and_predicted_cells_are_told_apart_in_words_and_in_a_figure(tmp_path, capsys):
    path = written(tmp_path / "r18.toml", a_model())

    assert main(["profiles", str(path)]) == 0
    shown = capsys.readouterr().out
    assert "25 +-2.0 %" in shown
    assert "25 +-2.0 % p" in shown
    assert "CPUs beyond which nothing is gained" in shown

    assert main(["profiles", str(path), "--json"]) == 0
    row = json.loads(capsys.readouterr().out)["rows"][0]
    assert row["profiled"]["v100"]["cells"]["origin"][0] == ["measured", "predicted", "predicted"]
    assert row["profiled"]["v100"]["pipeline"]["device_rate"] == 50.0

    figure = tmp_path / "heat.png"
    assert main(["plot", "sensitivity", "--profiles", str(path), "-o", str(figure)]) == 0
    assert figure.read_bytes().startswith(b"\x89PNG")


def a_model_with_a_failed_cell():
    rates = STAGES.rate(np.array([0.25, 0.5, 1.0])[:, None], np.array([0.5, 4.0, 14.0])[None, :])
    rates[0, 0] = math.nan
    cells = CellNotes(
        origin=(("failed", "predicted", "predicted"), *[("predicted",) * 3] * 2),
        error=np.full((3, 3), math.nan),
        reasons=(("out-of-memory", "", ""), *[("",) * 3] * 2),
    )
    return a_model(rates=rates, cells=cells)


def test_a_cell_whose_run_failed_keeps_its_reason(tmp_path):
    catalogue = profiles.load(written(tmp_path / "r18.toml", a_model_with_a_failed_cell()))

    assert catalogue.models["r18", 1, "v100"].cells.reasons[0][0] == "out-of-memory"
    assert math.isnan(catalogue.sensitivity("r18", 1, "v100").speed[0, 0])
