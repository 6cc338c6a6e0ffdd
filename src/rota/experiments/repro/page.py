"""The page about all reproductions, from their recorded results alone."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path

from rota.core.errors import ConfigError
from rota.experiments.repro.catalogue import names
from rota.experiments.repro.model import (
    CLOSE,
    MET,
    NOT_MET,
    UNPUBLISHED,
    ReproductionResult,
    Row,
    result_from,
)

INTRODUCTION = """# Published results, reproduced

What the artifacts of Gavel (OSDI'20) and Synergy (OSDI'22) printed, and what Rota gives for the same experiments. This
page is written by `rota repro report` out of the recorded results in [reproductions.json](reproductions.json); every
number of ours comes from a run.

```sh
rota repro list                              # what there is
rota repro gavel-fig8 --quick                # about a minute, fewer points
rota repro gavel-fig8 --store repro.db -o out   # all runs, table, figure (PNG, PDF) and JSON in out/
rota repro all --quick                       # everything in short
rota repro report out -o page.md             # this page from what is in out/
```

Runs go through the [sweep runner](experiments.md) and its store: a run is made once, Ctrl-C loses nothing. `--strict`
makes the exit code 1 when a number is not met; otherwise it is 0, whatever the verdicts. Each number is *met* or
*close* within the tolerance given below its table, or **not met**; *unstable* means that our guard against overload
stopped the run because its queue grows without end, so there is no mean to compare. A difference is in percent of the
published number. Published numbers are facts from the artifacts and papers named; the artifacts are under the MIT
licence.
"""


def read_results(sources: Iterable[str | Path]) -> list[ReproductionResult]:
    """Results in files that hold one or a list of them, or in folders of such files.

    Ordered as in the list.
    """
    result_by_name: dict[str, ReproductionResult] = {}
    for source in sources:
        path = Path(source)
        for file in sorted(path.glob("*.json")) if path.is_dir() else [path]:
            for one in _read(file):
                result_by_name[one.name] = one
    if not result_by_name:
        fix = "make some with `rota repro NAME -o DIR` and give DIR"
        raise ConfigError(f"there are no results to report; {fix}")
    order = {name: i for i, name in enumerate(names())}
    return sorted(result_by_name.values(), key=lambda r: order.get(r.name, len(order)))


def _read(file: Path) -> list[ReproductionResult]:
    try:
        document = json.loads(file.read_text(encoding="utf-8"))
        every = document if isinstance(document, list) else [document]
        return [result_from(one) for one in every]
    except OSError as error:
        fix = "give a file or folder that exists"
        raise ConfigError(f"cannot read {file}: {error.strerror}; {fix}") from None
    except (ValueError, TypeError, KeyError, AttributeError):
        fix = "give a folder made with -o"
        raise ConfigError(f"{file} is not a result of `rota repro`; {fix}") from None


def page(results: Sequence[ReproductionResult]) -> str:
    """Markdown."""
    parts = [INTRODUCTION, "## Summary", "", *_summary(results), ""]
    for result in results:
        parts += _section(result)
    return "\n".join(parts).rstrip() + "\n"


def _summary(results: Sequence[ReproductionResult]) -> list[str]:
    lines = [
        "| name | what | met | close | not met | unstable | runs | CPU s |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for r in results:
        counts = r.counts()
        cells = [str(counts.get(v, 0)) for v in (MET, CLOSE, NOT_MET, "unstable")]
        quick = " (quick)" if r.quick else ""
        cells += [str(r.runs), f"{r.cpu_s:,.0f}"]
        message = f"| [`{r.name}`](#{r.name}){quick} | {r.paper}, {r.item} | {' | '.join(cells)} |"
        lines.append(message)
    return lines


def _section(result: ReproductionResult) -> list[str]:
    lines = [f"## {result.name}", "", f"{result.title} ({result.paper}, {result.item}).", ""]
    if result.quick:
        lines += [f"Recorded with `--quick`: {result.cut}", ""]
    along = [row for row in result.rows if row.at is not None]
    single = [row for row in result.rows if row.at is None]
    if along:
        lines += [*_grid(result, along), ""]
    if single:
        lines += [*_list(single), ""]
    if not result.rows:
        unrecorded = "No run that a published number is about is recorded."
        none = unrecorded if result.left_out else "No number was published."
        lines += [none, ""]
    lines += [f"- Source: {result.source} Licence: {result.licence}."]
    lines += [f"- Tolerance: {result.tolerance}"]
    lines += [f"- {text}" for text in result.notes]
    lines += [f"- {verdict} ({where}): {text}" for verdict, where, text in _reasons(result.rows)]
    failed = f", {result.failed} failed" if result.failed else ""
    spent = f"{result.cpu_s:,.0f} CPU seconds ({result.cpu_s / 120:,.1f} minutes on two cores)"
    lines += [f"- {result.runs} runs, {result.unstable} unstable{failed}, {spent}.", ""]
    return lines


def _grid(result: ReproductionResult, rows: Sequence[Row]) -> list[str]:
    """Places on the axis by lines; a cell is ours, published, difference."""
    columns = list(dict.fromkeys(row.name for row in rows))
    units = {row.name: row.unit for row in rows}
    row_at = {(row.name, row.at): row for row in rows}
    head = [f"{name}{', ' + units[name] if units[name] else ''}" for name in columns]
    lines = [f"| {result.axes[0]} | {' | '.join(head)} |", "|---" * (len(columns) + 1) + "|"]
    for at in sorted({row.at for row in rows if row.at is not None}):
        cells = [_cell(row_at.get((name, at))) for name in columns]
        lines.append(f"| {at:g} | {' | '.join(cells)} |")
    return [*lines, "", "Each cell: ours / published, difference; *close*, **not met**."]


def _cell(row: Row | None) -> str:
    if row is None:
        return ""
    if row.ours is None or row.difference is None:
        return f"*{row.verdict}* / {_published(row)}" if row.ours is None else number(row.ours)
    text = f"{number(row.ours)} / {_published(row)}, {row.difference:+.1f} %"
    return {MET: text, CLOSE: f"*{text}*"}.get(row.verdict, f"**{text}**")


def _list(rows: Sequence[Row]) -> list[str]:
    lines = ["| what | ours | published | difference | verdict |", "|---|---|---|---|---|"]
    for row in rows:
        ours = "-" if row.ours is None else number(row.ours, 8)
        off = "-" if row.difference is None else f"{row.difference:+.2f} %"
        unit = f" ({row.unit})" if row.unit else ""
        lines.append(f"| {row.name}{unit} | {ours} | {_published(row)} | {off} | {row.verdict} |")
    return lines


def _reasons(rows: Sequence[Row]) -> list[tuple[str, str, str]]:
    """Each reason once, with how many points it is about."""
    places_by_reason: dict[tuple[str, str], list[str]] = {}
    for row in rows:
        if row.verdict not in {MET, UNPUBLISHED}:
            text = row.reason or "not looked into."
            place = row.name if row.at is None else f"{row.name} {row.at:g}"
            places_by_reason.setdefault((row.verdict, text), []).append(place)
    return [(verdict, _places(where), text) for (verdict, text), where in places_by_reason.items()]


def _places(where: Sequence[str]) -> str:
    if len(where) <= 8:
        return ", ".join(where)
    return f"{', '.join(where[:7])} and {len(where) - 7} more"


def _published(row: Row) -> str:
    return "-" if row.published is None else number(row.published, 8 if row.at is None else 4)


def number(value: float, digits: int = 4) -> str:
    """So many significant digits; all that stand before the point."""
    return f"{value:.0f}" if abs(value) >= 10**digits else f"{value:.{digits}g}"
