"""Values of a trace as text, the way the Gavel artifact prints them or exactly."""

from __future__ import annotations

import math
from collections.abc import Callable

from rota.core.errors import OutputError


def steps(value: float, *, exact: bool) -> str:
    """Steps: truncated to a whole number, unless exact."""
    return whole_or_exact(value) if exact else str(int(value))


def weight(value: float, *, exact: bool) -> str:
    """A weight: truncated to a whole number, unless exact."""
    return whole_or_exact(value) if exact else str(int(value))


def slo(value: float, *, exact: bool) -> str:
    """A deadline multiple with six decimals (all of them if exact); -1 for none."""
    return fixed(-1.0 if math.isnan(value) else value, exact=exact)


def fixed(value: float, *, exact: bool) -> str:
    """Six decimals; the shortest exact text if these would lose something and `exact` is asked for."""
    short = f"{value:.6f}"
    return short if not exact or float(short) == value else repr(value)


def whole_or_exact(value: float) -> str:
    """A whole number without a decimal point, any other to the last bit."""
    return str(int(value)) if value.is_integer() else repr(value)


def plain(text: str, forbidden: str = "\t\n\r") -> str:
    """A text that may stand in a tab-separated cell."""
    if any(c in text for c in forbidden):
        raise OutputError(f"{text!r} contains a tab or a line end, which this format cannot hold; use the csv format")
    return text


Writer = Callable[[float], str]
