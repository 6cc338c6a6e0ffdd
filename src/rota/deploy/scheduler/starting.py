"""What a scheduler writes down before it says anything to anybody: that it started, when, and what that means.

The registry, the clock and the mark of lost events are read, not changed.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rota.deploy.events import ClockSet, DeployEvent, LeasesExtended, ServiceStarted, SettingsChanged, SuccessionChanged
from rota.deploy.scheduler import lost_events
from rota.deploy.scheduler.clock import WallClock
from rota.deploy.scheduler.options import Options
from rota.deploy.scheduler.registry import Registry

log = logging.getLogger(__name__)


def first_events(
    registry: Registry, clock: WallClock, options: Options, config: Mapping[str, Any]
) -> list[DeployEvent]:
    """All that a start writes down; the last one is `SettingsChanged` if what was set live is discarded."""
    events = events_of_start(registry, clock, config)
    now = clock.now()
    events += events_of_succession(registry, options.term, now)
    lost = lost_events.event_of_loss(Path(options.state), registry, now)
    events += [] if lost is None else [lost]
    if registry.set_live.settings and options.discard_live_settings:
        events.append(SettingsChanged(at=now, by="rota serve", live={}, config=config))
    return events


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


def events_of_succession(registry: Registry, term: int, at: float) -> list[DeployEvent]:
    """A scheduler that takes over begins a term; whoever was in charge before may stand by later."""
    known = 0 if registry.succession is None else registry.succession.term
    return [SuccessionChanged(at=at, term=term, standby="")] if term > known else []
