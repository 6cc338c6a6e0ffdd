"""Steps out of what a command prints."""

from pathlib import Path

import pytest

from rota.core.errors import ConfigError
from rota.profiler.steps import OutputSteps, StepCount, compiled


def told(text, pattern, step_s=1.0):
    """Steps after lines that came one second after the other."""
    count = StepCount()
    output = OutputSteps(Path("/nowhere"), compiled(pattern), count)
    for number, line in enumerate(text.splitlines(keepends=True), 1):
        output._take("o", line, number * step_s)
    return count


def test_steps_are_counted_by_a_named_or_an_only_group():
    assert told("step 3\nnoise\nstep 7 of 9\n", r"step (?P<step>\d+)").step == 7
    assert told("step 3\nstep 7\n", r"step (\d+)").step == 7
    assert told("1,200 done\n", r"([\d,]+) done").step == 1200


def test_a_progress_bar_with_carriage_returns_is_read():
    assert told("5/100\r6/100\r", r"(?P<step>\d+)/").step == 6


def test_rates_and_seconds_are_summed_over_time():
    assert told("2.5 it/s\n2.5 it/s\n2.5 it/s\n", r"(?P<rate>[\d.]+) it/s").step == pytest.approx(5.0)
    assert told("0.5 s/it\n0.5 s/it\n", r"(?P<seconds>[\d.]+) s/it").step == pytest.approx(2.0)


def test_steps_that_somebody_says_late_do_not_go_back():
    count = told("step 70\nstep 69\nstep 71\n", r"step (\d+)")

    assert (count.step, count.epochs) == (71, 0)


def test_a_job_that_says_nothing_new_tells_nothing():
    count = told("step 0\nstep 0\nstep 5\nstep 5\n", r"step (\d+)")

    assert (count.told, count.epochs) == (1, 0)


@pytest.mark.parametrize("text", ["step 90\nstep 0\nstep 10\n", "step 10\nstep 1\nstep 11\n"])
def test_steps_that_begin_anew_with_an_epoch_are_counted_on(text):
    count = told(text, r"step (\d+)")

    assert count.step == int(text.split()[1]) + 10
    assert (count.epochs, count.told, count.at) == (1, 3, 3.0)


@pytest.mark.parametrize("text", ["(", "step", r"(\d+) of (\d+)", r"(?P<other>\d+)"])
def test_an_expression_that_says_no_steps_is_refused(text):
    with pytest.raises(ConfigError, match="--steps-regex"):
        compiled(text)
