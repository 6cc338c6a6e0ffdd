import statistics
import warnings
from pathlib import Path

import pytest

from rota.core.errors import ConfigError, UnknownName
from rota.emulate.__main__ import main
from rota.emulate.cards import CARDS, card
from rota.emulate.catalogue import DeviceTimes, ExtrapolatedWarning, NotMeasured, StepTime, rows

TIMES = DeviceTimes()
MIB = 1024 * 1024
HELD_OUT = Path(__file__).parent / "data" / "held_out.csv.gz"


def test_a_measured_batch_is_answered_as_it_was_measured():
    step = TIMES.step("resnet50", "p100", 128)

    assert step == StepTime(0.188602 + 0.407107, 0.0171045, "measured")
    assert TIMES.seconds("resnet50", "p100", 128, "forward").value == 0.188602


def test_between_two_measured_batches_the_answer_is_on_their_line():
    figure = TIMES.seconds("resnet50", "p100", 144, "forward")

    assert figure.kind == "interpolated"
    assert figure.value == pytest.approx((0.188602 + 0.235512) / 2)


def test_a4_hidden_batches_are_found_by_interpolation_within_the_known_error():
    errors = {}
    for row in rows(HELD_OUT):
        figure = TIMES.seconds(row["model"], row["gpu"], int(row["batch"]), row["phase"])
        assert figure.kind == "interpolated"
        errors.setdefault(row["phase"], []).append(abs(figure.value / float(row["seconds"]) - 1))

    for found in errors.values():
        found.sort()
        assert len(found) > 3000
        assert statistics.median(found) <= 0.01
        assert found[int(0.95 * len(found))] <= 0.085


def test_a5_beyond_the_measured_range_the_answer_is_a_fit_and_warns():
    with pytest.warns(ExtrapolatedWarning, match="resnet50 on p100: batch 200 .* largest measured batch is 160"):
        step = TIMES.step("resnet50", "p100", 200)

    assert step.kind == "fit"
    assert step.seconds > TIMES.step("resnet50", "p100", 160).seconds


def test_a5_a_strict_table_refuses_to_guess():
    with pytest.raises(NotMeasured, match=r"resnet50 on p100: batch 200 .* largest measured batch is 160"):
        DeviceTimes(strict=True).step("resnet50", "p100", 200)


def test_a5_no_value_outside_the_measured_range_is_called_anything_but_a_fit():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ExtrapolatedWarning)
        for model in TIMES.models:
            for gpu in TIMES.gpus:
                largest = TIMES.largest(model, gpu)
                assert TIMES.step(model, gpu, largest).kind == "measured"
                assert TIMES.step(model, gpu, largest + 1).kind == "fit"
                assert TIMES.step(model, gpu, 2 * largest).seconds >= TIMES.step(model, gpu, largest).seconds


def test_series_that_jump_near_the_memory_limit_are_cut_before_it():
    assert TIMES.largest("resnext101_32x8d", "p100") == 48
    assert TIMES.largest("vgg11", "k80") == 128
    assert TIMES.largest("vgg16", "k80") == 64


def test_names_are_short_or_full_and_the_nearest_is_offered():
    assert card("Tesla V100-PCIE-32GB") == card("V100") == card("v100")
    with pytest.raises(UnknownName, match="did you mean 'v100'"):
        card("v10")
    with pytest.raises(UnknownName, match="did you mean 'resnet50'"):
        TIMES.step("resnet51", "v100", 64)
    with pytest.raises(ConfigError, match="batch of 0"):
        TIMES.step("resnet50", "v100", 0)


def test_a18_mean_speeds_relative_to_v100_are_those_known():
    known = {"a100": 1.93, "rtx6000": 0.88, "p100": 0.60, "m40": 0.30, "k80": 0.16}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ExtrapolatedWarning)
        for gpu, speed in known.items():
            ratios = [TIMES.step(m, "v100", 64).compute_s / TIMES.step(m, gpu, 64).compute_s for m in TIMES.models]
            assert statistics.geometric_mean(ratios) == pytest.approx(speed, abs=0.015)


def test_a9_the_largest_batch_that_fits_is_known_for_nine_of_ten():
    pairs = [(m, c.name) for m in TIMES.models for c in CARDS if TIMES.fitted_on_card(m, c.name) < 256]
    near = [p for p in pairs if abs(TIMES.largest_that_fits(*p) / TIMES.fitted_on_card(*p) - 1) <= 0.1]

    assert len(pairs) == 97
    assert len(near) >= 0.9 * len(pairs)


def test_parameters_agree_with_the_memory_that_models_keep():
    # Parameters, gradients and momentum are three times 4 bytes; a few MiB are other things.
    for model in set(TIMES.models) - {"googlenet"}:  # its auxiliary heads are counted but were not trained
        rest = TIMES.memory(model, 16).persistent_mib - 3 * TIMES.parameter_bytes(model) / MIB
        assert 0 < rest < 40


@pytest.mark.parametrize("seconds", [0.0, float("nan"), float("inf")])
def test_a_step_that_takes_no_time_or_for_ever_is_refused(seconds):
    with pytest.raises(ConfigError, match="cannot be emulated"):
        StepTime(seconds)


def test_the_catalogue_can_be_looked_at(capsys):
    assert main([]) == 0
    assert "wide_resnet50_2" in capsys.readouterr().out
    assert main(["resnet50", "p100", "200"]) == 0
    assert "fit" in capsys.readouterr().out
    assert main(["resnet50", "p100", "200", "--strict"]) == 2
    assert "largest measured batch is 160" in capsys.readouterr().err
