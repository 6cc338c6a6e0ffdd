import io
import itertools
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

import rota
from rota.cli.progress import TimeLeft, clock, describe, progress_bar
from rota.session import Progress


class Terminal(io.StringIO):
    def isatty(self):
        return True


def at(**fields):
    return Progress(**{"now": 172800.0, "finished": 0, "target": None, "active": 7, "rounds": 3, **fields})


def test_there_is_no_bar_where_nobody_would_see_it(monkeypatch):
    monkeypatch.setattr(sys, "stderr", io.StringIO())

    with progress_bar("simulating") as update:
        assert update is None


def test_the_bar_goes_to_standard_error_of_a_terminal(monkeypatch, capsys):
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "100")

    with progress_bar("simulating") as update:
        update(at(over=1200, total=2000))

    assert "60 %, 1,200 of 2,000 jobs done, 7 active, day 2" in terminal.getvalue()
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize(
    ("fields", "part", "said"),
    [
        ({"over": 5}, None, "5 jobs done, 7 active, day 2"),
        ({"over": 5, "total": 20}, 0.25, "25 %, 5 of 20 jobs done, 7 active, day 2"),
        ({"over": 5, "until": 345600.0}, 0.5, "50 %, 5 jobs done, 7 active, day 2 of 4"),
        ({"over": 15, "total": 20, "until": 345600.0}, 0.75, "75 %, 15 of 20 jobs done, 7 active, day 2 of 4"),
    ],
)
def test_the_part_that_is_done_is_of_jobs_or_of_time_whichever_is_further(fields, part, said):
    assert at(**fields).part == part
    assert describe(at(**fields), None) == said


def test_time_left_comes_before_what_a_narrow_window_cuts():
    assert describe(at(over=1, total=2), 75.0).startswith("50 %, 0:01:15 left, ")
    assert (clock(3725), clock(200_000)) == ("1:02:05", "2.3 days")


@given(total=st.floats(5, 1e5), start=st.floats(0, 0.5))
def test_time_left_is_exact_for_a_steady_run_resumed_or_not(total, start):
    left = TimeLeft()
    for i in range(50):
        now = total * i / 50
        answer = left.after(start + (1 - start) * i / 50, 100 + now)

    assert answer == pytest.approx(total - now, rel=1e-6)


@given(paces=st.lists(st.floats(0.2, 5), min_size=40, max_size=200))
def test_time_left_does_not_jump_when_single_rounds_are_five_times_slower_or_faster(paces):
    left = TimeLeft()
    total = sum(paces)
    done, answers = 0.0, []
    for i, pace in enumerate(paces):
        answers.append(left.after(done / total, 0.25 * i))
        done += pace
    known = [a for a in answers if a is not None]

    # Between two drawings, relative to what is left.
    jumps = [abs(b - (a - 0.25)) / (a + 1) for a, b in itertools.pairwise(known[12:])]
    assert max(jumps, default=0) < 1.0
    assert all(a >= 0 for a in known)


def test_nothing_is_said_about_what_is_left_before_there_is_a_pace():
    left = TimeLeft()

    assert [left.after(part, now) for part, now in [(None, 0), (0.0, 1), (0.1, 1.5), (0.1, 1.5)]] == [None] * 4


@pytest.mark.parametrize(
    ("options", "total"),
    [
        ({"settings": {"jobs": "30", "interarrival_s": "2000"}}, 30),
        ({"settings": {"interarrival_s": "2000"}, "measure": (5, 20)}, 20),
        ({"settings": {"interarrival_s": "2000"}, "until": 60_000.0}, None),
    ],
)
def test_a_run_goes_from_nothing_to_all_and_never_back(monkeypatch, options, total):
    monkeypatch.setattr("rota.session._REPORT_EVERY_S", 0.0)
    told = []

    rota.simulate(workload="gavel-continuous", cluster="v100=4", policy="fifo", progress=told.append, **options)

    parts = [progress.part for progress in told]
    assert told[0].part == 0
    assert parts == sorted(parts)
    assert parts[-1] > 0.9
    assert {progress.total for progress in told} == {total}
