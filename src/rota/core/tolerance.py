"""The one tolerance: how far two numbers may be apart and still count as equal.

Amounts of CPUs, memory and time, shares and relative speeds are all of the order of one to a thousand and carry the
rounding of a few additions or of a solver; differences below this are noise. Numbers with another meaning (the
precision that a solver is asked for, the size of a tie-break) have names of their own where they are used.
"""

from __future__ import annotations

TOLERANCE = 1e-9
