"""The steps of the emulated GPUs as a catalogue."""

import pytest

from rota import profiles
from rota.core.errors import ProfileMissing
from rota.deploy.scheduler.catalogue import opened
from rota.emulate.catalogue import DeviceTimes
from rota.emulate.gangs import gang_step

NAME = "resnet50 (batch size 64)"


@pytest.fixture(scope="module")
def catalogue():
    return profiles.load("gpemu")


@pytest.fixture(scope="module")
def times():
    return DeviceTimes(strict=True)


def test_all_measured_batches_of_all_models_are_in_it(catalogue, times):
    expected = {
        f"{model} (batch size {batch})"
        for model in times.models
        for gpu in times.gpus
        for batch in times.batches(model, gpu)
        if batch <= times.largest(model, gpu)
    }

    assert set(catalogue.names) == expected
    assert set(catalogue.types) == set(times.gpus)


def test_a_rate_is_that_of_the_measured_step(catalogue, times):
    for gpu in times.gpus:
        assert catalogue.rate(NAME, 1, gpu) == pytest.approx(1 / times.step("resnet50", gpu, 64).seconds)


@pytest.mark.parametrize("gpus", [2, 4, 8])
@pytest.mark.parametrize("spread", [False, True])
def test_gangs_are_those_of_the_documented_model(catalogue, times, gpus, spread):
    step = gang_step(times, "resnet50", "p100", 64, gpus=gpus, servers=2 if spread else 1)

    assert catalogue.rate(NAME, gpus, "p100", spread=spread) == pytest.approx(1 / step.seconds)


def test_a_card_that_was_too_small_has_speed_zero(catalogue, times):
    assert times.largest("vgg16", "k80") < 256

    assert catalogue.rate("vgg16 (batch size 256)", 1, "k80") == 0.0
    assert catalogue.rate("vgg16 (batch size 256)", 1, "v100") > 0.0


def test_a_part_that_was_not_measured_has_no_rate(catalogue):
    with pytest.raises(ProfileMissing, match="not measured with 2 GPUs"):
        catalogue.rate("resnet50 (batch size 24)", 2, "v100")


def test_every_profile_has_one_short_name(catalogue):
    known = opened(catalogue)

    assert known.named("resnet50-64") == NAME
    for name in catalogue.names:
        assert known.named(name.replace(" (batch size ", "-").rstrip(")")) == name
