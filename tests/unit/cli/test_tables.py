"""Tables in a pipe have one line per row; on a terminal they fit into the window."""

import io
import os
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rota.cli.bars import show_histogram
from rota.cli.listing import show_list
from rota.cli.main import main
from rota.cli.tables import show_pairs, show_table
from rota.workloads.distributions import Histogram

LONG = "max-min-fairness-water-filling-packed-with-a-name-beyond-eighty-columns-of-print"
WORDS = st.text(st.characters(min_codepoint=33, max_codepoint=126), min_size=1, max_size=120)


class Terminal(io.StringIO):
    encoding = "utf-8"

    def isatty(self):
        return True


@pytest.fixture
def terminal(monkeypatch):
    """Standard output as a window of that many columns."""

    def opened(columns):
        stream = Terminal()
        monkeypatch.setattr(sys, "stdout", stream)
        monkeypatch.setattr("shutil.get_terminal_size", lambda *_: os.terminal_size((columns, 24)))
        return stream

    return opened


@given(rows=st.lists(st.tuples(WORDS, WORDS, WORDS), min_size=1, max_size=5))
def test_a_pipe_gets_one_line_per_row_with_every_word_whole(rows):
    stream = io.StringIO()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "stdout", stream)
        show_table("a title", ("name", "what", "count"), rows, numbers=1)

    title, header, *lines = stream.getvalue().splitlines()
    assert (title, header.split()) == ("a title", ["name", "what", "count"])
    assert [tuple(line.split()) for line in lines] == rows


def test_columns_in_a_pipe_are_aligned_and_lines_have_no_blanks_at_the_end(capsys):
    show_table(None, ("name", "n", "text"), [(LONG, "5", "x"), ("b", "12,345", "")], numbers=2)

    header, first, second = capsys.readouterr().out.splitlines()
    assert header.index("n", 5) == first.index("5") == second.index("5", 3) == len(LONG) + 2 + 5
    assert not second.endswith(" ")


def test_a_value_with_line_breaks_is_one_line_in_a_pipe(capsys):
    show_pairs("run", [("error", "first\nsecond"), (LONG, "x")])

    assert len(capsys.readouterr().out.splitlines()) == 3


def test_a_list_with_long_names_keeps_name_and_explanation_on_a_line_in_a_pipe(capsys):
    show_list("policy", [(LONG, "What " * 30), ("b", "Other.")], as_json=False)

    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 3
    assert lines[1].startswith(LONG)
    assert lines[1].count("What") == 30


@pytest.mark.parametrize("columns", [60, 80, 120])
@pytest.mark.parametrize(
    "verb", [["policies"], ["profiles"], ["rules", "default"], ["repro", "list"], ["trace", "formats"]]
)
def test_a_terminal_gets_a_table_that_fits(terminal, verb, columns):
    stream = terminal(columns)

    assert main(verb) == 0

    lines = [strip(line) for line in stream.getvalue().splitlines()]
    assert len(lines) > 5
    assert max(map(len, lines)) <= columns


def strip(line):
    """Without colours."""
    out, inside = "", False
    for letter in line:
        inside = inside or letter == "\x1b"
        out += "" if inside else letter
        inside = inside and letter != "m"
    return out


@pytest.mark.parametrize(
    "verb", [["policies"], ["mechanisms"], ["profiles"], ["workloads"], ["clusters"], ["rules"], ["trace", "formats"]]
)
def test_lists_in_a_pipe_have_a_line_per_name(capsys, verb):
    import json

    assert main([*verb, "--json"]) == 0
    listed = json.loads(capsys.readouterr().out)
    assert main(verb) == 0

    lines = capsys.readouterr().out.splitlines()[1:]
    assert [line.split()[0] for line in lines] == [entry["name"] for entry in listed]
    assert all(entry["summary"].split() == line.split()[1:] for entry, line in zip(listed, lines, strict=True))


def test_a_histogram_cuts_names_on_a_terminal_only(terminal, capsys):
    histogram = Histogram(title="models", labels=[LONG, "b"], counts=[3, 1])

    show_histogram(histogram)
    assert any(line.startswith(LONG) for line in capsys.readouterr().out.splitlines())

    stream = terminal(80)
    show_histogram(histogram)
    assert max(len(strip(line)) for line in stream.getvalue().splitlines()) <= 80


def test_numbers_stay_whole_on_a_narrow_terminal(terminal):
    stream = terminal(50)
    rows = [("a", "some long words that can be broken", "12,345.67", "0.001"), ("b", "short", "7.5", "1,000,000")]

    show_table(None, ("name", "what", "mean h", "count"), rows, numbers=2)

    shown = strip(stream.getvalue())
    assert all(number in shown for row in rows for number in row[2:])
    assert max(map(len, shown.splitlines())) <= 50
