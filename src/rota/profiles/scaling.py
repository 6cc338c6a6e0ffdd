"""Rates with numbers of GPUs that nobody measured, by a rule that has a name.

    constant   the rate of the next smaller number that was measured: a step takes the same time with more GPUs
    linear     the same rate per GPU: with g GPUs instead of h, rate_h g / h
    trend      a power law, log rate linear in log GPUs: through the neighbours on both sides, beyond the largest number
               through the two largest; never steeper than linear; none where only one number was measured

What a step means decides which rule fits: `constant` for steps that grow with the GPUs (a batch per GPU), `trend` for
either. There is no estimate for fewer GPUs than were ever measured, because the job may not fit, and none from one type
to another.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from rota.core.errors import UnknownName

RULES = ("none", "constant", "linear", "trend")
ESTIMATED = "estimated"


def known_rule(name: str) -> str:
    """The name of a rule; raises UnknownName for any other."""
    if name not in RULES:
        raise UnknownName("scaling", name, RULES)
    return name


def scaled(rate_of: Mapping[int, float], gpus: int, rule: str) -> float | None:
    """The rate with this number of GPUs, given those of other numbers; None where the rule has no answer."""
    positive = {count: rate for count, rate in rate_of.items() if rate > 0}
    smaller = sorted(count for count in positive if count < gpus)
    if not smaller or rule == "none":
        return None
    below = smaller[-1]
    if rule == "constant":
        return positive[below]
    if rule == "linear":
        return positive[below] * gpus / below
    above = min((count for count in positive if count > gpus), default=None)
    if above is not None:
        return positive[below] * math.pow(gpus / below, _slope(positive, below, above))
    if len(smaller) < 2:
        return None
    return positive[below] * math.pow(gpus / below, _slope(positive, smaller[-2], below))


def _slope(rate_of: Mapping[int, float], low: int, high: int) -> float:
    """Of log rate over log GPUs, at most 1."""
    slope = math.log(rate_of[high] / rate_of[low]) / math.log(high / low)
    return min(slope, 1.0)
