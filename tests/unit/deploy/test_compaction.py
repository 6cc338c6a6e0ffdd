"""Old events leave the journal in small parts, the file stays small, and a restart needs nothing that has left."""

import contextlib
import json
import os
import random
import signal
import sqlite3
import subprocess
import sys
import time
import zlib
from pathlib import Path

import pytest

from deployed import PlayedAgent, a_scheduler, jobs_of, look, submit, until
from rota.core.errors import ConfigError
from rota.deploy.scheduler import housekeeping, journal_layout
from rota.deploy.scheduler.compaction import ROUND_EVENTS, Compaction, Limits
from rota.deploy.scheduler.journal import Journal
from rota.deploy.scheduler.journal_repair import check
from rota.deploy.scheduler.options import Retention

EVERYTHING = Limits(events_since=1e12, rounds_since=1e12, most_bytes=1e12)
NOTHING = Limits(events_since=0.0, rounds_since=0.0, most_bytes=1e12)


def some(kinds, at=1.0, size=100):
    return [(at, kind, json.dumps({"event": kind, "at": at, "text": "x" * size})) for kind in kinds]


@pytest.fixture
def journal(tmp_path):
    made = Journal(tmp_path / "s.db")
    yield made
    made.close()


def kinds_of(journal):
    return [json.loads(body)["event"] for _, body in journal.read(0, 100_000)]


def two_snapshots(journal, between=("Audited",)):
    journal.save_snapshot(1, b"one")
    journal.append(some(between))
    journal.save_snapshot(1, b"two")


def test_nothing_goes_that_is_not_in_both_snapshots(journal):
    journal.append(some(["Planned", "JobAccepted"]))
    assert Compaction(journal).step(EVERYTHING, 1.0) == 0
    journal.save_snapshot(1, b"one")
    assert Compaction(journal).step(EVERYTHING, 1.0) == 0

    journal.append(some(["RoundsRan", "JobAccepted"]))
    journal.save_snapshot(1, b"two")
    assert Compaction(journal).step(EVERYTHING, 1.0) == 2

    assert kinds_of(journal) == ["RoundsRan", "JobAccepted"]
    assert journal.removed == (2, 2)
    assert [number for number, _ in journal.events(2)] == [3, 4]


def test_events_of_rounds_go_earlier_than_those_of_jobs(journal):
    journal.append(some([*ROUND_EVENTS, "JobAccepted"], at=10.0))
    two_snapshots(journal)

    Compaction(journal).step(Limits(events_since=5.0, rounds_since=20.0, most_bytes=1e12), 1.0)

    assert kinds_of(journal) == ["JobAccepted", "Audited"]
    assert journal.removed == (0, 6)


def test_what_is_young_stays(journal):
    journal.append(some(["Planned"], at=10.0))
    two_snapshots(journal)

    assert Compaction(journal).step(NOTHING, 1.0) == 0


def test_a_file_that_is_too_large_gives_up_rounds_before_jobs_and_shrinks(journal, tmp_path):
    for _ in range(4):
        journal.append(some([*["Planned"] * 50, *["JobAccepted"] * 50], size=2000))
    two_snapshots(journal)
    compaction = Compaction(journal)
    limits = Limits(events_since=0.0, rounds_since=0.0, most_bytes=1_100_000)

    while compaction.step(limits, 0.01):
        pass
    for _ in range(20):
        compaction.step(limits, 0.0)

    assert set(kinds_of(journal)) == {"JobAccepted", "Audited"}
    journal._db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    assert (tmp_path / "s.db").stat().st_size < 1_300_000


def test_a_batch_takes_no_longer_than_it_may(journal):
    for _ in range(40):
        journal.append(some(["Planned"] * 500))
    two_snapshots(journal)
    compaction = Compaction(journal)
    longest = 0.0

    while True:
        began = time.process_time()
        if not compaction.step(EVERYTHING, 0.005):
            break
        longest = max(longest, time.process_time() - began)

    assert kinds_of(journal) == ["Audited"]
    assert longest < 0.1


def test_numbers_go_on_after_all_events_have_gone(journal, tmp_path):
    journal.append(some(["JobAccepted"] * 3))
    two_snapshots(journal, between=("Audited",))
    Compaction(journal).step(EVERYTHING, 1.0)
    journal._db.execute("DELETE FROM events")
    journal.close()

    again = Journal(tmp_path / "s.db")

    assert again.last == 4
    again.close()


