"""Tables: coloured and never wider than the window on a terminal.

In a pipe or a file they are plain text with one line per row, as long as it takes, so that `grep`
and `awk` find whole names.
"""

from __future__ import annotations

import shutil
import sys
import textwrap
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

from rota.core.control_characters import visible

if TYPE_CHECKING:
    from rich.table import Table

Row = tuple[str, str]

_NEVER_CUT = 10
"""Characters of a cell that is shown whole, however narrow the window is."""
_ENOUGH = 16
"""Characters of a cell with which it says what it has to say."""
_LEAST = 6
"""Characters that are left of every cell."""
_BETWEEN = 1
"""Columns of the window between two of a table."""


def width() -> int:
    """Columns that text and bars may use; 80 where there is no terminal."""
    if not sys.stdout.isatty():
        return 80
    return max(40, min(shutil.get_terminal_size((80, 24)).columns, 120))


def reflow(text: str) -> str:
    """Paragraphs broken to the width; those with indented lines (formulas) stay as they are."""
    return "\n\n".join(
        part if "\n " in f"\n{part}" else textwrap.fill(part, width(), break_long_words=False, break_on_hyphens=False)
        for part in text.split("\n\n")
    )


def show_table(
    title: str | None,
    header: Sequence[str],
    rows: Iterable[Sequence[str]],
    numbers: int | Collection[int] = 0,
    *,
    one_line: bool = False,
    may_go: Sequence[str] = (),
) -> None:
    """A table; the last `numbers` columns are right-aligned, or those at the positions that are given.

    With `one_line` each row is one line: in a narrow window the columns `may_go` are left out, the first
    first, and then texts are cut off.
    """
    right_aligned = range(len(header) - numbers, len(header)) if isinstance(numbers, int) else numbers
    title = None if title is None else visible(title)
    header = [visible(name) for name in header]
    rows = [[visible(cell) for cell in row] for row in rows]
    if not sys.stdout.isatty():
        _print_plain(title, [header, *rows], right_aligned)
        return
    from rich.text import Text

    table = _table(title)
    if one_line:
        kept = _columns_that_fit(header, rows, may_go)
        right_aligned = [at for at, column in enumerate(kept) if column in right_aligned]
        header = [header[column] for column in kept]
        rows = _cut(header, [[row[column] for column in kept] for row in rows])
        table.padding = (0, 0)
    for i, name in enumerate(header):
        right = i in right_aligned
        table.add_column(
            name,
            justify="right" if right else "left",
            style="cyan" if i == 0 else None,
            no_wrap=one_line or i == 0 or right,  # a number in two lines is two numbers
            overflow="fold",
        )
    for row in rows:
        table.add_row(*(Text(cell) for cell in row))
    _print(table)


def _columns_that_fit(header: Sequence[str], rows: Sequence[Sequence[str]], may_go: Sequence[str]) -> list[int]:
    """Positions of the columns that are shown: all, or without some of those that may go."""
    least = [min(max(map(_cells, column)), _ENOUGH) for column in zip(header, *rows, strict=True)]
    kept = list(range(len(header)))
    for name in may_go:
        if sum(least[column] for column in kept) + _BETWEEN * (len(kept) + 1) <= width():
            break
        kept.remove(header.index(name))
    return kept


def _cut(header: Sequence[str], rows: list[Sequence[str]]) -> list[list[str]]:
    """Rows that fit into the window: the widest columns are cut first, short texts never."""
    widths = [max(map(_cells, column)) for column in zip(header, *rows, strict=True)]
    room = width() - _BETWEEN * (len(header) + 1)
    long = [i for i, natural in enumerate(widths) if natural > _NEVER_CUT]
    while long and sum(widths) > room:
        widest = max(long, key=lambda i: widths[i])
        widths[widest] -= 1
        long = [i for i in long if widths[i] > _LEAST]
    pairs = ([*zip(row, widths, strict=True)] for row in rows)
    return [[cell if _cells(cell) <= most else cell[: most - 1] + "\u2026" for cell, most in row] for row in pairs]


def show_pairs(title: str, rows: Iterable[Row]) -> None:
    """A table of names and values."""
    title = visible(title)
    rows = [(visible(name), visible(value)) for name, value in rows]
    if not sys.stdout.isatty():
        _print_plain(title, rows, right_aligned=())
        return
    from rich.text import Text

    table = _table(title, show_header=False)
    table.add_column(style="cyan", no_wrap=True)
    table.add_column(overflow="fold")
    for name, value in rows:
        table.add_row(Text(name), Text(value))
    _print(table)


