"""`rota journal check` and `rota journal repair` from the inside.

Checking reads everything, as a start would, and changes nothing. Repairing writes a new file from what can be read: all
events that are whole, and the state that follows from them as two snapshots, so that the next start needs no event
that is lost. The damaged file is kept beside it.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import shutil
import sqlite3
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rota.assembly import make_throughputs
from rota.core.cluster import Cluster
from rota.core.errors import ConfigError, OutputError
from rota.core.files import sync_folder
from rota.core.rules import Rules
from rota.deploy.events import Audited, DeployEvent, EventRow, LeasesExtended
from rota.deploy.scheduler import journal_layout, snapshots
from rota.deploy.scheduler.catalogue import opened
from rota.deploy.scheduler.journal import StoredSnapshot, lock
from rota.deploy.scheduler.recorder import event_row
from rota.deploy.scheduler.recovery import UNREADABLE, Recovered, Recovery
from rota.deploy.scheduler.salvage import SalvagedFile, salvage
from rota.deploy.scheduler.tolerant_replay import Losses, TolerantReplay, settle
from rota.engine.live_state import LiveState
from rota.mechanisms.registry import build

_LEASE_MARGIN_S = 60.0
"""Wall seconds, beside a round, by which leases are extended whose last extension is lost."""
_WHO = "rota journal repair"


@dataclass(slots=True, kw_only=True)
class Report:
    """What is in a state file, and what is wrong with it."""

    path: Path
    layout: int
    events: int
    last: int
    """Number of the last event."""
    removed_through: int
    snapshots: int
    archived_jobs: int
    problems: list[str] = field(default_factory=list)
    bad_events: list[dict[str, Any]] = field(default_factory=list)
    """Number, kind and problem of each event that cannot be read."""

    # After a repair
    kept: str = ""
    """Where the damaged file is now."""
    failed_jobs: list[int] = field(default_factory=list)
    engine_reset: bool = False
    not_applied: list[str] = field(default_factory=list)
    history_only: int = 0
    """Events that are lost, but were in a snapshot."""

    @property
    def healthy(self) -> bool:
        """Whether a scheduler can start on it, with nothing lost."""
        return not self.problems

    def fields(self) -> dict[str, Any]:
        """As plain values."""
        return {**dataclasses.asdict(self), "path": str(self.path), "healthy": self.healthy}


def check(path: Path, profiles: str | None = None) -> Report:
    """Read the whole file as a start would. ConfigError if it is not ours, or of a later version."""
    found = salvage(path)
    report = _report(path, found)
    if not report.bad_events:
        _try_start(path, found, profiles, report)
    return report


def repair(path: Path, profiles: str | None = None) -> Report:
    """Write a file from which a scheduler can start in the place of one that is damaged, which is kept.

    A file that is whole is left as it is. ConfigError if a scheduler runs on it, or nothing of it can be read.
    """
    if not path.is_file():
        raise ConfigError(f"there is no state file {path}")
    with contextlib.closing(lock(path)):
        report = check(path, profiles)
        if report.healthy:
            return report
        try:
            return _repair(path, salvage(path), profiles, report)
        except (OSError, sqlite3.Error) as error:
            raise OutputError(f"cannot repair {path}: {error}; it was left as it is") from error


# Checking


def _report(path: Path, found: SalvagedFile) -> Report:
    bad = found.bad_events
    report = Report(
        path=path,
        layout=found.layout,
        events=len(found.events) - len(bad),
        last=found.events[-1].number if found.events else found.removed_through,
        removed_through=found.removed_through,
        snapshots=len(found.snapshots),
        archived_jobs=len(found.jobs),
        bad_events=[{"number": e.number, "kind": e.kind, "problem": e.problem} for e in bad],
    )
    report.problems += [f"SQLite: {line}" for line in found.pages]
    report.problems += [f"event {e.number}{f' ({e.kind})' if e.kind else ''}: {e.problem}" for e in bad]
    report.problems += [f"{found.bad_snapshots} damaged snapshots"] if found.bad_snapshots else []
    report.problems += [f"job {number} in the archive: its checksum is another one" for number in found.bad_jobs]
    if found.layout == journal_layout.LAYOUT and journal_layout.facts_damaged(found.facts):
        report.problems.append("the table of facts about the file is damaged")
    return report


@dataclass(frozen=True, slots=True)
class _Found:
    """The file as a recovery reads it."""

    path: Path
    file: SalvagedFile

    def events(self, after: int = 0) -> Iterator[tuple[int, dict[str, Any]]]:
        for event in self.file.events:
            if event.number > after:
                yield event.number, event.fields

    @property
    def begins_after(self) -> int:
        return max(self.file.removed_through, self.file.rounds_removed_through)

    def snapshots(self) -> list[StoredSnapshot]:
        return self.file.snapshots

    def save_snapshot(self, format_: int, body: bytes) -> None:
        """Nothing is written while a file is checked."""


def _try_start(path: Path, found: SalvagedFile, profiles: str | None, report: Report) -> None:
    try:
        recovered = _recovery(path, found, profiles).recover()
    except ConfigError as error:
        report.problems.append(str(error))
        return
    missing = [number for number in recovered.registry.live if number in {row[0] for row in found.jobs}]
    report.problems += [f"job {number} is in memory and in the archive" for number in missing]


def _recovery(path: Path, found: SalvagedFile, profiles: str | None) -> Recovery:
    """What reads the journal, with the settings of the scheduler that wrote it."""
    config = _config(found)
    known = {known.name for known in dataclasses.fields(Rules)}
    values = {name: value for name, value in config.get("rules", {}).items() if name in known}
    rules = Rules(**{**values, "type_order": tuple(values.get("type_order", ()))})
    catalogue = opened(make_throughputs(profiles or str(config.get("profiles", "gavel"))))
    name = str(config.get("mechanism", rules.mechanism))
    settings = dict(config.get("mechanism_settings", {}))
    by_need = build(name, rules, int(config.get("seed", 0)), settings, watched=True).by_need

    def make_state(cluster: Cluster) -> LiveState:
        return LiveState(cluster, catalogue, rules, by_need=by_need)

    return Recovery(_Found(path, found), catalogue, rules, make_state)


def _config(found: SalvagedFile) -> Mapping[str, Any]:
    started = [event for event in found.events if event.kind == "ServiceStarted" and not event.problem]
    if started:
        config: Mapping[str, Any] = started[-1].fields.get("config", {})
        return config
    for stored in found.snapshots:
        with contextlib.suppress(*UNREADABLE, zlib.error):
            return snapshots.config_of(stored.body)
    return {}


# Repairing


def _repair(path: Path, found: SalvagedFile, profiles: str | None, report: Report) -> Report:
    recovery = _recovery(path, found, profiles)
    recovered, after = _from_newest_snapshot(recovery, found)
    replay = TolerantReplay(recovery, recovered)
    if after == 0 and _Found(path, found).begins_after:
        replay.losses.engine_from = 1
    replay.take(event for event in found.events if event.number > after)
    losses = replay.losses
    added: list[DeployEvent] = [*settle(recovered, losses, frozenset(row[0] for row in found.jobs))]
    added += _longer_leases(recovered, losses)
    report.failed_jobs = sorted(losses.unknown_fate & recovered.registry.jobs.keys())
    report.engine_reset = bool(losses.engine_from)
    report.not_applied = losses.not_applied
    report.history_only = sum(event.number <= after for event in found.bad_events)
    said = f"{len(found.bad_events)} events were lost; {len(report.failed_jobs)} jobs of unknown fate"
    added.append(Audited(at=recovered.last_at, who=_WHO, what=said))
    fresh = path.with_name(f"{path.name}.repaired-{os.getpid()}")
    try:
        _write(fresh, found, recovered, [event_row(event) for event in added])
        report.kept = str(_swap(path, fresh))
    finally:
        fresh.unlink(missing_ok=True)
    return report


def _from_newest_snapshot(recovery: Recovery, found: SalvagedFile) -> tuple[Recovered, int]:
    for stored in found.snapshots:
        with contextlib.suppress(*UNREADABLE, zlib.error):
            return recovery.from_snapshot(stored.body), stored.number
    return Recovered(), 0


def _longer_leases(recovered: Recovered, losses: Losses) -> list[DeployEvent]:
    """If an extension of leases is lost, a job may run for longer than the rest of the journal says."""
    registry = recovered.registry
    attempts = tuple((job.id, job.attempt.epoch) for job in registry.running.values() if job.attempt is not None)
    if not (losses.leases or losses.serious) or not attempts:
        return []
    config = registry.config
    round_s = float(config.get("rules", {}).get("round_s", 360.0))
    until = recovered.last_at + round_s + _LEASE_MARGIN_S * float(config.get("time_scale", 1.0))
    longer = LeasesExtended(at=recovered.last_at, until=until, attempts=attempts)
    registry.apply(longer)
    return [longer]


def _write(fresh: Path, found: SalvagedFile, recovered: Recovered, added: list[EventRow]) -> None:
    """A whole new file: what can be read, what the repair adds, and the state after it, twice."""
    fresh.unlink(missing_ok=True)
    os.close(os.open(fresh, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
    db = sqlite3.connect(fresh, isolation_level=None)
    try:
        journal_layout.begin(db)
        journal_layout.bring_up_to_date(db, fresh, 0)
        db.execute("PRAGMA synchronous = FULL")
        db.execute("BEGIN")
        _fill(db, found, recovered, added)
        db.execute("COMMIT")
    finally:
        db.close()


def _fill(db: sqlite3.Connection, found: SalvagedFile, recovered: Recovered, added: list[EventRow]) -> None:
    good = [(e.number, e.at, e.kind, e.body, e.crc) for e in found.events if not e.problem]
    newest = max((stored.number for stored in found.snapshots), default=0)
    last = max(found.events[-1].number if found.events else 0, newest, found.removed_through)
    good += [(last + i, *row, journal_layout.event_checksum(*row)) for i, row in enumerate(added, start=1)]
    db.executemany("INSERT INTO events VALUES (?, ?, ?, ?, ?)", good)
    db.executemany("INSERT OR REPLACE INTO finished_jobs VALUES (?, ?, ?, ?, ?, ?, ?)", found.jobs)
    last += len(added)
    saved = snapshots.Saved(
        registry=recovered.registry, state=recovered.state, trigger=recovered.trigger, at=recovered.last_at
    )
    body = snapshots.SnapshotWriter().write(saved)
    # The last event only says that there was a repair, so the state before it is the same.
    for number in (last - 1, last):
        row = (number, snapshots.FORMAT, journal_layout.snapshot_checksum(number, snapshots.FORMAT, body), body)
        db.execute("INSERT INTO snapshots VALUES (?, ?, ?, ?)", row)
    known = {journal_layout.ID: found.facts[journal_layout.ID]} if journal_layout.ID in found.facts else {}
    removed = {journal_layout.REMOVED: str(found.removed_through), journal_layout.ROUNDS_REMOVED: str(last - 1)}
    journal_layout.write_meta(db, {**known, **removed})


def _swap(path: Path, fresh: Path) -> Path:
    """Put the new file in the place of the damaged one, which is kept together with SQLite's own log of it."""
    number = 1
    while (kept := path.with_name(f"{path.name}.damaged-{number}")).exists():
        number += 1
    shutil.copy2(path, kept)
    kept.chmod(0o600)
    for suffix in ("-wal", "-shm"):
        beside = path.with_name(path.name + suffix)
        if beside.exists():
            beside.replace(kept.with_name(kept.name + suffix))
    fresh.replace(path)
    sync_folder(path.parent)
    return kept
