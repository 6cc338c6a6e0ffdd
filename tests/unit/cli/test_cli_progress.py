import io
import sys
from types import SimpleNamespace

from rota.cli.progress import progress_bar


class Terminal(io.StringIO):
    def isatty(self):
        return True


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
        update(SimpleNamespace(now=172800.0, finished=1200, target=1000, active=7, rounds=3))
        update(SimpleNamespace(now=172800.0, finished=1200, target=None, active=7, rounds=3))

    assert "1,200 done, 7 active, day 2" in terminal.getvalue()
    assert capsys.readouterr().out == ""