@pytest.fixture
def often(monkeypatch):
    """Snapshots and removal at every opportunity."""
    monkeypatch.setattr(housekeeping, "SNAPSHOT_EVERY", 30)
    monkeypatch.setattr(housekeeping, "_EVERY_S", 0.0)
    monkeypatch.setattr(housekeeping, "_REST_PER_WORK", 0.0)
    monkeypatch.setattr(housekeeping, "_JOBS_EVERY_S", 0.0)


SHORT = Retention(keep_finished_jobs=5, keep_jobs_s=1.0, keep_events_s=0.5, keep_rounds_s=0.1, keep_checkpoints_s=1.0)


def test_a_scheduler_starts_again_without_the_events_that_were_removed(tmp_path, often):
    scheduler = a_scheduler(tmp_path / "s.db", retention=SHORT)
    scheduler.start()
    try:
        agents = [PlayedAgent(scheduler, "a"), PlayedAgent(scheduler, "b", kind="k80")]
        (long,) = submit(scheduler, {"steps": 10**8})
        for _ in range(12):
            submit(scheduler, *({"steps": 50} for _ in range(8)))
            until(lambda: look(scheduler, lambda registry: len(registry.live)) <= 1, scheduler, agents)
        until(lambda: look(scheduler, lambda registry: registry.archived) < 60, scheduler, agents)
        until(lambda: scheduler.journal.removed[0] > 200, scheduler, agents)
        before = jobs_of(scheduler)
    finally:
        scheduler.stop()

    report = check(tmp_path / "s.db")
    assert report.healthy, report.problems
    again = a_scheduler(tmp_path / "s.db", retention=SHORT)
    again.start()
    try:
        assert look(again, lambda registry: registry.next_job) == 97
        assert jobs_of(again)[long].epoch == before[long].epoch
        agents = [PlayedAgent(again, "a"), PlayedAgent(again, "b", kind="k80")]
        (new,) = submit(again, {"steps": 50})
        until(lambda: new not in jobs_of(again) or jobs_of(again)[new].over, again, agents)
    finally:
        again.stop()


def test_two_thousand_rounds_and_many_jobs_stay_below_a_megabyte(tmp_path, often, monkeypatch):
    monkeypatch.setattr(housekeeping, "SNAPSHOT_EVERY", 200)
    retention = Retention(
        keep_finished_jobs=5, keep_jobs_s=2.0, keep_events_s=1.0, keep_rounds_s=0.5, keep_bytes=500_000
    )
    scheduler = a_scheduler(tmp_path / "s.db", retention=retention, round_s=1.0, time_scale=400.0)
    scheduler.start()
    try:
        agents = [PlayedAgent(scheduler, "a")]
        largest = 0
        end = time.monotonic() + 60.0
        while scheduler.round_start < 2000.0:
            assert time.monotonic() < end
            assert scheduler.failure is None
            submit(scheduler, *({"steps": 5, "name": "n" * 100} for _ in range(4)))
            for agent in agents:
                agent.report(scheduler)
            largest = max(largest, (tmp_path / "s.db").stat().st_size)
        events = scheduler.journal.last
    finally:
        scheduler.stop()

    assert events > 500
    assert largest < 1_000_000
    assert check(tmp_path / "s.db").healthy


def test_a_scheduler_that_never_lives_long_makes_snapshots_all_the_same(tmp_path, often, monkeypatch):
    """Without them no event may be removed, and one that is started again and again would fill its disk."""
    monkeypatch.setattr(housekeeping, "SNAPSHOT_EVERY", 10**9)
    scheduler = a_scheduler(tmp_path / "s.db")
    scheduler.start()
    submit(scheduler, *({"steps": 50} for _ in range(60)))
    scheduler.stop()
    with contextlib.closing(sqlite3.connect(tmp_path / "s.db")) as db, db:
        db.execute("DELETE FROM snapshots")
    monkeypatch.setattr(housekeeping, "SNAPSHOT_EVERY", 50)

    again = a_scheduler(tmp_path / "s.db")
    again.start()
    try:
        until(lambda: again.journal.snapshot_at >= 60, again, [])
    finally:
        again.stop()


