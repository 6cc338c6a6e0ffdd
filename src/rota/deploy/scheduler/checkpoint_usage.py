"""How much disk the checkpoints of each tenant take: counted by a thread of its own, a bounded part at a time.

The folder is walked job by job, without following links. A file system may be slow and a job may have millions of
files, so the thread rests after each job for longer than it took, and counts at most so many files of one. What cannot
be read (folders of users that the scheduler may not enter) counts as its own size only, and is said once.
"""

from __future__ import annotations

import itertools
import logging
import os
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from rota.deploy.scheduler.checkpoint_folder import job_folders

log = logging.getLogger(__name__)

_SHORTEST_PAUSE_S = 1.0
"""Wall seconds between two walks over all jobs."""
_REST_PER_WORK = 3.0
"""A job, or a walk, that took a second is followed by so many seconds of rest."""
_MOST_FILES = 100_000
"""Of one job."""
_BLOCK = 512
"""Bytes in `st_blocks`, whatever the file system has."""


class CheckpointUsage:
    """Counts from time to time; any thread may look at the result."""

    def __init__(self, folder: Path, tenants_of: Callable[[Iterable[int]], Mapping[int, str]]) -> None:
        """`tenants_of` says whose jobs are, as far as they are known."""
        self._folder = folder
        self._tenants_of = tenants_of
        self._unreadable = False
        self._by_tenant: Mapping[str, int] = {}
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="checkpoint usage", daemon=True)

    def by_tenant(self) -> Mapping[str, int]:
        """Bytes by tenant, as of the last count. Not changed afterwards."""
        return self._by_tenant

    def start(self) -> None:
        """Begin to count."""
        self._thread.start()

    def stop(self, timeout_s: float = 2.0) -> None:
        """Count no more."""
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join(timeout_s)

    def _run(self) -> None:
        pause_s = _SHORTEST_PAUSE_S
        while not self._stop.wait(pause_s):
            began = time.monotonic()
            try:
                self.count()
            except Exception:
                log.exception("checkpoints could not be counted; tried again later")
            pause_s = max(_SHORTEST_PAUSE_S, _REST_PER_WORK * (time.monotonic() - began))

    def count(self) -> None:
        """Walk over all jobs once."""
        numbers = job_folders(self._folder)
        sizes: dict[int, int] = {}
        for number in numbers:
            began = time.monotonic()
            sizes[number] = self._size(self._folder / str(number))
            if self._stop.wait(_REST_PER_WORK * (time.monotonic() - began)):
                return
        tenants = self._tenants_of(numbers)
        held: Counter[str] = Counter()
        for number, size in sizes.items():
            if number in tenants:
                held[tenants[number]] += size
        self._by_tenant = dict(held)

    def _size(self, place: Path) -> int:
        total = 0
        files = 0
        folders = [str(place)]
        while folders and files < _MOST_FILES:
            for entry in self._entries(folders.pop()):
                total += entry.stat(follow_symlinks=False).st_blocks * _BLOCK
                files += 1
                if entry.is_dir(follow_symlinks=False):
                    folders.append(entry.path)
        return total

    def _entries(self, folder: str) -> list[os.DirEntry[str]]:
        """What is in a folder, at most as much as is counted."""
        try:
            with os.scandir(folder) as entries:
                return [entry for entry in itertools.islice(entries, _MOST_FILES) if _is_there(entry)]
        except FileNotFoundError:
            return []  # it was removed meanwhile
        except OSError as error:
            self._say(error)
            return []

    def _say(self, error: OSError) -> None:
        if not self._unreadable:
            self._unreadable = True
            log.warning(
                "%s: %s; checkpoints there do not count for the limit of their tenant (max_checkpoint_gb)",
                error.filename,
                error.strerror,
            )


def _is_there(entry: os.DirEntry[str]) -> bool:
    """Whether a file can be looked at, and still is there; what it says is kept with the entry."""
    try:
        entry.stat(follow_symlinks=False)
    except OSError:
        return False
    return True
