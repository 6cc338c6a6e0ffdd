"""Engine seconds when the wall clock is set to another time, or the scheduler is started again."""

import pytest

from rota.deploy.scheduler import clock


class Times:
    """The two clocks of a machine."""

    def __init__(self):
        self.wall, self.mono = 1_000_000.0, 50.0

    def pass_by(self, seconds):
        self.wall += seconds
        self.mono += seconds


@pytest.fixture
def times(monkeypatch):
    found = Times()
    monkeypatch.setattr(clock.time, "time", lambda: found.wall)
    monkeypatch.setattr(clock.time, "monotonic", lambda: found.mono)
    return found


@pytest.mark.parametrize("step", [-86_400.0, -3.0, 3.0, 86_400.0])
def test_a_step_of_the_wall_clock_moves_nothing_in_a_running_scheduler(times, step):
    watch = clock.WallClock(scale=60.0)
    times.pass_by(10.0)

    times.wall += step
    assert watch.now() == 600.0
    times.pass_by(1.0)

    assert watch.now() == 660.0


def test_a_scheduler_that_is_started_again_goes_on_with_the_wall(times):
    first = clock.WallClock(scale=2.0)
    times.pass_by(10.0)
    at = first.now()
    times.wall += 30.0  # it was away, and the machine was booted meanwhile
    times.mono = 0.0

    again = clock.WallClock(scale=2.0, begun=first.begun, at_least=at)

    assert again.now() == 80.0
    assert again.wall_time(again.now()) == times.wall


def test_time_never_goes_back_behind_what_the_journal_says(times):
    first = clock.WallClock()
    times.pass_by(100.0)
    at = first.now()
    times.wall -= 3600.0  # somebody set the clock back while it was away

    again = clock.WallClock(begun=first.begun, at_least=at)

    assert again.now() == at
    times.pass_by(5.0)
    assert again.now() == at + 5.0
