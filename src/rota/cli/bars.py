"""Histograms: a line per bar, on a terminal never wider than the window, elsewhere with whole names."""

from __future__ import annotations

import sys

import click
from rich.cells import cell_len, set_cell_size

from rota.cli.tables import width
from rota.workloads.distributions import Histogram

_EIGHTHS = " ▏▎▍▌▋▊▉"
_LONGEST_LABEL = 28


def show_histogram(histogram: Histogram) -> None:
    """A title and one bar per label, the longest as wide as there is room."""
    total = sum(histogram.counts)
    largest = max(histogram.counts)
    longest = _LONGEST_LABEL if sys.stdout.isatty() else max(map(cell_len, histogram.labels))
    widths = [min(cell_len(label), longest) for label in histogram.labels]
    pairs = zip(histogram.labels, widths, strict=True)
    labels = [set_cell_size(_plain(label), width) for label, width in pairs]
    left = max(map(cell_len, labels))
    numbers = [f"{count:,}  {100 * count / total:.1f} %" for count in histogram.counts]
    right = max(map(len, numbers))
    room = max(5, width() - left - right - 4)
    click.echo(click.style(histogram.title, bold=True))
    for label, count, number in zip(labels, histogram.counts, numbers, strict=True):
        drawn = bar(count / largest * room)
        padding = " " * (room - len(drawn))
        click.echo(
            f"{' ' * (left - cell_len(label))}{label}  {click.style(drawn, fg='cyan')}{padding}  {number:>{right}}"
        )
    click.echo("")


def bar(length: float) -> str:
    """A bar of that many characters, to an eighth of one.

    Something for everything above nothing.
    """
    if not _blocks():
        return "#" * max(round(length), 1 if length > 0 else 0)
    whole, part = divmod(round(length * 8), 8)
    text = "█" * whole + (_EIGHTHS[part] if part else "")
    return text or (_EIGHTHS[1] if length > 0 else "")


def _blocks() -> bool:
    """Whether the output can show blocks."""
    try:
        "█▏".encode(sys.stdout.encoding or "ascii")
    except (UnicodeEncodeError, LookupError):
        return False
    return True


def _plain(label: str) -> str:
    return "".join(c if c.isprintable() else "?" for c in label)
