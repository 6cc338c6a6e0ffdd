"""A cache whose contents are known before the start: the fixed set.

The cached set is the longest prefix of a seeded permutation of the items that fits into a number of
bytes. Nothing is ever replaced, so from the second pass on the hit ratio is the cached fraction,
with any order of reading (CoorDL's MinIO, but in bytes). The place of an item in the segment follows
from the permutation alone: with more or less memory later the items that are in both sets stay.

    header | one byte per item: 1 = all of it is there | the items in the order of the permutation

The segment is as long as the data set and holds memory only where an item was written. An item is
written before its byte is, so whoever dies in between leaves nothing that anybody would believe.
"""

from __future__ import annotations

import hashlib
import logging
import mmap
import struct
from array import array
from bisect import bisect_right
from dataclasses import dataclass
from pathlib import Path

from rota.data import segments
from rota.data.order import shuffled
from rota.data.segments import Segment

log = logging.getLogger(__name__)

_PAGE = mmap.PAGESIZE
_HEADER = struct.Struct("<8sQQ")
_MAGIC = b"rota-d01"
_LIMIT = struct.Struct("<Q")
_LIMIT_AT = 16
_ATTEMPT = struct.Struct("<Q")
_ATTEMPT_AT = 24
THROTTLE_AT = 64
"""A word of the header for `Throttle`."""
_RESIZE_BYTE = 2
FILE_PREFIX = "cache-"


