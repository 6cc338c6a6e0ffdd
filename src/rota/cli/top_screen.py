"""One frame of `rota top`: what is on the screen, made of a picture of the cluster and the size of the window."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from rota.cli.job_text import printable, short
from rota.dashboard.picture import (
    IDLE,
    OTHERS,
    Eta,
    JobRow,
    NodeRow,
    Picture,
    TableQuery,
    cells,
    health,
    holders,
    table,
)

if TYPE_CHECKING:
    from rich.text import Text

SHOWS = ("running", "waiting", "over", "all")
SORTS = ("job", "tenant", "gpus", "done", "time", "reason", "eta")
_LEVELS = {"good": "green", "warn": "yellow", "bad": "bold red"}
_COLOURS = ("blue", "dark_orange3", "green", "magenta", "cyan", "yellow", "red", "purple", "turquoise2", "khaki3")
_LEAST_ROWS = 3
_MOST_MAP_LINES = 8
_HEADER = ("job", "name", "tenant", "phase", "GPUs", "done", "time", "starts in", "reason or place")
_WIDTHS = (7, 20, 12, 9, 4, 5, 7, 17)
_RIGHT = frozenset({0, 4, 5, 6})
_MAY_GO = (2, 1, 6, 4)
"""Columns that a narrow window does without, the first first: tenant, name, time, GPUs."""
_LEAST_REASON = 20
"""Characters that are left for the last column."""


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """What somebody looks at."""

    show: str = "running"
    sort: str = "job"
    down: bool = False
    first: int = 0
    """Row of the table that is the first on the screen."""

    def after(self, key: str, rows: int) -> View:
        """The view after a key; `rows` is how many rows of the table fit."""
        if key == "\t":
            return replace(self, show=SHOWS[(SHOWS.index(self.show) + 1) % len(SHOWS)], first=0)
        if key == "s":
            return replace(self, sort=SORTS[(SORTS.index(self.sort) + 1) % len(SORTS)], first=0)
        if key == "r":
            return replace(self, down=not self.down, first=0)
        step = {"down": 1, "j": 1, "up": -1, "k": -1, "pagedown": rows, " ": rows, "pageup": -rows}.get(key, 0)
        return replace(self, first=max(0, self.first + step))

    def within(self, picture: Picture, rows: int) -> View:
        """The same, not beyond the last row."""
        _, total = table(picture, TableQuery(show=self.show, sort=self.sort))
        return replace(self, first=min(self.first, max(0, total - rows)))


def frame(picture: Picture, view: View, *, width: int, height: int | None, now: float) -> list[Text]:
    """The lines of the screen; `height` None: as many as there are. `now` is the wall time in seconds since 1970."""
    lines = [_title(picture, width), *_health(picture, width)]
    lines += _map(picture, width, _MOST_MAP_LINES if height is None else max(1, min(_MOST_MAP_LINES, height // 4)))
    rows, total = table(picture, TableQuery(show=view.show, sort=view.sort, down=view.down, size=max(1, _ALL)))
    room = len(rows) if height is None else max(_LEAST_ROWS, height - len(lines) - 3)
    first = min(view.first, max(0, total - room))
    shown = rows[first : first + room]
    lines.append(_heading(view, first, len(shown), total))
    lines.append(_line(_HEADER, width, style="bold"))
    lines += [_line(_cells(row, picture.etas.get(row.job), now), width) for row in shown]
    return lines if height is None else [*lines[: height - 1], _keys(width)]


_ALL = 1_000_000
"""Rows of the table that are sorted: all, of which those are taken that fit."""


def rows_that_fit(picture: Picture, width: int, height: int) -> int:
    """How many rows of the table a page down goes."""
    above = 1 + len(_health(picture, width)) + len(_map(picture, width, max(1, min(_MOST_MAP_LINES, height // 4))))
    return max(_LEAST_ROWS, height - above - 3)


def _text(content: str, width: int, style: str = "") -> Text:
    from rich.text import Text

    text = Text(content, style=style, no_wrap=True, overflow="ellipsis")
    text.truncate(width, overflow="ellipsis")
    return text


def _title(picture: Picture, width: int) -> Text:
    status = picture.status
    if not status:
        return _text("rota top", width, "bold")
    who = f"{status['tenant']}{' (administrator)' if status['admin'] else ''}"
    decided = f"round {status['rounds']:,}, decided in {1000 * status['last_decision_s']:.1f} ms"
    return _text(f"{status['policy']} with {status['mechanism']} | {decided} | {who}", width, "bold")


def _health(picture: Picture, width: int) -> list[Text]:
    import textwrap

    state = health(picture)
    lines = textwrap.wrap(printable(state.sentence), max(20, width)) or [""]
    return [_text(line, width, _LEVELS[state.level]) for line in lines[:3]]


# The map


def _map(picture: Picture, width: int, most: int) -> list[Text]:
    """GPUs as characters, one colour per tenant; by type if servers do not fit."""
    nodes = sorted(picture.nodes.values(), key=lambda node: (node.type, node.node))
    if not nodes:
        return []
    held = holders(picture.jobs.values())
    tenants = sorted({row.tenant for row in picture.jobs.values() if row.parts})
    colours = {tenant: _COLOURS[i % len(_COLOURS)] for i, tenant in enumerate(tenants)}
    pieces = [_server(node, held.get(node.node, {}), picture.jobs, colours) for node in nodes]
    size = max(len(piece) for piece in pieces) + 2
    per_line = max(1, width // size)
    needed = -(-len(pieces) // per_line)
    if needed > most - 1:
        return _by_type(nodes, width)
    lines = []
    for first in range(0, len(pieces), per_line):
        line = _text("", width)
        for piece in pieces[first : first + per_line]:
            line.append_text(piece)
            line.append(" " * (size - len(piece)))
        lines.append(line)
    return [*lines, _legend(colours, width)]


def _server(
    node: NodeRow, held: Mapping[str, Sequence[int]], jobs: Mapping[int, JobRow], colours: Mapping[str, str]
) -> Text:
    text = _text(f"{printable(node.node)} ", 200, "" if node.state == "up" else "yellow")
    for job in cells(node.gpus, held, node.busy):
        if job == IDLE:
            text.append("." if node.state == "up" else "x", style="dim")
        elif job == OTHERS:
            text.append("o", style="dim")
        else:
            text.append("#", style=colours[jobs[job].tenant])
    return text


def _by_type(nodes: Iterable[NodeRow], width: int) -> list[Text]:
    """A bar per type of GPU."""
    up: Counter[str] = Counter()
    busy: Counter[str] = Counter()
    away: Counter[str] = Counter()
    for node in nodes:
        (up if node.state == "up" else away)[node.type] += node.gpus
        busy[node.type] += min(node.busy, node.gpus)
    lines = []
    for kind in sorted(up | away):
        whole = up[kind] + away[kind]
        label = f"{printable(kind):10.10} {busy[kind]:>6,} of {whole:>6,} GPUs busy"
        length = max(10, min(60, width - len(label) - 4))
        full = round(length * busy[kind] / whole) if whole else 0
        note = f" {away[kind]:,} away" if away[kind] else ""
        lines.append(_text(f"{label} [{'#' * full}{'.' * (length - full)}]{note}", width))
    return lines[:_MOST_MAP_LINES]


def _legend(colours: Mapping[str, str], width: int) -> Text:
    line = _text("", width)
    for tenant, colour in list(colours.items())[:12]:
        line.append("# ", style=colour)
        line.append(f"{printable(tenant)}  ")
    line.append(". free", style="dim")
    line.truncate(width)
    return line


# The table


def _heading(view: View, first: int, shown: int, total: int) -> Text:
    order = f"by {view.sort}{', descending' if view.down else ''}"
    text = f"{view.show} jobs, {order}: {first + 1 if total else 0:,} to {first + shown:,} of {total:,}"
    return _text(text, 200, "reverse")


def _cells(row: JobRow, eta: Eta | None, now: float) -> tuple[str, ...]:
    where = " ".join(f"{node}:{len(devices)}" for node, devices in row.parts)
    return (
        str(row.job),
        printable(row.name) or "-",
        printable(row.tenant),
        row.phase,
        str(row.gpus),
        "-" if row.done is None else f"{int(100 * row.done)} %",
        short((row.ended_at or now) - row.submitted_at),
        "-" if row.parts or row.ended_at else _starts(eta, now),
        printable(where) or row.code or printable(row.reason) or "-",
    )


def _starts(eta: Eta | None, now: float) -> str:
    if eta is None:
        return "-"
    if eta.at is None:
        return "unknown" if eta.unknown else "later"
    high = "later" if eta.high is None else short(eta.high - now)
    return short(eta.at - now) if eta.low is None else f"{short(eta.at - now)} (..{high})"


def _line(values: Sequence[str], width: int, style: str = "") -> Text:
    parts = []
    for place in _columns(width):
        size = _WIDTHS[place]
        value = values[place] if len(values[place]) <= size else values[place][: size - 1] + "~"
        parts.append(value.rjust(size) if place in _RIGHT else value.ljust(size))
    return _text(" ".join([*parts, values[-1]]), width, style)


def _columns(width: int) -> list[int]:
    """The columns before the last one that fit beside it."""
    kept = list(range(len(_WIDTHS)))
    for place in _MAY_GO:
        if sum(_WIDTHS[column] + 1 for column in kept) + _LEAST_REASON <= width:
            break
        kept.remove(place)
    return kept


def _keys(width: int) -> Text:
    return _text("q quit  tab which jobs  s sort  r reverse  up, down, page up, page down scroll", width, "dim")
