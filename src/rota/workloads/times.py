"""Points in time as logs write them, as seconds.

Numbers are seconds since 1970. Dates are `2026-01-31`, `2026-01-31 07:05` or `2026-01-31T07:05:09.25`,
with a zone (`Z`, `UTC`, `+01:00`, `+0100`) or without one. Dates without a zone are taken as they
stand: an hour that a clock was put forward or back is not known. They are only good for differences,
and cannot stand beside times of which the zone is known.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone

NUMBER = re.compile(r"\d+(?:\.\d*)?(?:[eE]\+?\d+)?$")
DATE = re.compile(
    r"(?P<day>\d{4}-\d\d-\d\d)(?:[T ]+(?P<time>\d\d:\d\d(?::\d\d)?)(?P<part>\.\d+)?)?"
    r"\s*(?P<zone>Z|UTC|GMT|[+-]\d\d:?\d\d)?$",
    re.ASCII,
)
EXAMPLE = "2026-01-31 07:05:09"
ELAPSED = re.compile(r"(?:(\d+)-)?(\d+):(\d+):(\d+)(\.\d+)?$")
_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)


@dataclass(frozen=True, slots=True)
class Moment:
    """A point in time."""

    seconds: float
    """Since 1970."""
    zoned: bool
    """Whether that is so everywhere; otherwise by a clock of which nobody says where it is."""


def moment(text: str, form: str | None = None) -> Moment | None:
    """What a cell says, in a form of `strptime` if one is given; None if it is no time."""
    if form is not None:
        return _by_form(text, form)
    if NUMBER.match(text):
        return Moment(float(text), zoned=True)
    parts = DATE.match(text)
    if parts is None:
        return None
    try:
        at = datetime.fromisoformat(f"{parts['day']} {parts['time'] or '00:00'}")
    except ValueError:
        return None
    seconds = (at.replace(tzinfo=timezone.utc) - _EPOCH).total_seconds() + float(parts["part"] or 0.0)
    return Moment(seconds - _offset_s(parts["zone"]), zoned=parts["zone"] is not None)


def elapsed_s(text: str) -> float:
    """Seconds of `[days-]hours:minutes:seconds`; NaN if it is no such time."""
    parts = ELAPSED.match(text)
    if parts is None:
        return math.nan
    days, hours, minutes, seconds = (int(part or 0) for part in parts.groups()[:4])
    return ((days * 24 + hours) * 60 + minutes) * 60 + seconds + float(parts[5] or 0.0)


def _by_form(text: str, form: str) -> Moment | None:
    try:
        at = datetime.strptime(text, form)  # noqa: DTZ007 - a zone is in the form or not known
    except ValueError:
        return None
    zoned = at.tzinfo is not None
    return Moment(((at if zoned else at.replace(tzinfo=timezone.utc)) - _EPOCH).total_seconds(), zoned=zoned)


def _offset_s(zone: str | None) -> float:
    if zone is None or zone.isalpha():
        return 0.0
    ahead = timedelta(hours=int(zone[1:3]), minutes=int(zone[-2:])).total_seconds()
    return ahead if zone[0] == "+" else -ahead
