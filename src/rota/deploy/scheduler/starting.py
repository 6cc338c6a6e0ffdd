"""What a scheduler writes down before it says anything to anybody: that it started, when, and what that means.

Pure: the registry and the clock are read, not changed.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

from rota.deploy.events import ClockSet, DeployEvent, LeasesExtended, ServiceStarted
from rota.deploy.scheduler.clock import WallClock
from rota.deploy.scheduler.registry import Registry

log = logging.getLogger(__name__)


def events_of_start(registry: Registry, clock: WallClock, config: Mapping[str, Any]) -> list[DeployEvent]:
    """The start itself, a wall clock that was set meanwhile, and leases that may still hold."""
    reading = clock.reading()
    started = ServiceStarted(
        at=reading.at,
        begun=clock.begun,
        config=config,
        generation=registry.generation + 1,
        boot=reading.boot,
        machine_s=reading.machine_s,
    )
    events: list[DeployEvent] = [started]
    if clock.set_by_s:
        events.append(clock_set(clock.set_by_s, reading.at, running=False))
    longer = _leases_that_may_hold(registry, clock, reading.at)
    return events if longer is None else [*events, longer]


def clock_set(by_s: float, at: float, *, running: bool) -> ClockSet:
    """Somebody set the wall clock; said in the log, too."""
    way = "forward" if by_s > 0 else "back"
    when = "" if running else " while no scheduler ran"
    log.warning("the wall clock was set %s by %.0f s%s; the scheduler's clock goes on as before", way, abs(by_s), when)
    return ClockSet(at=at, by_s=by_s, running=running)


def _leases_that_may_hold(registry: Registry, clock: WallClock, at: float) -> LeasesExtended | None:
    """Leases count from now on where only the wall clock says that time has passed: servers may know better."""
    attempts = {(job.id, job.attempt.epoch): job.attempt for job in registry.running.values() if job.attempt}
    if clock.unsure_s <= 0 or not attempts:
        return None
    log.warning(
        "the machine of the scheduler was started again, and by its wall clock %.0f s have passed; leases of %d jobs "
        "count as if none had",
        clock.wall_seconds(clock.unsure_s),
        len(attempts),
    )
    until = max(attempt.lease_until for attempt in attempts.values()) + clock.unsure_s
    return LeasesExtended(at=at, until=until, attempts=tuple(attempts))
