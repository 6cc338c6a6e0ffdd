"""Prepared items that several processes hand to each other: a ring in shared memory.

Items have numbers that grow; the item with number n belongs to place n modulo the number of places.
Who prepares an item holds the kernel's lock on its place until the item is there. So there is one
writer at a time, a lock that is free means that nobody prepares it, and a process that dies lets go
of it, whatever else it left undone. Nobody waits for a reader: an item may be overwritten before
everybody has it, and who comes too late prepares it again.

    header | per place: number + 1, size | the items
"""

from __future__ import annotations

import fcntl
import hashlib
import logging
import os
import struct
from pathlib import Path

from rota.data import segments
from rota.data.segments import Segment

log = logging.getLogger(__name__)

_PAGE = 4096
_ENTRY = struct.Struct("<QQ")
_FIRST_LOCK = 1 << 40
"""Locks are on bytes beyond the end of the segment, one per place."""


class StagingArea:
    """A ring of `places` items of at most `item_bytes` bytes."""

    def __init__(self, segment: Segment, places: int, item_bytes: int) -> None:
        self._segment = segment
        self.places = places
        self.item_bytes = item_bytes
        self._data_at = _data_at(places)

    @classmethod
    def open(cls, group: str, places: int, item_bytes: int, folder: Path | None = None) -> StagingArea:
        """The area of a group: in a folder of the user, or found through a list of who has it open."""
        text = f"{group}\0{places}\0{item_bytes}"
        name = "staging-" + hashlib.blake2b(text.encode(), digest_size=12).hexdigest()
        size = _data_at(places) + places * item_bytes
        if folder is not None:
            return cls(_in_folder(folder / name, size, _data_at(places)), places, item_bytes)
        return cls(segments.published(segments.user_folder(), name, size), places, item_bytes)

    def newest(self, number: int) -> int:
        """The number of the item that is in the place of this one; -1 if there is none."""
        return self._entry(number)[0] - 1

    def get(self, number: int) -> bytes | None:
        """An item, or None if it is not there."""
        entry = self._entry(number)
        if entry[0] != number + 1:
            return None
        begin = self._data_at + number % self.places * self.item_bytes
        data = self._segment.view[begin : begin + entry[1]]
        return data if self._entry(number) == entry else None  # overwritten meanwhile

    def claim(self, number: int) -> bool:
        """Take over the preparation of an item; False if another process has its place now."""
        try:
            fcntl.lockf(self._segment.handle, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, self._lock_of(number))
        except OSError:
            return False
        if self.newest(number) >= number:  # it came, or a later one, before we had the lock
            self.release(number)
            return False
        return True

    def publish(self, number: int, data: bytes) -> bool:
        """Put in an item that was claimed; False if it is too large or there is no memory."""
        if len(data) > self.item_bytes:
            return False
        at = _PAGE + number % self.places * _ENTRY.size
        try:
            self._segment.write(_ENTRY.pack(0, 0), at)
            self._segment.write(data, self._data_at + number % self.places * self.item_bytes)
            self._segment.write(_ENTRY.pack(number + 1, len(data)), at)
        except OSError:
            return False
        return True

    def release(self, number: int) -> None:
        """Let go of a place that was claimed."""
        fcntl.lockf(self._segment.handle, fcntl.LOCK_UN, 1, self._lock_of(number))

    def _entry(self, number: int) -> tuple[int, int]:
        return _ENTRY.unpack_from(self._segment.view, _PAGE + number % self.places * _ENTRY.size)

    def _lock_of(self, number: int) -> int:
        return _FIRST_LOCK + number % self.places


def _in_folder(path: Path, size: int, header_bytes: int) -> Segment:
    """The segment of a group; without memory for it one that nobody else finds."""
    try:
        return segments.in_file(path, size, reserved=header_bytes)
    except OSError as error:
        log.warning("nothing can be shared in %s, so every job prepares for itself: %s", path.parent, error)
        return segments.private("staging", size)


def _data_at(places: int) -> int:
    return _PAGE + -(-places * _ENTRY.size // _PAGE) * _PAGE


def shared_folder(text: str) -> Path | None:
    """The folder of this user's jobs that an agent gives; None outside a cluster."""
    return Path(text) if text and os.access(text, os.W_OK) else None
