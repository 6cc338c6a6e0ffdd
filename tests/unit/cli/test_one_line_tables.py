"""Tables with one line per row, whatever the width of the window is."""

import io
import sys

import pytest

from rota.cli import tables

HEADER = ("job", "name", "phase", "profile", "GPUs", "reason")
ROWS = [
    ("17", "a-rather-long-job-name", "running", "ResNet-18 (batch size 32)", "2", "-"),
    ("3", "x", "failed", "A3C", "1", "failed (exit code 3): something that goes on and on"),
]


class Window(io.StringIO):
    """A terminal."""

    def isatty(self):
        return True


def test_a_narrow_window_does_without_some_columns_and_keeps_the_reason(monkeypatch):
    window = Window()
    monkeypatch.setattr(sys, "stdout", window)
    monkeypatch.setattr(tables, "width", lambda: 50)

    tables.show_table(None, HEADER, ROWS, numbers=(4,), one_line=True, may_go=("profile", "GPUs"))

    assert "profile" not in window.getvalue()
    assert "failed (exit" in window.getvalue()


@pytest.mark.parametrize("columns", [60, 80, 120])
def test_every_row_is_one_line_and_short_texts_are_whole(monkeypatch, columns):
    window = Window()
    monkeypatch.setattr(sys, "stdout", window)
    monkeypatch.setattr(tables, "width", lambda: columns)

    tables.show_table(None, HEADER, ROWS, numbers=(4,), one_line=True)

    lines = [line for line in window.getvalue().splitlines() if line.strip()]
    assert len(lines) == 2 + len(ROWS)
    assert "running" in lines[2]
    assert "A3C" in lines[3]
    assert ("\u2026" in lines[2]) == (columns < 120)
