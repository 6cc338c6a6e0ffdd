"""Who has waited too long (rule `starvation_s`), and when the next one will have."""

from __future__ import annotations

import math

import numpy as np

from rota.core.arrays import FloatArray, IntArray, smallest, some
from rota.core.rules import Rules
from rota.core.view import View

_NEVER = 1 << 40


def mark(urgent: IntArray, last_ran: FloatArray, now: float, limit: float) -> bool:
    """Mark in `urgent` who has not run for longer than the limit; whether there is somebody new among them."""
    if limit == 0 or len(last_ran) == 0 or now - smallest(last_ran) <= limit:
        return False
    late = now - last_ran > limit
    newly = some(late & (urgent == 0))
    urgent |= late
    return newly


def rounds_until(view: View, running: IntArray, rules: Rules) -> int:
    """Rounds before the first waiting job becomes urgent."""
    if rules.starvation_s == 0:
        return _NEVER
    waits = np.ones(len(view), dtype=np.bool_) if view.urgent is None else ~view.urgent
    waits[running] = False
    since = view.last_ran[waits]
    if len(since) == 0:
        return _NEVER
    return math.floor((smallest(since) + rules.starvation_s - view.now) / rules.round_s) + 1
