"""The files of the page: the style and the drawing of `rota report`, and scripts of its own."""

from __future__ import annotations

from functools import cache
from importlib import resources

from rota.analysis.plots import BAR_COLOURS
from rota.report.page import asset as report_asset
from rota.report.page import embedded
from rota.report.page import style as report_style

_SCRIPTS = ("link.js", "map.js", "jobs.js", "charts.js", "job.js", "node.js", "past.js", "start.js")
_SHARED = ("dom.js", "chart.js")
"""Of the report."""


@cache
def script() -> str:
    """All scripts in one."""
    shared = [report_asset(name) for name in _SHARED]
    own = [_asset(name) for name in _SCRIPTS]
    return "'use strict';\n(() => {\n" + "\n".join([*shared, *own]) + "\n})();\n"


@cache
def style() -> str:
    """The style sheet: that of the report, and what only this page has."""
    return report_style() + "\n" + _asset("dashboard.css")


@cache
def document() -> str:
    """The page; it holds no data."""
    looks = {"lines": [str(i) for i in range(len(BAR_COLOURS))], "colours": len(BAR_COLOURS)}
    data = embedded({**looks, "groups": [], "settings": []})
    return _asset("dashboard.html").replace("{{LOOKS}}", data)


def _asset(name: str) -> str:
    return (resources.files("rota.dashboard") / "assets" / name).read_text(encoding="utf-8")
