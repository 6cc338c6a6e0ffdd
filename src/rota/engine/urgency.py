"""Who has waited too long (rule `starvation_s`), and when the next one will have."""

from __future__ import annotations

import math

from rota.core.arrays import FloatArray, IntArray, smallest, some
from rota.core.rules import Rules

_NEVER = 1 << 40


def mark(urgent: IntArray, last_ran: FloatArray, now: float, limit: float) -> bool:
    """Mark in `urgent` who has not run for longer than the limit; whether there is somebody new among them."""
    if limit == 0 or len(last_ran) == 0 or now - smallest(last_ran) <= limit:
        return False
    late = now - last_ran > limit
    newly = some(late & (urgent == 0))
    urgent |= late
    return newly


def rounds_until(urgent: IntArray, last_ran: FloatArray, running: IntArray | None, now: float, rules: Rules) -> int:
    """Rounds before the first waiting job becomes urgent."""
    if rules.starvation_s == 0:
        return _NEVER
    waits = urgent == 0
    if running is not None:
        waits[running] = False
    since = last_ran[waits]
    if len(since) == 0:
        return _NEVER
    return math.floor((smallest(since) + rules.starvation_s - now) / rules.round_s) + 1
