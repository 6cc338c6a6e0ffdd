"""Durations as people write them: `90`, `45s`, `30m`, `4h`, `1h30m`, `2d`."""

from __future__ import annotations

import re

from rota.core.errors import ConfigError

_UNITS = {"d": 86400.0, "h": 3600.0, "m": 60.0, "s": 1.0}
_FORM = re.compile(r"(?:(\d+(?:\.\d+)?)d)?(?:(\d+(?:\.\d+)?)h)?(?:(\d+(?:\.\d+)?)m)?(?:(\d+(?:\.\d+)?)s?)?", re.ASCII)
_LONGEST = 64
"""Characters."""
LONGEST_S = 1e9


def duration_s(text: str) -> float:
    """Seconds of a duration above 0. Raises ConfigError."""
    found = _FORM.fullmatch(text) if 0 < len(text) <= _LONGEST else None
    parts = () if found is None else found.groups()
    seconds = sum(float(part) * size for part, size in zip(parts, _UNITS.values(), strict=False) if part)
    if not 0 < seconds <= LONGEST_S:
        raise ConfigError(
            f"{text[:_LONGEST]!r} is not a duration; give seconds, or a number with s, m, h or d, such as 4h or 1h30m"
        )
    return seconds
