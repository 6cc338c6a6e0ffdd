"""All targets of `rota serve --notify`, beside a scheduler."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence

from rota.deploy.notifications.delivery import Delivery
from rota.deploy.notifications.kinds import JobFacts
from rota.deploy.notifications.positions import Positions, positions_file
from rota.deploy.notifications.settings import Target
from rota.deploy.scheduler.records import Job
from rota.deploy.scheduler.registry import Registry
from rota.deploy.scheduler.service import Scheduler

_LOOK_S = 60.0
"""Wall seconds that the owner may take to answer."""
_LAST_TRY_S = 1.0
"""Wall seconds that a try may still take when the scheduler stops, so that it need not be repeated ..."""
_STOP_S = 3.0
"""... and those that threads have afterwards."""


class JournalSource:
    """Events of a scheduler's journal, by connections of its own."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self.journal = scheduler.journal.id

    @property
    def last(self) -> int:
        """Number of the newest event that is committed."""
        return self._scheduler.journal.last

    @property
    def removed(self) -> int:
        """Events up to this number are not there any more."""
        return self._scheduler.journal.removed[0]

    def read(self, after: int, limit: int) -> list[tuple[int, str]]:
        """(number, JSON) of some events."""
        return self._scheduler.journal.read(after, limit)

    def wall_time(self, at: float) -> float:
        """Engine seconds as seconds since 1970."""
        return self._scheduler.clock.wall_time(at)

    def facts(self, jobs: Sequence[int]) -> Mapping[int, JobFacts]:
        """Jobs in memory, then those that left it. Refused if the scheduler stops."""

        def in_memory(registry: Registry) -> dict[int, JobFacts]:
            return {number: _facts(registry.jobs[number]) for number in jobs if number in registry.jobs}

        known: dict[int, JobFacts] = self._scheduler.look("notifications", in_memory).result(_LOOK_S)
        for number in jobs:
            if number not in known:
                archived = self._scheduler.archive.job(number)
                if archived is not None:
                    known[number] = _facts(archived)
        return known


def _facts(job: Job) -> JobFacts:
    return JobFacts(tenant=job.tenant, name=job.spec.name, final_phase=job.final_phase)


class Notifier:
    """Made before the scheduler starts, so that its start is told, too."""

    def __init__(self, scheduler: Scheduler, targets: Sequence[Target]) -> None:
        """ConfigError if the file that says what was delivered cannot be read."""
        self._positions = Positions(positions_file(scheduler.journal.path), scheduler.journal.id)
        source = JournalSource(scheduler)
        self._deliveries = [Delivery(target, source, self._positions) for target in targets]
        self._positions.begin([target.name for target in targets], scheduler.journal.last)

    def start(self) -> None:
        """Begin to tell. The scheduler runs."""
        for delivery in self._deliveries:
            delivery.start()

    def stop(self) -> None:
        """Tell no more, and keep what was told."""
        for delivery in self._deliveries:
            delivery.stop()
        self._join(_LAST_TRY_S)
        for delivery in self._deliveries:
            delivery.interrupt()
        self._join(_STOP_S)
        self._positions.write(now=True)

    def _join(self, seconds: float) -> None:
        until = time.monotonic() + seconds
        for delivery in self._deliveries:
            delivery.join(max(0.0, until - time.monotonic()))

    def counts(self) -> dict[tuple[str, str], int]:
        """Notifications by target and result."""
        return {(d.target.name, result): count for d in self._deliveries for result, count in d.counts().items()}

    def behind(self) -> dict[str, int]:
        """Events of the journal that targets have not looked at yet."""
        return {delivery.target.name: delivery.behind for delivery in self._deliveries}