WRITER = """
import sys
sys.path[:0] = sys.argv[2:]
from deployed import PlayedAgent, a_scheduler, submit
from rota.deploy.scheduler import housekeeping
from rota.deploy.scheduler.options import Retention
housekeeping.SNAPSHOT_EVERY = 15
housekeeping._EVERY_S = 0.0
housekeeping._REST_PER_WORK = 0.0
housekeeping._JOBS_EVERY_S = 0.0
keep = Retention(keep_finished_jobs=3, keep_jobs_s=1.0, keep_events_s=0.2, keep_rounds_s=0.05, keep_checkpoints_s=1.0)
scheduler = a_scheduler(sys.argv[1], retention=keep)
scheduler.start()
agent = PlayedAgent(scheduler, "a")
while True:
    (job,) = submit(scheduler, {"steps": 30})
    print(job, flush=True)
    agent.report(scheduler)
"""


def test_kill_9_in_the_middle_of_snapshots_and_removal_loses_nothing(tmp_path):
    state = tmp_path / "s.db"
    draw = random.Random(7)
    accepted = -1
    for _ in range(3):
        process = subprocess.Popen(
            [sys.executable, "-c", WRITER, state, Path(__file__).parents[2]], stdout=subprocess.PIPE, text=True
        )
        for _ in range(draw.randrange(10, 30)):
            line = process.stdout.readline()
            assert line, "the scheduler did not start again"
            assert int(line) == accepted + 1  # no number is given twice, none is lost
            accepted = int(line)
        os.kill(process.pid, signal.SIGKILL)
        rest = process.stdout.read().split()
        process.wait()
        process.stdout.close()
        accepted = max([accepted, *(int(number) for number in rest)])
        report = check(state)
        assert report.healthy, report.problems
        scheduler = a_scheduler(state)
        scheduler.journal.close()
        assert scheduler.registry.next_job in (
            accepted + 1,
            accepted + 2,
        )  # one may not have been told
        accepted = scheduler.registry.next_job - 1

    with sqlite3.connect(state) as db:
        (removed,) = db.execute("SELECT value FROM meta WHERE name = 'removed_through'").fetchone()
    assert int(removed) > 0


def test_the_older_snapshot_serves_if_the_newer_one_is_damaged(tmp_path, often):
    scheduler = a_scheduler(tmp_path / "s.db", retention=SHORT)
    scheduler.start()
    try:
        agents = [PlayedAgent(scheduler, "a")]
        submit(scheduler, *({"steps": 10**8} for _ in range(3)))
        until(lambda: scheduler.journal.removed[0] > 20, scheduler, agents)
    finally:
        scheduler.stop()
    whole = a_scheduler(tmp_path / "s.db")
    whole.journal.close()
    with sqlite3.connect(tmp_path / "s.db") as db:
        db.execute("UPDATE snapshots SET body = x'0011' WHERE seq = (SELECT max(seq) FROM snapshots)")

    again = a_scheduler(tmp_path / "s.db")
    again.journal.close()

    assert again.registry == whole.registry
    assert again._recovered.state.saved() == whole._recovered.state.saved()


def test_a_snapshot_of_a_later_format_is_refused_and_the_one_before_it_serves(tmp_path, often):
    scheduler = a_scheduler(tmp_path / "s.db")
    scheduler._recovery.save(scheduler._recovered, 0.0)
    scheduler.journal.append(some(["Planned"]))
    journal = scheduler.journal
    journal.save_snapshot(9, zlib.compress(b'{"format":9}'))
    journal._db.execute("DELETE FROM snapshots WHERE seq < (SELECT max(seq) FROM snapshots)")
    journal_layout.write_meta(journal._db, {journal_layout.REMOVED: "1"})
    journal.close()

    with pytest.raises(ConfigError, match=r"it has format 9; this version reads format 1.*a newer version of Rota"):
        a_scheduler(tmp_path / "s.db")


def test_nothing_is_removed_for_a_day_after_the_clock_has_jumped(tmp_path, often):
    scheduler = a_scheduler(tmp_path / "s.db", time_scale=1.0)
    scheduler.start()
    scheduler.stop()
    with sqlite3.connect(tmp_path / "s.db") as db:
        body = json.loads(db.execute("SELECT body FROM events WHERE seq = 1").fetchone()[0])
        body["begun"] -= 100 * 86400.0
        body["boot"] = "before the machine was started again, after which there is only the wall clock"
        db.execute("UPDATE events SET body = ?, crc = NULL WHERE seq = 1", (json.dumps(body),))

    again = a_scheduler(tmp_path / "s.db", time_scale=1.0)
    again.journal.close()

    assert again._housekeeping.removes_from > time.monotonic() + 80_000
