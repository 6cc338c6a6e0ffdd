"""Quantiles of Student's t for whole degrees of freedom (Abramowitz and Stegun 26.7.3-4).

Intervals of comparisons need nothing else of scipy, which only `rota.opt` may import.
"""

from __future__ import annotations

import math

NORMAL_FROM = 10_000
"""From this number of degrees of freedom on, t and the normal distribution agree to four digits."""


def two_sided(t: float, freedom: int) -> float:
    """Probability that |T| is at most t."""
    if freedom >= NORMAL_FROM:
        return math.erf(t / math.sqrt(2.0))
    angle = math.atan(t / math.sqrt(freedom))
    cosine = math.cos(angle)
    sine = math.sin(angle)
    odd = freedom % 2
    term, total = (cosine, 0.0) if odd else (1.0, 0.0)
    for power in range(odd, freedom - 1, 2):
        total += term
        term *= cosine * cosine * (power + 1) / (power + 2)
    return 2.0 / math.pi * (angle + sine * total) if odd else sine * total


def quantile(confidence: float, freedom: int) -> float:
    """The t with P(|T| <= t) = confidence, by bisection."""
    low = 0.0
    high = 1.0
    while two_sided(high, freedom) < confidence:
        high *= 2.0
    for _ in range(80):
        middle = (low + high) / 2.0
        low, high = (middle, high) if two_sided(middle, freedom) < confidence else (low, middle)
    return high
