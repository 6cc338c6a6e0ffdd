"""A damaged state file: it is found out, what is lost is said, and a scheduler starts again."""

import json
import random
import shutil
import sqlite3

import pytest
from click.testing import CliRunner

from deployed import PlayedAgent, a_scheduler, jobs_of, running_jobs, submit, until
from rota.cli.main import cli, main
from rota.core.errors import ConfigError
from rota.core.lifecycle import JobPhase
from rota.deploy.scheduler import journal_layout
from rota.deploy.scheduler.archive import JobFilter
from rota.deploy.scheduler.journal import Journal
from rota.deploy.scheduler.journal_repair import check, repair
from rota.deploy.scheduler.options import Retention


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A journal with jobs that finished, failed, were cancelled, run, and wait; without snapshots."""
    path = tmp_path_factory.mktemp("journal") / "s.db"
    scheduler = a_scheduler(path, retention=Retention(keep_finished_jobs=2))
    scheduler.start()
    try:
        agents = [PlayedAgent(scheduler, "a"), PlayedAgent(scheduler, "b", kind="k80")]
        submit(scheduler, *({"steps": 100, "name": f"short {i}", "env": {"KEY": "v" * 50}} for i in range(6)))
        submit(scheduler, *({"steps": 10_000_000, "name": f"long {i}"} for i in range(3)), {"gpus": 4, "steps": 10**7})
        until(lambda: len(jobs_of(scheduler)) <= 6 and running_jobs(scheduler), scheduler, agents)
        begun = scheduler.round_start
        until(lambda: scheduler.round_start > begun + 400.0, scheduler, agents)
    finally:
        scheduler.stop()
    return path


@pytest.fixture
def path(whole, tmp_path):
    """A copy to damage."""
    shutil.copy(whole, tmp_path / "s.db")
    return tmp_path / "s.db"


def starts(path):
    """A scheduler starts on it, and its jobs are told."""
    scheduler = a_scheduler(path)
    scheduler.start()
    try:
        agents = [PlayedAgent(scheduler, "a"), PlayedAgent(scheduler, "b", kind="k80")]
        for agent in agents:
            agent.report(scheduler)
        begun = scheduler.round_start
        until(lambda: scheduler.round_start > begun + 120.0, scheduler, agents)
        (new,) = submit(scheduler, {"steps": 1})
        assert scheduler.failure is None
        return new, jobs_of(scheduler)
    finally:
        scheduler.stop()


def change(path, statement, *values):
    db = sqlite3.connect(path)
    db.execute(statement, values)
    db.commit()
    db.close()


def rows(path, query, *values):
    db = sqlite3.connect(path)
    found = db.execute(query, values).fetchall()
    db.close()
    return found


def number_of(path, kind, nth=0):
    return rows(path, "SELECT seq FROM events WHERE kind = ? ORDER BY seq", kind)[nth][0]


def flip(path, position, bit):
    content = bytearray(path.read_bytes())
    content[position] ^= 1 << bit
    path.write_bytes(content)


def test_a_whole_file_has_no_problem_and_is_left_alone(path):
    before = path.read_bytes()

    report = check(path)

    assert report.healthy, report.problems
    assert repair(path).healthy
    assert path.read_bytes() == before


def test_a_bit_in_the_middle_of_the_events_is_found_and_repaired(path):
    body = rows(path, "SELECT body FROM events WHERE kind = 'RoundsRan' ORDER BY seq LIMIT 1 OFFSET 3")[0][0]
    position = path.read_bytes().index(body.encode()) + body.index("seconds") + 12
    flip(path, position, 0)

    with pytest.raises(ConfigError, match=r"event \d+ is damaged .*rota journal check"):
        a_scheduler(path)
    found = check(path)
    assert not found.healthy
    assert [event["kind"] for event in found.bad_events] == ["RoundsRan"]
    report = repair(path)

    assert report.engine_reset
    assert report.failed_jobs == []
    assert check(path).healthy
    with sqlite3.connect(report.kept) as db:
        assert db.execute("SELECT count(*) FROM events").fetchone()[0] > 10
    assert starts(path)[0] == 10


def test_damage_behind_the_snapshots_loses_history_only(path):
    scheduler = a_scheduler(path)
    scheduler._recovery.save(scheduler._recovered, scheduler.clock.now())
    scheduler.journal.close()
    before = a_scheduler(path)
    before.journal.close()
    change(path, "UPDATE events SET body = 'nonsense' WHERE seq = 5")

    found = check(path)
    report = repair(path)

    assert not found.healthy
    assert (report.history_only, report.failed_jobs, report.engine_reset) == (1, [], False)
    again = a_scheduler(path)
    again.journal.close()
    assert again.registry == before.registry
    assert again._recovered.state.saved() == before._recovered.state.saved()


@pytest.mark.parametrize("kind", ["LeasesExtended", "NodeJoined", "ServiceStarted", "JobsArchived"])
def test_events_whose_loss_is_harmless_are_left_out_and_no_job_suffers(path, kind):
    running = {number for (number,) in rows(path, "SELECT seq FROM events WHERE kind = 'AttemptStarted'")}
    change(path, "UPDATE events SET crc = crc + 1 WHERE seq = ?", number_of(path, kind))

    report = repair(path)

    assert running
    assert (report.failed_jobs, report.engine_reset, len(report.bad_events)) == ([], False, 1)
    starts(path)


def test_a_job_whose_submission_is_lost_is_there_as_failed(path):
    change(path, "DELETE FROM events WHERE seq = ?", number_of(path, "JobAccepted", 7))

    report = repair(path)

    assert report.failed_jobs == [7]
    _, jobs = starts(path)
    assert jobs[7].phase is JobPhase.FAILED
    assert "journal was damaged" in jobs[7].reason
    assert {number for number, job in jobs.items() if not job.over} >= {6, 8}


def test_a_job_whose_start_is_lost_is_failed_and_the_others_go_on(path):
    number = number_of(path, "AttemptStarted", -1)
    job = json.loads(rows(path, "SELECT body FROM events WHERE seq = ?", number)[0][0])["job"]
    change(path, "UPDATE events SET crc = crc + 1 WHERE seq = ?", number)

    report = repair(path)

    assert report.failed_jobs == [job]
    _, jobs = starts(path)
    assert jobs[job].phase is JobPhase.FAILED
    assert sum(not each.over for each in jobs.values()) >= 3


def test_the_end_of_the_events_is_gone(path):
    (last,) = rows(path, "SELECT max(seq) FROM events")[0]
    change(path, "DELETE FROM events WHERE seq BETWEEN ? AND ?", last - 20, last - 1)

    report = repair(path)

    assert len(report.bad_events) == 20
    starts(path)


def test_snapshots_and_all_events_before_them_are_gone(path):
    scheduler = a_scheduler(path)
    for at in (1, 2):
        scheduler._recovery.save(scheduler._recovered, scheduler.clock.now())
        scheduler.journal.append([(0.0, "Audited", json.dumps({"event": "Audited", "at": 0.0, "who": "", "what": ""}))])
        assert at
    scheduler.journal.close()
    change(path, "DELETE FROM events WHERE seq <= 60")
    db = sqlite3.connect(path)
    journal_layout.write_meta(db, {journal_layout.REMOVED: "60"})
    db.commit()
    db.close()
    change(path, "UPDATE snapshots SET body = x'00'")

    with pytest.raises(ConfigError, match="no snapshot after them can be read"):
        a_scheduler(path)
    assert not check(path).healthy
    report = repair(path)

    assert report.engine_reset
    starts(path)


@pytest.mark.parametrize("seed", range(12))
def test_whatever_bit_is_wrong_it_is_found_if_it_matters_and_repaired(path, seed):
    draw = random.Random(seed)
    for _ in range(3):
        flip(path, draw.randrange(4096, path.stat().st_size), draw.randrange(8))

    try:
        a_scheduler(path).journal.close()
        can_start = True
    except ConfigError:
        can_start = False
    report = check(path)

    assert can_start or not report.healthy
    repair(path)
    assert check(path).healthy
    a_scheduler(path).journal.close()


def content_of(path):
    """Everything that somebody can be told from a file after a start."""
    scheduler = a_scheduler(path)
    try:
        registry = scheduler.registry
        return {
            "jobs": {number: repr(job) for number, job in registry.jobs.items()},
            "nodes": repr(registry.nodes),
            "numbers": (registry.next_job, registry.counts, registry.archived, scheduler.journal.id),
            "events": scheduler.journal.read(0, 10**6),
            "archive": [repr(job) for job in scheduler.archive.select(JobFilter())[0]],
            "of tenant": [job.id for job in scheduler.archive.select(JobFilter(tenant="default"))[0]],
        }
    finally:
        scheduler.journal.close()


@pytest.fixture(scope="module")
def with_snapshot(whole, tmp_path_factory):
    """The same with a snapshot in the middle, so that a start reads neither all events nor all finished jobs."""
    path = tmp_path_factory.mktemp("snapshot") / "s.db"
    shutil.copy(whole, path)
    scheduler = a_scheduler(path)
    scheduler._recovery.save(scheduler._recovered, scheduler.clock.now())
    row = (0.0, "Audited", json.dumps({"event": "Audited", "at": 0.0, "who": "x", "what": "y"}))
    scheduler.journal.append([row])
    scheduler._recovery.save(scheduler._recovered, scheduler.clock.now())
    scheduler.journal.close()
    return path, content_of(path)


@pytest.mark.parametrize("part", range(4))
def test_no_single_bit_changes_what_is_told_without_being_named_at_the_start(with_snapshot, tmp_path, caplog, part):
    source, before = with_snapshot
    draw = random.Random(part)
    told = []
    for _ in range(15):
        path = tmp_path / "s.db"
        shutil.copy(source, path)
        position = draw.randrange(path.stat().st_size)
        flip(path, position, draw.randrange(8))
        caplog.clear()
        try:
            after = content_of(path)
        except ConfigError:
            told.append(position)
            continue
        if any("is damaged and left out" in record.getMessage() for record in caplog.records):
            assert not check(path).healthy
            told.append(position)
        else:
            assert after == before, f"byte {position}"

    assert told, "some of them matter"


@pytest.mark.parametrize("seed", range(6))
def test_a_page_of_noise_is_found_and_repaired(path, seed):
    draw = random.Random(seed)
    content = bytearray(path.read_bytes())
    page = draw.randrange(1, len(content) // 4096)
    content[page * 4096 : (page + 1) * 4096] = draw.randbytes(4096)
    path.write_bytes(content)

    repair(path)

    assert check(path).healthy
    a_scheduler(path).journal.close()


def test_a_file_in_use_is_checked_and_not_repaired(path):
    scheduler = a_scheduler(path)
    try:
        assert check(path).healthy
        with pytest.raises(ConfigError, match="another scheduler"):
            repair(path)
    finally:
        scheduler.journal.close()


def test_exit_codes_and_json(path, capsys):
    assert main(["journal", "check", str(path)]) == 0
    assert "no problem found" in capsys.readouterr().out
    change(path, "UPDATE events SET crc = crc + 1 WHERE seq = 9")

    assert main(["journal", "check", str(path), "--json"]) == 1
    told = json.loads(capsys.readouterr().out)
    assert (told["healthy"], told["bad_events"][0]["number"]) == (False, 9)
    assert main(["journal", "repair", str(path)]) == 0
    said = capsys.readouterr().out
    assert f"The damaged file is {path}.damaged-1" in said
    assert main(["journal", "check", str(path)]) == 0
    assert main(["journal", "check", str(path.parent / "nowhere.db")]) == 2
    (path.parent / "diary").write_text("dear diary")
    assert main(["journal", "repair", str(path.parent / "diary")]) == 2
    assert (path.parent / "diary").read_text() == "dear diary"
    assert CliRunner().invoke(cli, ["journal", "--help"]).exit_code == 0


def test_a_file_of_a_later_version_is_not_touched(path, capsys):
    change(path, "PRAGMA user_version = 4")
    before = path.read_bytes()

    assert main(["journal", "repair", str(path)]) == 2
    assert "Start the version that wrote it" in capsys.readouterr().err
    assert path.read_bytes() == before


def test_the_events_of_a_repair_can_be_read_on(path):
    change(path, "UPDATE events SET crc = crc + 1 WHERE seq = ?", number_of(path, "JobAccepted", 3))
    repair(path)

    journal = Journal(path)
    kinds = [json.loads(body)["event"] for _, body in journal.read(0, 10_000)]
    journal.close()

    assert kinds[-1] == "Audited"
