"""How a figure is to look: its size, its axes, the names and the order of its curves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import TypeVar

from rota.core.errors import ConfigError, UnknownName

T = TypeVar("T")

WIDTHS = {
    "acm-column": 3.33,
    "acm-text": 7.0,
    "ieee-column": 3.5,
    "ieee-text": 7.16,
    "usenix-column": 3.33,
    "usenix-text": 7.0,
    "slide": 10.0,
}
"""Inches of a column and of the whole text in two-column papers, as their LaTeX classes set them."""
BANDS = ("auto", "area", "whiskers", "none")
LARGEST = 40.0
"""Inches; more is a slip of the pen."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Style:
    """What a user asked for; None and empty are what the kind of figure has by itself."""

    width: float | None = None
    height: float | None = None
    """Inches of the whole figure, legend included."""
    log_x: bool | None = None
    log_y: bool | None = None
    band: str = "auto"
    """How intervals are drawn, one of BANDS."""
    x_label: str | None = None
    y_label: str | None = None
    labels: Sequence[str] = ()
    """Other names of curves, as NAME=LABEL."""
    curves: Sequence[str] = ()
    """Only these, in this order; names or patterns with `*`."""
    without: Sequence[str] = ()
    """Not these; names or patterns."""


PLAIN = Style()


def inches(text: str, what: str) -> float:
    """A size in inches, or the width of a column by name; raises ConfigError."""
    if text in WIDTHS:
        return WIDTHS[text]
    try:
        size = float(text)
    except ValueError:
        fix = f"write inches, e.g. 3.5, or one of {', '.join(WIDTHS)}"
        raise ConfigError(f"{what} {text!r} is not a size; {fix}") from None
    if not 0.5 <= size <= LARGEST:
        raise ConfigError(f"{what} {text!r} is not between 0.5 and {LARGEST:g} inches; write inches, e.g. 3.5")
    return size


def chosen(by_name: Mapping[str, T], style: Style) -> dict[str, T]:
    """The curves that were asked for, in the order that was asked for, under their new names."""
    names = list(by_name)
    if style.curves:
        names = list(dict.fromkeys(name for asked in style.curves for name in _matching(asked, by_name)))
    left_out = {name for asked in style.without for name in _matching(asked, by_name)}
    names = [name for name in names if name not in left_out]
    if not names:
        raise ConfigError("no curve is left to draw; leave out less with --without")
    label_of = _labels(style.labels, by_name)
    drawn = {label_of.get(name, name): by_name[name] for name in names}
    if len(drawn) < len(names):
        raise ConfigError("two curves have the same label; give each its own with --label NAME=LABEL")
    return drawn


def _matching(asked: str, names: Mapping[str, object]) -> list[str]:
    if asked in names:
        return [asked]
    found = [name for name in names if fnmatchcase(name, asked)]
    if not found:
        raise UnknownName("curve", asked, list(names))
    return found


def _labels(given: Sequence[str], names: Mapping[str, object]) -> dict[str, str]:
    """New names by old ones; an old name may itself have a `=` in it."""
    label_of = {}
    for text in given:
        places = [i for i, letter in enumerate(text) if letter == "="]
        known = [i for i in places if text[:i] in names]
        if not places:
            raise ConfigError(f"--label {text!r} is not of the form NAME=LABEL")
        if not known:
            raise UnknownName("curve", text[: places[0]], list(names))
        label_of[text[: known[-1]]] = text[known[-1] + 1 :]
    return label_of
