"""The catalogue `examples`: the training workloads as `rota profile` measured them."""

import numpy as np
import pytest

import rota
from rota import profiles
from rota.profiles.cells import MEASURED
from rota.workloads import training

CATALOGUE = profiles.load("examples")
HEADER = "arrival_s,gpus,profile,steps\n"


@pytest.mark.parametrize("name", training.names())
def test_every_training_workload_has_a_profile_with_measured_cells_and_errors(name):
    model = CATALOGUE.models[name, 1, "cpu"]

    assert model.cells.count(MEASURED) >= 3
    assert np.isfinite(model.cells.error).all()
    assert model.stages.device_rate is not None
    assert model.stages.data_gb is not None
    assert len(model.sensitivity.cpus) >= 6


def test_nothing_but_the_training_workloads_is_in_it_and_its_source_names_the_cpu():
    assert sorted(CATALOGUE.names) == sorted(training.names())
    assert CATALOGUE.about["source"].startswith("rota profile on ")
    assert "CPUs" in CATALOGUE.about["source"]


@pytest.mark.parametrize("name", training.names())
def test_more_cpus_are_not_slower_beyond_the_stated_errors(name):
    model = CATALOGUE.models[name, 1, "cpu"]
    speed, error = model.sensitivity.speed, model.cells.error
    gained = speed[1:] / speed[:-1] - 1

    assert (gained >= -(error[1:] + error[:-1]) - 0.05).all()


def test_dividing_cpus_by_need_is_worth_something_for_imagenet_beside_other_workloads(tmp_path):
    trace = tmp_path / "jobs.csv"
    trace.write_text(HEADER + "".join(f"0,1,{name},20000\n" for name in ("imagenet", "recommendation") * 4))
    run = {"trace": trace, "profiles": "examples", "cluster": "cpu=8/4:cpus=4:memory=4", "policy": "srtf"}
    mean = {kind: rota.simulate(**run, mechanism=kind).summary["mean_jct_s"] for kind in ("proportional", "tune")}

    assert mean["tune"] <= mean["proportional"] * 1.001
