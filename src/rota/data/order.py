"""Orders of items that follow from a few words alone: the same in every process, Python and attempt.

`random.Random.random` is the only stream that Python promises never to change, so the shuffle is
written out on top of it.
"""

from __future__ import annotations

import hashlib
from array import array
from random import Random


def shuffled(count: int, *words: object) -> array[int]:
    """The numbers from 0 to `count` less 1 in an order that follows from `words`."""
    text = "\0".join(str(word) for word in words)
    digest = hashlib.blake2b(text.encode(), digest_size=16).digest()
    draw = Random(int.from_bytes(digest, "little")).random
    order = array("Q", range(count))
    for last in range(count - 1, 0, -1):
        other = int(draw() * (last + 1))
        order[last], order[other] = order[other], order[last]
    return order
