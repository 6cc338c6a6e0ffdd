"""What the runs of a sweep have to say about themselves, each thing once.

Notes of runs that differ in their numbers only (how many jobs, which ones) are one remark with the text of the first.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from rota.experiments.store import Run

SHOWN = 8
"""Remarks; a sweep with more is better read run by run."""
_NUMBERS = re.compile(r"\d[\d,.]*")


def remarks_of(runs: Iterable[Run]) -> list[str]:
    """The notes of the runs, the first text of each kind, with the number of runs that say it."""
    alike: dict[str, list[str]] = {}
    total = 0
    for run in runs:
        total += 1
        for note in run.metrics.get("notes") or []:
            alike.setdefault(_NUMBERS.sub("#", note), []).append(note)
    said = [
        note if total == 1 else f"{len(notes)} of {total} runs: {note}"
        for notes in alike.values()
        for note in notes[:1]
    ]
    more = len(said) - SHOWN
    return [*said[:SHOWN], f"{more} other remarks; the notes of each run have them"] if more > 0 else said
