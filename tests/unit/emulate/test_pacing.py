import os
import subprocess
import sys
import threading
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from real_time import within
from rota.core.errors import ConfigError
from rota.emulate.catalogue import StepTime
from rota.emulate.lateness import Lateness
from rota.emulate.pacing import CATCH_UP_S, Interrupt, Pacer, StepTimeline


class Clock:
    """A clock and a wait on it that ends late by what is next in `late`."""

    def __init__(self, *late):
        self.now = 100.0
        self.late = list(late)

    def __call__(self):
        return self.now

    def wait(self, seconds):
        self.now += max(0.0, seconds) + (self.late.pop(0) if self.late else 0.0)
        return False


def end_of(steps, *, overlap):
    line = StepTimeline(overlap=overlap)
    line.begin(0.0)
    for step in steps:
        end = line.next(step)
    return end


def timed(steps, step_s, **pacing):
    pacer = Pacer(**pacing)
    begun = time.monotonic()
    for _ in range(steps):
        assert pacer.step(StepTime(step_s))
    return time.monotonic() - begun, pacer.report()


def test_a6_overlap_hides_the_shorter_of_copying_and_computing():
    assert end_of([StepTime(0.2, 0.1)] * 50, overlap=True) == pytest.approx(10.1)
    assert end_of([StepTime(0.2, 0.1)] * 50, overlap=False) == pytest.approx(15.0)
    assert end_of([StepTime(0.1, 0.2)] * 50, overlap=True) == pytest.approx(50 * 0.2 + 0.1)


@given(
    compute=st.floats(1e-3, 10.0),
    copy=st.floats(0.0, 10.0),
    steps=st.integers(1, 40),
    compression=st.floats(1.0, 100.0),
)
def test_a6_the_formulas_hold_for_any_step(compute, copy, steps, compression):
    for overlap, expected in (
        (False, steps * (copy + compute)),
        (True, copy + (steps - 1) * max(copy, compute) + compute),
    ):
        line = StepTimeline(overlap=overlap, compression=compression)
        line.begin(5.0)
        for _ in range(steps):
            end = line.next(StepTime(compute, copy))

        assert end - 5.0 == pytest.approx(expected / compression)


def test_a6_overlap_on_the_real_clock():
    def run(overlap):
        pacer = Pacer(overlap=overlap)
        begun = time.monotonic()
        for _ in range(50):
            pacer.step(StepTime(0.02, 0.01))
        return time.monotonic() - begun, pacer.report()

    within(1.01, 0.01, lambda: run(overlap=True))
    within(1.50, 0.01, lambda: run(overlap=False))


def test_a_step_begins_when_its_data_are_there():
    line = StepTimeline()
    line.begin(0.0)

    assert line.next(StepTime(1.0), ready=5.0) == 6.0
    assert line.next(StepTime(1.0), ready=2.0) == 7.0


def test_a_late_wait_is_made_good_by_the_next():
    clock = Clock(0.3, 0.0, 0.0)
    pacer = Pacer(interrupt=clock, clock=clock)

    for _ in range(3):
        pacer.step(StepTime(1.0))

    assert clock.now == pytest.approx(103.0)
    assert pacer.report().max_s == pytest.approx(0.3)
    assert pacer.report().lost_s == 0.0


def test_a_wait_that_is_far_too_late_is_lost_and_reported():
    clock = Clock(CATCH_UP_S + 1.0, 0.0)
    pacer = Pacer(interrupt=clock, clock=clock)

    for _ in range(2):
        pacer.step(StepTime(1.0))

    assert clock.now == pytest.approx(103.0 + CATCH_UP_S)
    assert pacer.report().lost_s == pytest.approx(CATCH_UP_S + 1.0)
    assert pacer.report().flagged


def test_a2_short_steps_add_up():
    within(0.5, 0.02, lambda: timed(500, 0.001))
    within(0.5, 0.02, lambda: timed(100, 0.005))


def test_a3_there_is_no_drift():
    within(2.0, 0.001, lambda: timed(100, 0.02))


def test_a19_compressed_time_is_the_same_time():
    within(4.0 / 20, 0.03, lambda: timed(40, 0.1, compression=20.0))


@pytest.mark.parametrize("factor", [0.0, 0.5, float("nan"), 1e9])
def test_time_cannot_be_stretched(factor):
    with pytest.raises(ConfigError, match="time compression"):
        Pacer(compression=factor)


def test_a14_a_wait_ends_within_a_tenth_of_a_second_of_the_order():
    def latency():
        pacer = Pacer(interrupt=(interrupt := Interrupt()))
        ordered = []
        timer = threading.Timer(0.05, lambda: (ordered.append(time.monotonic()), interrupt.set()))
        timer.start()
        assert pacer.step(StepTime(2.0)) is False
        assert pacer.step(StepTime(2.0)) is False, "it stays interrupted"
        timer.join()
        return time.monotonic() - ordered[0]

    assert min(latency() for _ in range(3)) < 0.1


def test_lateness_is_counted_in_bounded_memory():
    lateness = Lateness()
    for i in range(1, 1001):
        lateness.add(i * 1e-5, 0.1)

    report = lateness.report()

    assert report.steps == 1000
    assert report.mean_s == pytest.approx(5.005e-3)
    assert 0.0095 <= report.p95_s <= 0.0095 * 1.1
    assert report.max_s == pytest.approx(0.01)
    assert report.flagged, "p95 is above 3 % of a step of 0.1 s"


@pytest.mark.skipif(sys.platform != "linux", reason="real-time priority is known on Linux only")
def test_real_time_priority_is_for_the_waiting_thread_and_not_for_what_it_starts():
    script = (
        "import os, subprocess, sys, threading; from rota.emulate.priority import realtime; "
        "got = realtime(); found = []; ask = lambda: found.append(os.sched_getscheduler(0) & ~os.SCHED_RESET_ON_FORK); "
        "ask(); thread = threading.Thread(target=ask); thread.start(); thread.join(); "
        "own = 'import os; print(os.sched_getscheduler(0))'; "
        "child = subprocess.run([sys.executable, '-c', own], capture_output=True, check=True); "
        "print(got, *found, int(child.stdout))"
    )

    said = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout.split()

    normal, first = str(os.SCHED_OTHER), str(os.SCHED_FIFO)
    assert said in (["True", first, normal, normal], ["False", normal, normal, normal])
