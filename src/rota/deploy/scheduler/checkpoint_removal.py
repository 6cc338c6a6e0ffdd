"""A thread that removes checkpoints of jobs which are over for long enough; file systems may be slow."""

from __future__ import annotations

import logging
import math
import threading
from collections.abc import Callable
from pathlib import Path

from rota.deploy.scheduler.checkpoint_folder import JobsOfFolder, is_ours, job_folders, removable, remove

log = logging.getLogger(__name__)

_LONGEST_PAUSE_S = 600.0
_SHORTEST_PAUSE_S = 1.0
_AT_ONCE = 1000


class CheckpointRemoval:
    """Looks through the folder from time to time."""

    def __init__(
        self,
        *,
        folder: Path,
        journal_id: str,
        keep_s: float,
        jobs: Callable[[], JobsOfFolder | None],
        ended_before: Callable[[], float],
    ) -> None:
        """`jobs` says what the scheduler knows, None if it does not say; `ended_before` is an engine second."""
        self._folder = folder
        self._journal_id = journal_id
        self._jobs = jobs
        self._ended_before = ended_before
        self._pause_s = min(max(keep_s / 10, _SHORTEST_PAUSE_S), _LONGEST_PAUSE_S)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="checkpoint removal", daemon=True)
        self._begun = math.isfinite(keep_s)

    def start(self) -> None:
        """Begin to look, unless everything is to be kept."""
        if self._begun:
            self._thread.start()

    def stop(self, timeout_s: float = 2.0) -> None:
        """Look no more; what is being removed is removed the next time."""
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join(timeout_s)

    def _run(self) -> None:
        while not self._stop.wait(self._pause_s):
            try:
                self.sweep()
            except Exception:  # noqa: PERF203 - the next time it may go
                log.exception("checkpoints could not be removed; tried again later")

    def sweep(self) -> int:
        """Look once; how many jobs' checkpoints were removed."""
        if not is_ours(self._folder, self._journal_id):
            log.warning("%s has not the mark of this state file any more; nothing in it is removed", self._folder)
            return 0
        folders = job_folders(self._folder)  # first, so that jobs which come later are not in the list
        jobs = self._jobs()
        if jobs is None:
            return 0
        numbers = removable(folders, jobs, self._ended_before())[:_AT_ONCE]
        count = remove(self._folder, numbers)
        if count:
            log.info("removed the checkpoints of %d jobs that are over", count)
        return count