def _print_plain(title: str | None, rows: Sequence[Sequence[str]], right_aligned: Collection[int]) -> None:
    """One line per row, two blanks between columns, nothing cut off or broken."""
    if title is not None:
        click.echo(_one_line(title))
    lines = [[_one_line(cell) for cell in row] for row in rows]
    widths = [max(map(_cells, column)) for column in zip(*lines, strict=True)]
    texts = []
    for line in lines:
        cells = []
        for i, (cell, width) in enumerate(zip(line, widths, strict=True)):
            blanks = " " * (width - _cells(cell))
            cells.append(blanks + cell if i in right_aligned else cell + blanks)
        texts.append("  ".join(cells).rstrip())
    if texts:
        click.echo("\n".join(texts))


def _cells(text: str) -> int:
    """Places that a text takes up in a line."""
    if text.isascii():
        return len(text)
    from rich.cells import cell_len

    return cell_len(text)


def _one_line(text: str) -> str:
    return " ".join(text.splitlines())


def _table(title: str | None, *, show_header: bool = True) -> Table:
    from rich import box
    from rich.table import Table

    return Table(
        title=title,
        box=box.SIMPLE_HEAD,
        title_justify="left",
        title_style="bold",
        header_style="bold",
        show_header=show_header,
        pad_edge=False,
    )


def _print(table: Table) -> None:
    from rich.console import Console

    Console(width=width(), highlight=False, emoji=False, markup=False).print(table)


def duration(seconds: float | None) -> str:
    """Seconds, with a unit people think in."""
    if seconds is None:
        return "-"
    for unit, size in (("days", 86400.0), ("h", 3600.0), ("min", 60.0)):
        if seconds >= 2 * size:
            return f"{seconds:,.1f} s  ({seconds / size:,.1f} {unit})"
    return f"{seconds:,.1f} s"


def share(value: float | None) -> str:
    """A fraction as a percentage."""
    return "-" if value is None else f"{100 * value:.2f} %"


def summary_rows(summary: Mapping[str, Any]) -> list[Row]:
    """The numbers of a run with labels and units; keys that are missing are left out."""
    rows: list[Row] = []
    for label, key, form in _SUMMARY:
        if summary.get(key) is not None and (summary[key] or key not in _ONLY_IF_ANY):
            rows.append((label, form(summary[key])))
        elif key == "cost" and key in summary:
            rows.append((label, "unknown"))
    for label, key in (("  weight", "mean_jct_s_by_weight"), ("  tenant", "mean_jct_s_by_tenant")):
        groups = summary.get(key) or {}
        if len(groups) > 1:
            rows += [(f"{label} {name}: mean JCT", duration(value)) for name, value in groups.items()]
    if summary.get("slo_jobs"):
        missed = f"{summary['slo_violations']:,} of {summary['slo_jobs']:,}"
        rows.append(("Deadlines missed", missed))
    if summary.get("mean_jct_s") is None:
        rows.insert(0, ("Mean completion time", "- (no measured job has finished)"))
    return rows


def _count(value: float) -> str:
    return f"{value:,.0f}"


def _seconds(value: float) -> str:
    return f"{value:,.2f} s"


_ONLY_IF_ANY = {"jobs_dropped", "jobs_rejected", "solve_failures"}
_SUMMARY = (
    ("Mean completion time", "mean_jct_s", duration),
    ("  median", "p50_jct_s", duration),
    ("  90th percentile", "p90_jct_s", duration),
    ("  99th percentile", "p99_jct_s", duration),
    ("  99.9th percentile", "p999_jct_s", duration),
    ("Makespan", "makespan_s", duration),
    ("Utilisation", "utilization", share),
    ("  of CPUs", "cpu_utilization", share),
    ("  of memory", "memory_utilization", share),
    ("Finish-time fairness", "mean_ftf", lambda v: f"{v:.3f}"),
    ("  worst", "worst_ftf", lambda v: f"{v:.3f}"),
    ("  unfair jobs", "unfair_fraction", share),
    ("Leases extended", "lease_extension_fraction", share),
    ("Cost", "cost", lambda v: f"{v:,.2f}"),
    ("Jobs measured", "jobs_measured", _count),
    ("Jobs finished", "jobs_finished", _count),
    ("Jobs submitted", "jobs_submitted", _count),
    ("Jobs dropped", "jobs_dropped", _count),
    ("Jobs rejected", "jobs_rejected", _count),
    ("Rounds", "rounds", _count),
    ("Solves", "solves", _count),
    ("Solves failed", "solve_failures", _count),
    ("CPU time", "cpu_s", _seconds),
    ("Wall time", "wall_s", _seconds),
    ("Peak memory", "peak_rss_mb", lambda v: f"{v:,.0f} MB"),
)
