"""The page: template, styles, scripts and data in one file that asks nobody for anything.

The content security policy names the digests of the one style and the one script, so that nothing
else can run and nothing can be loaded, whatever a job is called. Data is JSON in an element that no
browser executes.
"""

from __future__ import annotations

import base64
import hashlib
import html
import json
from collections.abc import Mapping, Sequence
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

from rota.analysis.output import write_file
from rota.analysis.plots import BAR_COLOURS
from rota.report.again import AUTO, chosen, run_again
from rota.report.logs import TimeWindow
from rota.report.payload import payload
from rota.report.points import points
from rota.report.reading import Sources, names_for_equals, read

SCRIPTS = (
    "dom.js",
    "chart.js",
    "summary.js",
    "outcomes.js",
    "figures.js",
    "gantt.js",
    "diff.js",
    "config.js",
    "main.js",
)
_UNSAFE = {"<": "\\u003c", ">": "\\u003e", "&": "\\u0026", "\u2028": "\\u2028", "\u2029": "\\u2029"}


def write_report(
    paths: Sequence[str],
    output: str | Path,
    *,
    sweep: str | None = None,
    title: str | None = None,
    gantt: str = AUTO,
    window: TimeWindow | None = None,
) -> dict[str, Any]:
    """Read results and write the page; what is in it, in numbers.

    Raises ConfigError or OutputError.
    """
    sources = read(paths, sweep=sweep, window=window)
    where = points([r.run for r in sources.records], names_for_equals(sources.records))
    if sources.store:
        run_again(sources, chosen(sources.records, where, gantt), window)
    data = payload(sources, where, title=title or _title(sources))
    text = render(data)
    write_file(output, text)
    return {
        "runs": len(data["runs"]),
        "lines": len(data["lines"]),
        "gantts": len(data["gantts"]),
        "bytes": len(text.encode()),
        "notes": data["notes"],
    }


def _title(sources: Sources) -> str:
    if sources.store is None:
        return "Runs compared"
    name = Path(sources.store).stem
    return f"{name}: {sources.sweep}" if sources.sweep and sources.sweep != "sweep" else name


def render(data: Mapping[str, Any]) -> str:
    """The page as HTML."""
    sheet = style()
    script = "'use strict';\n(() => {\n" + "\n".join(asset(name) for name in SCRIPTS) + "\n})();\n"
    policy = (
        f"default-src 'none'; script-src '{_digest(script)}'; style-src '{_digest(sheet)}'; "
        "base-uri 'none'; form-action 'none'"
    )
    parts = {
        "POLICY": html.escape(policy),
        "TITLE": html.escape(str(data["title"])),
        "STYLE": sheet,
        "DATA": embedded(data),
        "SCRIPT": script,
    }
    page = asset("report.html")
    # One pass over the template: what is put in is never looked at again.
    pieces = page.split("{{")
    done = [pieces[0]]
    for piece in pieces[1:]:
        name, _, rest = piece.partition("}}")
        done += [parts[name], rest]
    return "".join(done)


def embedded(data: Any) -> str:
    """JSON that can stand in an HTML element: no character of it can end that element."""
    text = json.dumps(data, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    for character, escape in _UNSAFE.items():
        text = text.replace(character, escape)
    return text


def style() -> str:
    """The style sheet with the palette of all other figures."""
    palette = "".join(f"--c{i}:{colour};" for i, colour in enumerate(BAR_COLOURS))
    classes = "".join(f".c{i}{{--series:var(--c{i})}}" for i in range(len(BAR_COLOURS)))
    return f":root{{{palette}}}\n{classes}\n{asset('report.css')}"


@cache
def asset(name: str) -> str:
    """A file of the page, by name."""
    return (resources.files("rota.report") / "assets" / name).read_text(encoding="utf-8")


def _digest(text: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"
