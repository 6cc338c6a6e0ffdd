"""The catalogue of logs that say how long jobs took and nothing about what they trained.

It has no rows: every catalogue knows the profile `recorded`, and this one knows nothing else.
"""

from __future__ import annotations

from rota.core.jobs import RECORDED
from rota.profiles.catalogue import Catalogue

ABOUT = {
    "title": "Durations as recorded: the profile `recorded` does one step per second on every type",
    "source": "the trace itself",
}


def catalogue() -> Catalogue:
    """The empty catalogue."""
    return Catalogue(RECORDED, {}, about=ABOUT)
