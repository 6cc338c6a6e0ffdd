"""Engine seconds when the wall clock is set to another time, the scheduler is started again, or its machine is."""

import pytest

from rota.deploy.scheduler import clock

HOUR = 3600.0
DAY = 24 * HOUR
STEPS = [-DAY, -HOUR, -3.0, 3.0, HOUR, DAY]


class Times:
    """The clocks of a machine."""

    def __init__(self):
        self.wall, self.machine, self.boot = 1_000_000.0, 50.0, "first"

    def pass_by(self, seconds):
        self.wall += seconds
        self.machine += seconds

    def start_again(self, seconds):
        """The machine was off for so long."""
        self.wall += seconds
        self.machine = 5.0
        self.boot = "second"


@pytest.fixture
def times(monkeypatch):
    found = Times()
    monkeypatch.setattr(clock, "wall_s", lambda: found.wall)
    monkeypatch.setattr(clock, "machine_s", lambda: found.machine)
    monkeypatch.setattr(clock, "boot_id", lambda: found.boot)
    return found


@pytest.mark.parametrize("step", STEPS)
def test_a_step_of_the_wall_clock_moves_nothing_in_a_running_scheduler(times, step):
    watch = clock.WallClock(scale=60.0)
    times.pass_by(10.0)

    times.wall += step
    assert watch.now() == 600.0
    assert watch.wall_was_set() == step
    assert watch.wall_was_set() == 0.0
    times.pass_by(1.0)

    assert watch.now() == 660.0
    assert watch.wall_time(watch.now()) == times.wall


def test_a_clock_that_is_corrected_slowly_was_not_set_but_shows_the_right_time(times):
    watch = clock.WallClock()

    for _ in range(100):
        times.pass_by(1.0)
        times.wall += 0.05
        assert watch.wall_was_set() == 0.0

    assert abs(watch.wall_time(watch.now()) - times.wall) < clock.STEP_S
    assert watch.now() == 100.0


@pytest.mark.parametrize("step", [0.0, *STEPS])
def test_a_scheduler_that_is_started_again_goes_on_with_the_machine_whatever_the_wall_says(times, step):
    first = clock.WallClock(scale=2.0)
    times.pass_by(10.0)
    before = first.reading()
    times.pass_by(30.0)
    times.wall += step

    again = clock.WallClock(scale=2.0, before=before, at_least=before.at)

    assert again.now() == 80.0
    assert again.wall_time(again.now()) == times.wall
    assert (again.set_by_s, again.unsure_s) == (step, 0.0)


def test_after_a_start_of_the_machine_time_goes_on_with_the_wall_and_nobody_is_sure(times):
    before = clock.WallClock(scale=2.0).reading()
    times.start_again(30.0)

    again = clock.WallClock(scale=2.0, before=before, at_least=10.0)

    assert again.now() == 60.0
    assert (again.set_by_s, again.unsure_s) == (0.0, 50.0)


@pytest.mark.parametrize("boot", ["first", "second", ""])
def test_time_never_goes_back_behind_what_the_journal_says(times, boot):
    first = clock.WallClock()
    times.pass_by(100.0)
    at = first.now()
    before = first.reading()
    times.start_again(10.0)
    times.boot = boot
    times.wall -= HOUR + 10.0

    again = clock.WallClock(before=before, at_least=at + 20.0)

    assert again.now() == at + 20.0
    assert again.unsure_s == 0.0
    assert again.set_by_s == -HOUR - 20.0
    times.pass_by(5.0)
    assert again.now() == at + 25.0


def test_clocks_that_were_not_read_together_are_not_compared(times, monkeypatch):
    """The process was stopped between two readings."""
    watch = clock.WallClock()
    readings = iter([50.0, 90.0])
    monkeypatch.setattr(clock, "machine_s", lambda: next(readings))
    times.wall += 40.0

    assert watch.wall_was_set() == 0.0
