"""The reproductions that ship with Rota.

One TOML file each in `data/`, with the published numbers and their source.
"""

from __future__ import annotations

import copy
import math
import sys
from collections.abc import Mapping
from functools import cache
from importlib import resources
from typing import Any

from rota.core.errors import ConfigError, UnknownName
from rota.experiments.keys import canonical_name, flat
from rota.experiments.repro.model import (
    Explanation,
    Line,
    Ratio,
    Reproduction,
    SweepPart,
    Tolerance,
)
from rota.experiments.spec import Spec, spec_from

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

_FOLDER = "data"


@cache
def names() -> tuple[str, ...]:
    """All reproductions: Gavel's first, in the order of the figures."""
    files = [entry.name for entry in resources.files(__package__).joinpath(_FOLDER).iterdir()]
    return tuple(sorted((name[:-5] for name in files if name.endswith(".toml")), key=_order))


def _order(name: str) -> tuple[str, int, int, str]:
    paper, _, item = name.partition("-")
    number = "".join(c for c in item if c.isdigit())
    return paper, 0 if item == "check" else 1, int(number or 99), item


@cache
def load(name: str) -> Reproduction:
    """The reproduction of that name; raises UnknownName with the nearest."""
    if name not in names():
        raise UnknownName("reproduction", name, names())
    file = resources.files(__package__).joinpath(_FOLDER, f"{name}.toml")
    text = file.read_text(encoding="utf-8")
    return read(name, tomllib.loads(text))


def read(name: str, document: Mapping[str, Any]) -> Reproduction:
    """A reproduction from its document."""
    own = document["kind"] != "sweep"
    tolerance = Tolerance(**document["tolerance"])
    x = document.get("x")
    where = f"{name}.toml"
    return Reproduction(
        name=name,
        **{key: document[key] for key in ("title", "paper", "item", "kind", "metric", "unit", "figure")},
        x=x if x is None or own else canonical_name(x, where),
        axes=(document["axes"][0], document["axes"][1]),
        source=_one_line(document["source"]),
        licence=document["licence"],
        tolerance=tolerance,
        quick=_one_line(document["quick"]),
        parts=tuple(
            SweepPart(document={k: v for k, v in part.items() if k != "quick"}, quick=part.get("quick") or None)
            for part in document.get("part", [])
        ),
        settings=document.get("settings", {}),
        lines=tuple(_line(table, document, own=own) for table in document.get("published", [])),
        ratios=tuple(_ratio(table, where) for table in document.get("ratio", [])),
        reasons=tuple(Explanation(where=t["where"], text=_one_line(t["text"])) for t in document.get("reason", [])),
        notes=tuple(_one_line(text) for text in document.get("notes", [])),
    )


def _line(table: Mapping[str, Any], document: Mapping[str, Any], *, own: bool) -> Line:
    at = table.get("at", [])
    values = table["values"] if "values" in table else [table.get("value", math.nan)]
    if at and len(at) != len(values):
        problem = f"published line {table['name']!r}: {len(at)} places, but {len(values)} values"
        raise ConfigError(problem)
    return Line(
        name=table["name"],
        where=dict(table.get("where", {})) if own else flat(table.get("where", {}), table["name"]),
        at=tuple(float(a) for a in at),
        values=tuple(float(v) for v in values),
        metric=table.get("metric", document["metric"]),
        unit=table.get("unit", document["unit"]),
        runs=table.get("runs", 1),
        source=_one_line(table.get("source", "")),
        tolerance=Tolerance(**table["tolerance"]) if "tolerance" in table else None,
    )


def _ratio(table: Mapping[str, Any], where: str) -> Ratio:
    return Ratio(
        name=table["name"],
        over=flat(table["over"], where),
        under=flat(table["under"], where),
        value=float(table["value"]),
        source=_one_line(table["source"]),
        tolerance=Tolerance(**table["tolerance"]) if "tolerance" in table else None,
    )


def specs(reproduction: Reproduction, *, quick: bool) -> list[Spec]:
    """The sweeps of a reproduction.

    Each has its own name in the store, so that quick ones replace nothing.
    """
    chosen = []
    for number, part in enumerate(reproduction.parts, start=1):
        if quick and part.quick is None:
            continue
        document = copy.deepcopy(part.document)
        for table, changes in (part.quick or {}).items() if quick else ():
            document[table] = {**document.get(table, {}), **changes}
        _find_trace(document.get("run", {}))
        how = document.setdefault("sweep", {})
        suffix = "" if len(reproduction.parts) == 1 else f"-{number}"
        how["name"] = f"{reproduction.name}{suffix}{'-quick' if quick else ''}"
        chosen.append(spec_from(document, f"{reproduction.name}.toml"))
    return chosen


def _find_trace(run: dict[str, Any]) -> None:
    """A trace that ships with a reproduction is beside its file."""
    if "trace" in run:
        run["trace"] = str(resources.files(__package__).joinpath(_FOLDER, run["trace"]))


def _one_line(text: str) -> str:
    return " ".join(text.split())