@dataclass(frozen=True, slots=True)
class CacheLayout:
    """Which item is where, and which are cached with how many bytes."""

    slots: array[int]
    """Place of every item in the permutation."""
    ends: array[int]
    """Where the item at each place ends, in bytes from the first item."""
    fingerprint: str

    @classmethod
    def of(cls, sizes: array[int], seed: int, identity: str = "") -> CacheLayout:
        """The layout for items of these sizes; the same for the same seed."""
        order = shuffled(len(sizes), "cache", seed)
        slots = array("Q", bytes(8 * len(sizes)))
        ends = array("Q", bytes(8 * len(sizes)))
        end = 0
        for slot, item in enumerate(order):
            end += sizes[item]
            slots[item] = slot
            ends[slot] = end
        digest = hashlib.blake2b(f"{seed}\0{identity}\0".encode() + sizes.tobytes(), digest_size=12)
        return cls(slots, ends, digest.hexdigest())

    @property
    def total_bytes(self) -> int:
        """Of all items."""
        return self.ends[-1] if self.ends else 0

    @property
    def data_at(self) -> int:
        """Where the first item begins in the segment."""
        flags_end = _PAGE + len(self.slots)
        return -(-flags_end // _PAGE) * _PAGE

    @property
    def segment_bytes(self) -> int:
        """Length of the segment, of which only written parts take memory."""
        return self.data_at + max(self.total_bytes, 1)

    def fitting(self, cache_bytes: int) -> int:
        """How many places of the permutation fit into so many bytes."""
        return bisect_right(self.ends, cache_bytes)

    def mapped_bytes(self, cache_bytes: int) -> int:
        """Of the segment, as far as a cache of so many bytes reaches."""
        return self.data_at + max(self.bytes_of(self.fitting(cache_bytes)), 1)

    def bytes_of(self, places: int) -> int:
        """Bytes of the first places."""
        return self.ends[places - 1] if places else 0


class FixedSetCache:
    """Raw items of the cached set, shared by all processes that have the segment open."""

    def __init__(self, layout: CacheLayout, segment: Segment) -> None:
        self.layout = layout
        self.segment = segment
        self._data_at = layout.data_at
        self._warned = False

    @classmethod
    def open(
        cls, layout: CacheLayout, cache_bytes: int, *, folder: Path | None = None, group: str = ""
    ) -> FixedSetCache:
        """A cache of at most `cache_bytes`.

        In a folder that somebody keeps, or for a group of processes of this user, or for this
        process and its workers alone. A folder without room for a beginning makes a cache of nothing.
        """
        if folder is not None:
            try:
                return cls._in_folder(layout, cache_bytes, folder)
            except OSError as error:
                log.warning("no cache can be made in %s, so every item is read each time: %s", folder, error)
                cache_bytes = 0
        size = layout.segment_bytes
        mapped = layout.mapped_bytes(cache_bytes)
        if group:
            name = hashlib.blake2b(f"{group}\0{layout.fingerprint}".encode(), digest_size=12).hexdigest()
            segment = segments.published(segments.user_folder(), f"cache-{name}", size, mapped=mapped)
        else:
            segment = segments.private("cache", size, mapped=mapped)
        cache = cls(layout, segment)
        cache.resize(cache_bytes)
        return cache

    @classmethod
    def _in_folder(cls, layout: CacheLayout, cache_bytes: int, folder: Path) -> FixedSetCache:
        path = folder / f"{FILE_PREFIX}{layout.fingerprint}"
        mapped = layout.mapped_bytes(cache_bytes)
        segment = segments.in_file(path, layout.segment_bytes, mapped=mapped, reserved=layout.data_at)
        cache = cls(layout, segment)
        cache.resize(cache_bytes)
        return cache

    @property
    def places(self) -> int:
        """How many items are in the cached set."""
        return int(_LIMIT.unpack_from(self.segment.view, _LIMIT_AT)[0])

    @property
    def cached_bytes(self) -> int:
        """Bytes of the cached set, read already or not."""
        return self.layout.bytes_of(self.places)

    @property
    def filled(self) -> int:
        """Items that are there."""
        return self.segment.view[_PAGE : _PAGE + self.places].count(1)

    def resize(self, cache_bytes: int) -> None:
        """Hold at most so many bytes from now on; what no longer belongs to the set is freed."""
        places = self.layout.fitting(cache_bytes)
        view = self.segment.view
        with self.segment.locked(byte=_RESIZE_BYTE):
            magic, count, before = _HEADER.unpack_from(view)
            if (magic, count) != (_MAGIC, len(self.layout.slots)):
                self._begin(places)
                return
            _LIMIT.pack_into(view, _LIMIT_AT, places)
            if places < before:
                view[_PAGE + places : _PAGE + before] = bytes(before - places)
                self._free(self.layout.bytes_of(places), self.layout.bytes_of(before))

    def used_by(self, attempt: int) -> None:
        """Note which attempt of the job uses it."""
        _ATTEMPT.pack_into(self.segment.view, _ATTEMPT_AT, attempt)

    def _begin(self, places: int) -> None:
        """Nothing is there yet. The header is complete before it is marked as one."""
        count = len(self.layout.slots)
        self.segment.view[_PAGE : _PAGE + count] = bytes(count)
        _HEADER.pack_into(self.segment.view, 0, bytes(len(_MAGIC)), count, places)
        self.segment.write(_MAGIC, 0)

    def holds(self, index: int) -> bool:
        """Whether an item belongs to the cached set."""
        return self.layout.slots[index] < self.places

    def get(self, index: int) -> bytes | None:
        """An item, or None if it is not there."""
        slot = self.layout.slots[index]
        flag_at = _PAGE + slot
        if slot >= self.places or self.segment.view[flag_at] != 1:
            return None
        end = self._data_at + self.layout.ends[slot]
        begin = self._data_at + (self.layout.ends[slot - 1] if slot else 0)
        if end > len(self.segment.view):
            self._map_more(end)
        data = self.segment.view[begin:end]
        return data if self.segment.view[flag_at] == 1 else None  # it was taken away meanwhile

    def put(self, index: int, data: bytes) -> bool:
        """Keep an item of the cached set. False: it should be kept and cannot be."""
        slot = self.layout.slots[index]
        begin = self.layout.ends[slot - 1] if slot else 0
        if len(data) != self.layout.ends[slot] - begin:
            return False
        try:
            with self.segment.locked(shared=True, byte=_RESIZE_BYTE):
                if slot < self.places:
                    self.segment.write(data, self._data_at + begin)
                    self.segment.write(b"\1", _PAGE + slot)
        except OSError as error:
            if not self._warned:
                self._warned = True
                log.warning("no memory for the cache, the hit ratio will be lower: item %d: %s", index, error)
            return False
        return True

    def _map_more(self, end: int) -> None:
        """Another process has let the cache grow."""
        end = max(end, self._data_at + self.cached_bytes)
        self.segment.view = mmap.mmap(self.segment.handle, end)

    def _free(self, begin: int, end: int) -> None:
        """Give back the memory of these bytes, as far as they fill whole pages."""
        first = -(-(self._data_at + begin) // _PAGE) * _PAGE
        last = (self._data_at + end) // _PAGE * _PAGE
        if last <= first:
            return
        with mmap.mmap(self.segment.handle, last) as whole:
            whole.madvise(mmap.MADV_REMOVE, first, last - first)


def remove_stale(folder: Path, attempt: int) -> None:
    """Remove caches that the last attempt here did not use any more, from the folder of a job."""
    caches = (path for path in folder.glob(f"{FILE_PREFIX}*") if path.is_file() and not path.is_symlink())
    found = {path: _last_attempt(path) for path in caches}
    newest = max((used for used in found.values() if used < attempt), default=0)
    for path, used in found.items():
        if used < newest:
            segments.remove_if_unused(path)


def _last_attempt(path: Path) -> int:
    with path.open("rb") as file:
        file.seek(_ATTEMPT_AT)
        word = file.read(_ATTEMPT.size)
    return int(_ATTEMPT.unpack(word)[0]) if len(word) == _ATTEMPT.size else 0
