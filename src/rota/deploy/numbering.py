"""Numbers that grow over restarts of the scheduler, without any clock: versions of lists, messages to gangs.

The upper part of a number is the generation: how often the scheduler was started on its journal, committed there
before anybody is told a number of it. The lower part counts within a generation. A number of another generation than
one's own says nothing about what was done with one's own: a journal may have been restored from an older copy.
"""

from __future__ import annotations

_COUNTED_BITS = 40
_OFFSET = 1 << 12
"""Up to Rota 0.1.0 such numbers were microseconds since 1970, and agents of that time only believe larger ones."""


def first_number(generation: int) -> int:
    """The number below all others of a generation."""
    return (_OFFSET + generation) << _COUNTED_BITS


def same_generation(number: int, other: int) -> bool:
    """Whether two numbers were given by the same start of the scheduler."""
    return number >> _COUNTED_BITS == other >> _COUNTED_BITS
