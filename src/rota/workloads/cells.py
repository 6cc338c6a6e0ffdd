"""Values of a trace as text, the way the Gavel artifact prints them or exactly."""

from __future__ import annotations

import math

from rota.core.errors import OutputError


def amount(name: str, value: float, *, exact: bool) -> str:
    """Steps or a weight: truncated to a whole number, unless exact."""
    if math.isnan(value):
        fix = "fill it in with with_durations before writing this format"
        raise OutputError(f"{name} is unknown for a job; {fix}")
    if exact:
        return whole_or_exact(value)
    if value < 1:
        raise OutputError(f"{name} {value} would be truncated to 0; write with exact=True")
    return str(int(value))


def slo(value: float, *, exact: bool) -> str:
    """A deadline multiple with six decimals (all of them if exact); -1 for none."""
    return fixed(-1.0 if math.isnan(value) else value, exact=exact)


def fixed(value: float, *, exact: bool) -> str:
    """Six decimals; with `exact` the shortest exact text if these would lose something."""
    short = f"{value:.6f}"
    return short if not exact or float(short) == value else repr(value)


def whole_or_exact(value: float) -> str:
    """A whole number without a decimal point, any other to the last bit."""
    return str(int(value)) if value.is_integer() else repr(value)


def plain(text: str, forbidden: str = "\t\n\r\0") -> str:
    """A text that may stand in a cell of a format which does not quote these characters."""
    if any(c in text for c in forbidden):
        raise OutputError(f"{text!r} contains {_found(text, forbidden)}, which a trace cannot hold; rename it")
    return text


def _found(text: str, forbidden: str) -> str:
    return repr(next(c for c in forbidden if c in text))
