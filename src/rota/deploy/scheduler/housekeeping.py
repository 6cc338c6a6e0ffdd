"""What the owner does for its state file between two turns: snapshots, and removing what was kept for long enough.

Everything is done in small parts, so that no round waits for it. Nothing here is needed for the next decision: what
fails is logged and tried again, and only a journal that takes no events any more ends the scheduler.
"""

from __future__ import annotations

import logging
import math
import time

from rota.core.errors import OutputError
from rota.deploy.scheduler.archive import JobArchive
from rota.deploy.scheduler.clock import WallClock
from rota.deploy.scheduler.compaction import Compaction, Limits
from rota.deploy.scheduler.journal import Journal
from rota.deploy.scheduler.options import Retention
from rota.deploy.scheduler.recorder import Recorder
from rota.deploy.scheduler.recovery import Recovered, Recovery

log = logging.getLogger(__name__)

SNAPSHOT_EVERY = 2000
"""Events."""
_REST_PER_WORK = 50.0
"""A snapshot that took a second is followed by so many seconds without one."""
_EVERY_S = 0.25
_BUDGET_S = 0.01
"""Wall seconds for removing events at a time."""
_JOBS_PREPARED = 50
_JOBS_EVERY_S = 5.0
_JOBS_FORGOTTEN = 500
_LONG_GAP_S = 2 * 86400.0
_PAUSE_S = 86400.0
"""After a gap in the journal longer than the first, nothing is removed for the second: the clock may be wrong."""


class Housekeeping:
    """Keeps the state file small and quick to read. Used by the thread that owns the registry."""

    def __init__(
        self,
        *,
        journal: Journal,
        recovery: Recovery,
        recovered: Recovered,
        archive: JobArchive,
        recorder: Recorder,
        clock: WallClock,
        retention: Retention,
    ) -> None:
        self._journal = journal
        self._recovery = recovery
        self._recovered = recovered
        self._archive = archive
        self._recorder = recorder
        self._clock = clock
        self._retention = retention
        self._compaction = Compaction(journal)
        self._looked = -math.inf
        self._snapshot_at = journal.snapshot_at
        """Number of the event after which the newest snapshot was made, also if another start made it."""
        self._no_snapshot_before = -math.inf
        self._jobs_looked = -math.inf
        self.removes_from = self._first_removal()
        """Monotonic second from which on something may be removed."""

    def _first_removal(self) -> float:
        gap_s = self._clock.wall_seconds(self._clock.now() - self._recovered.last_at)
        if self._recovered.last_at == 0.0 or gap_s < _LONG_GAP_S:
            return -math.inf
        log.warning(
            "the last event is %.1f days old; in case the clock is wrong, nothing is removed for a day", gap_s / 86400.0
        )
        return time.monotonic() + _PAUSE_S

    def step(self) -> None:
        """Do a part of what is due. Called between two turns, when everything is committed."""
        now = time.monotonic()
        if now - self._looked < _EVERY_S or self._recorder.pending:
            return
        self._looked = now
        try:
            self._recovery.prepare(self._recovered.registry, _JOBS_PREPARED)
            if self._snapshot_due(now):
                self._save()
            if now >= self.removes_from:
                self._remove(now)
        except OutputError as error:
            self._looked = now + _JOBS_EVERY_S
            log.warning("%s", error)

    def _snapshot_due(self, now: float) -> bool:
        return self._journal.last - self._snapshot_at >= SNAPSHOT_EVERY and now >= self._no_snapshot_before

    def _save(self) -> None:
        began = time.monotonic()
        self._recovery.save(self._recovered, self._clock.now())
        self._snapshot_at = self._journal.last
        self._recorder.write_next_plan_in_full()
        ended = time.monotonic()
        self._no_snapshot_before = ended + _REST_PER_WORK * (ended - began)

    def _remove(self, now: float) -> None:
        limits = self._limits()
        removed = self._compaction.step(limits, _BUDGET_S)
        if now - self._jobs_looked >= _JOBS_EVERY_S:
            self._forget(limits, nothing_else=removed == 0)
            self._jobs_looked = now

    def _limits(self) -> Limits:
        keep = self._retention
        now = self._clock.now()
        scale = self._clock.scale
        return Limits(
            events_since=now - keep.keep_events_s * scale,
            rounds_since=now - min(keep.keep_rounds_s, keep.keep_events_s) * scale,
            most_bytes=keep.keep_bytes,
        )

    def _forget(self, limits: Limits, *, nothing_else: bool) -> None:
        """Let go of jobs that are over for very long, or of the oldest if the file is too large without events."""
        now = self._clock.now()
        too_large = nothing_else and self._compaction.too_large(limits)
        before = math.inf if too_large else now - self._retention.keep_jobs_s * self._clock.scale
        jobs = self._archive.ended_before(before, _JOBS_FORGOTTEN)
        if jobs:
            self._recorder.forget(jobs, now)
            self._recorder.commit()
