"""How long a task that was asked to stop may still take: its notice period, and on while its checkpoint grows."""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path

CLIENT_GRACE_S = 60.0
"""Seconds that a task which uses `rota.client` may take, if the scheduler says nothing."""
COMMAND_GRACE_S = 10.0
"""The same of one that does not, from TERM to KILL."""
LONGEST_SAVE_S = 1800.0
"""Seconds after which a save is ended although it grows, if the operator says nothing."""
_LOOK_EVERY_S = 1.0
"""Seconds between two looks at the folder of checkpoints."""
_MOST_ENTRIES = 100_000
"""Files and folders that are looked at; a folder with more does not hold up anybody."""


@dataclass(slots=True, kw_only=True)
class SaveWatch:
    """The stop of one task. Times are seconds of any one clock."""

    asked: float
    grace_s: float
    """How long it may take without a sign that it saves."""
    longest_s: float
    """How long it may take in all."""
    listens: bool
    """Whether it was asked by its line; else it was sent TERM."""
    signs: int = 0
    """How often it was seen that it saves. Grows as long as it makes progress."""
    _amounts: dict[str, int] = field(default_factory=dict)
    _last_sign: float = 0.0
    _looked: float = 0.0
    _measuring: FolderSize | None = None

    def told(self, rank: int, amount: int, now: float) -> None:
        """A rank says that it saves, and how much is written. That it begins to is a sign, too."""
        self._take(f"rank {rank}", amount, now, unknown=-1)

    def look(self, folder: Path, now: float) -> None:
        """Take in how large the folder of checkpoints is, and measure it again if that is due. Waits for nobody."""
        if self._measuring is not None and self._measuring.amount is not None:
            amount = self._measuring.amount
            self._take("folder", amount, now, unknown=amount)
            self._measuring = None
        if self._measuring is None and now - self._looked >= _LOOK_EVERY_S:
            self._looked = now
            self._measuring = FolderSize(folder)

    def _take(self, source: str, amount: int, now: float, unknown: int) -> None:
        """More than the last time is a sign of progress."""
        if amount > self._amounts.get(source, unknown):
            self.signs += 1
            self._last_sign = now
        self._amounts[source] = amount

    @property
    def ends(self) -> float:
        """When its time is over, as things are now."""
        return min(max(self.asked, self._last_sign) + self.grace_s, self.asked + self.longest_s)

    @property
    def why(self) -> str:
        """Why its time is over, for people."""
        if max(self.asked, self._last_sign) + self.grace_s > self.asked + self.longest_s:
            return f"its save took longer than {self.longest_s:g} s, the limit of the operator"
        if self.signs:
            return f"its save made no progress for {self.grace_s:g} s"
        return f"it did not stop within {self.grace_s:g} s"


class FolderSize:
    """Measures a folder in a thread of its own: a file system that does not answer must not hold up other tasks."""

    def __init__(self, folder: Path) -> None:
        self.amount: int | None = None
        """As of `amount_in`; None as long as it is not known."""
        self._folder = folder
        threading.Thread(target=self._measure, name="rota-folder-size", daemon=True).start()

    def _measure(self) -> None:
        self.amount = amount_in(self._folder)


def amount_in(folder: Path) -> int:
    """Bytes and files below a folder, as one number that grows while something is written there."""
    amount = 0
    for entry in islice(_entries(folder), _MOST_ENTRIES):
        with contextlib.suppress(OSError):  # it was renamed or removed meanwhile
            if not entry.is_dir(follow_symlinks=False):
                amount += 1 + entry.stat(follow_symlinks=False).st_size
    return amount


def _entries(folder: Path) -> Iterator[os.DirEntry[str]]:
    """What is below a folder, one at a time: a job decides how wide and deep it is."""
    folders = [os.fspath(folder)]
    while folders:
        with contextlib.suppress(OSError), os.scandir(folders.pop()) as entries:
            for entry in entries:
                yield entry
                if entry.is_dir(follow_symlinks=False):
                    folders.append(entry.path)
