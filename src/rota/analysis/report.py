"""A comparison of runs as one web page that needs nothing else: table and figures are inside."""

from __future__ import annotations

import base64
import html
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<style>
body {{ font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; color: #222; }}
h1 {{ font-size: 1.5rem; }}
table {{ border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; }}
th, td {{ padding: .3rem .6rem; text-align: right; border-bottom: 1px solid #ddd; }}
th:first-child, td:first-child {{ text-align: left; }}
thead th {{ border-bottom: 2px solid #222; }}
tr.best td {{ font-weight: 600; background: #eef6fb; }}
figure {{ margin: 2rem 0; }}
figure img {{ width: 100%; height: auto; }}
figcaption, footer {{ color: #555; font-size: .9rem; }}
pre {{ background: #f5f5f5; padding: .6rem; overflow-x: auto; font-size: .85rem; }}
</style>
</head>
<body>
<h1>{title}</h1>
<p>{introduction}</p>
{table}
{figures}
<h2>How to get the same</h2>
<pre>{recipe}</pre>
<footer>{footer}</footer>
</body>
</html>
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Picture:
    """A figure with its caption; `svg` is the file's content."""

    svg: bytes
    caption: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """What is on the page."""

    title: str
    introduction: str
    header: Sequence[str]
    rows: Sequence[Sequence[str]]
    best: int
    pictures: Sequence[Picture]
    recipe: str
    footer: str


def render(report: Report) -> str:
    """The page as HTML."""
    texts: Mapping[str, str] = {
        "title": html.escape(report.title),
        "introduction": html.escape(report.introduction),
        "recipe": html.escape(report.recipe),
        "footer": html.escape(report.footer),
    }
    return PAGE.format(**texts, table=_table(report), figures="\n".join(map(_figure, report.pictures)))


def _table(report: Report) -> str:
    head = "".join(f"<th>{html.escape(h)}</th>" for h in report.header)
    body = []
    for i, row in enumerate(report.rows):
        cells = "".join(f"<td>{html.escape(c)}</td>" for c in row)
        body.append(f'<tr class="best">{cells}</tr>' if i == report.best else f"<tr>{cells}</tr>")
    return f"<table><thead><tr>{head}</tr></thead><tbody>{''.join(body)}</tbody></table>"


def _figure(picture: Picture) -> str:
    data = base64.b64encode(picture.svg).decode("ascii")
    caption = html.escape(picture.caption)
    source = f"data:image/svg+xml;base64,{data}"
    return f'<figure><img alt="{caption}" src="{source}"><figcaption>{caption}</figcaption></figure>'
