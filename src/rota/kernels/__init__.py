"""Inner loops of a round, each written twice: in C, and in NumPy for where that could not be built.

Both give the same answers to the bit (tests compare them). A round has about a hundred tasks, and NumPy takes half a
microsecond for every operation on them whatever it is; one call of compiled code does the work of twenty. What each
function does is said in `plain` and `queues`. `ROTA_KERNELS=plain` in the environment leaves the compiled ones alone,
and so does a module that was built from other sources than those beside it: `git pull` changes the C, not what was
built from it.
"""

from __future__ import annotations

import os
from pathlib import Path

from rota.kernels import plain, plain_types, queues
from rota.kernels.plain import BY_SPEED, FILLS, SCATTERS, priority, ranked, waiting
from rota.kernels.sources import digest

try:
    from rota.kernels import _compiled
except ImportError:
    COMPILED = False
else:
    _sources = digest(Path(__file__).parent)
    COMPILED = os.environ.get("ROTA_KERNELS", "") != "plain" and _sources in {0, getattr(_compiled, "SOURCES", None)}
"""Whether the compiled ones are in use."""

_used = _compiled if COMPILED else plain

append = _used.append
arrange = _used.arrange
book = _used.book
by_gpus = _used.by_gpus
charge = _used.charge
choose_ones = _used.choose_ones
is_permutation = _used.is_permutation
look_up = _used.look_up
queue_up = _compiled.queue_up if COMPILED else queues.queue_up
seat = _used.seat
slowest_full = _used.slowest_full
slowest_many = _used.slowest_many
slowest_one = _used.slowest_one
stay = _used.stay
whole = _used.whole
without = _used.without
by_chance = _compiled.by_chance if COMPILED else plain_types.by_chance
by_speed = _compiled.by_speed if COMPILED else plain_types.by_speed
walk = _compiled.walk if COMPILED else None
"""The ordinary walk of `mechanisms.divide.packing`, whose Python is the other half of this pair."""

__all__ = [
    "BY_SPEED",
    "COMPILED",
    "FILLS",
    "SCATTERS",
    "append",
    "arrange",
    "book",
    "by_chance",
    "by_gpus",
    "by_speed",
    "charge",
    "choose_ones",
    "is_permutation",
    "look_up",
    "priority",
    "queue_up",
    "ranked",
    "seat",
    "slowest_full",
    "slowest_many",
    "slowest_one",
    "stay",
    "waiting",
    "walk",
    "whole",
    "without",
]
