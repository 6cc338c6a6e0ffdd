"""A journal that the version before the typed job specifications wrote is read, and says the same about every job.

`tests/data/journal_layout_1.jsonl` has the events of a real one: preemptions, a gang with a dead rank, a hanging job,
one that fails for good, a drained server, a lost one, an agent with a new folder, cancelled jobs.
`journal_layout_2` is one of the layout after it: jobs that left memory are rows of a table, without checksums.
"""

import json
import math
import shutil
import sqlite3
from pathlib import Path

import pytest

from deployed import PlayedAgent, a_scheduler, ask, jobs_of, look, submit, until
from rota.cli.main import main
from rota.core.errors import ConfigError
from rota.core.job_spec import spec_values
from rota.core.lifecycle import JobPhase, StopReason
from rota.deploy.events import AttemptStopping, from_fields
from rota.deploy.scheduler.archive import JobFilter
from rota.deploy.scheduler.old_journals import translated
from rota.deploy.scheduler.options import Retention, Timing

DATA = Path(__file__).parents[2] / "data"
BEFORE = json.loads((DATA / "journal_layout_1.jobs.json").read_text())
SAME_NAMES = (
    "id", "submitted", "by", "admitted", "epoch", "checkpoint", "restarts", "losses", "preemptions", "started",
    "ended", "exit_code", "reason", "wait_until", "parked",
)  # fmt: skip
NEW_NAMES = {"saved_step": "credited", "reported_steps": "told", "log_node": "home"}


def a_journal(path, layout, *statements):
    """A file of an old layout, with the events of one."""
    db = sqlite3.connect(path)
    db.execute(f"PRAGMA application_id = {0x524F5441}")
    db.execute(f"PRAGMA user_version = {layout}")
    db.execute(
        "CREATE TABLE events (seq INTEGER PRIMARY KEY, at REAL NOT NULL, kind TEXT NOT NULL, body TEXT NOT NULL)"
    )
    db.execute("CREATE TABLE snapshots (seq INTEGER PRIMARY KEY, version TEXT NOT NULL, body BLOB NOT NULL)")
    for number, line in enumerate((DATA / f"journal_layout_{layout}.jsonl").read_text().splitlines(), 1):
        event = json.loads(line)
        db.execute("INSERT INTO events VALUES (?, ?, ?, ?)", (number, event["at"], event["event"], line))
    for statement, values in statements:
        db.execute(statement, values)
    db.commit()
    db.close()
    return path


@pytest.fixture
def old(tmp_path):
    """The journal as a file, as the old version made it."""
    return a_journal(tmp_path / "old.db", 1)


def a_registry(path):
    scheduler = a_scheduler(path)
    scheduler.journal.close()
    return scheduler.registry


def test_every_job_is_what_it_was(old):
    registry = a_registry(old)

    assert list(registry.jobs) == [before["id"] for before in BEFORE["jobs"]]
    for before in BEFORE["jobs"]:
        job = registry.jobs[before["id"]]
        assert {name: getattr(job, name) for name in SAME_NAMES} == {name: before[name] for name in SAME_NAMES}
        assert {new: getattr(job, new) for new in NEW_NAMES} == {new: before[name] for new, name in NEW_NAMES.items()}
        assert job.phase.value == before["phase"]
        assert (job.final_phase.value if job.final_phase else "") == before["verdict"]


def test_specifications_are_what_they_were(old):
    registry = a_registry(old)

    for before in BEFORE["jobs"]:
        spec, values = before["spec"], spec_values(registry.jobs[before["id"]].spec)
        assert registry.jobs[before["id"]].spec.expected_steps == spec["steps"]
        assert ("steps" in values) == spec["counted"]
        for name, value in spec.items():
            if name not in ("counted", "steps") and value:
                assert values[name] == value


def test_attempts_nodes_and_requests_are_what_they_were(old):
    registry = a_registry(old)

    for before in BEFORE["jobs"]:
        attempt, was = registry.jobs[before["id"]].attempt, before["attempt"]
        assert (attempt is None) == (was is None)
        if attempt is not None:
            assert [(p.node, list(p.devices)) for p in attempt.parts] == [
                (p["node"], p["devices"]) for p in was["parts"]
            ]
            assert (attempt.epoch, attempt.lease_until, attempt.rate) == (was["epoch"], was["lease_until"], was["rate"])
    assert {n: [x.lost, x.drained, x.joined.identity] for n, x in registry.nodes.items()} == BEFORE["nodes"]
    assert registry.requests == BEFORE["requests"]
    assert {phase.value: count for phase, count in registry.counts.items()} == BEFORE["counts"]
    assert registry.next_job == BEFORE["next_job"]


def test_the_file_goes_on_in_the_new_layout_and_is_read_again(old, tmp_path):
    first = a_registry(old)
    (layout,) = sqlite3.connect(old).execute("PRAGMA user_version").fetchone()
    shutil.copy(old, tmp_path / "again.db")

    assert layout == 3
    assert a_registry(tmp_path / "again.db") == first


def test_a_journal_of_a_later_version_is_refused_with_what_to_do(old):
    db = sqlite3.connect(old)
    db.execute("PRAGMA user_version = 4")
    db.close()

    with pytest.raises(ConfigError, match=r"has layout 4; .* Start the version that wrote it"):
        a_scheduler(old)


def test_a_scheduler_goes_on_with_the_jobs_of_an_old_journal(old):
    timing = Timing(heartbeat_s=0.1, dead_after_s=0.2, lease_s=1.0)
    scheduler = a_scheduler(old, retention=Retention(keep_finished_s=math.inf), timing=timing)  # its jobs are long over
    before = {number: job.saved_step for number, job in scheduler.registry.jobs.items()}
    scheduler.start()
    try:
        until(lambda: all(look(scheduler, lambda registry: [n.lost for n in registry.nodes.values()])), scheduler)
        agents = [PlayedAgent(scheduler, "a"), PlayedAgent(scheduler, "b")]
        until(lambda: jobs_of(scheduler)[12].over and jobs_of(scheduler)[13].epoch > 3, scheduler, agents)
        assert jobs_of(scheduler)[13].attempt.resume_step == before[13]
        ask(scheduler, lambda now: scheduler.requests.cancel([13], "me", None, now))
        until(lambda: not look(scheduler, lambda registry: len(registry.live)), scheduler, agents)
        phases = {number: job.phase for number, job in jobs_of(scheduler).items()}
    finally:
        scheduler.stop()

    assert (phases[12], phases[13], phases[0]) == (JobPhase.FINISHED, JobPhase.CANCELLED, JobPhase.FAILED)


def test_a_scheduler_goes_on_with_a_journal_of_the_second_layout_and_knows_who_left_its_memory(tmp_path):
    table = (
        "CREATE TABLE finished_jobs (job INTEGER PRIMARY KEY, tenant TEXT NOT NULL, phase TEXT NOT NULL, "
        "request TEXT NOT NULL, body TEXT NOT NULL)"
    )
    rows = json.loads((DATA / "journal_layout_2.jobs.json").read_text())["finished_jobs"]
    inserts = [("INSERT INTO finished_jobs VALUES (?, ?, ?, ?, ?)", row) for row in rows]
    path = a_journal(tmp_path / "second.db", 2, (table, ()), *inserts)
    scheduler = a_scheduler(path, retention=Retention(keep_finished_s=math.inf))
    before = {number: (job.phase.value, job.saved_step) for number, job in scheduler.registry.jobs.items()}
    scheduler.start()
    try:
        said_again = submit(scheduler, *[{"gpus": 1 + number % 2} for number in range(4)], request="r1")
        (archived,) = scheduler.archive.select(JobFilter(), 10)[0]
        agents = [PlayedAgent(scheduler, "n0", gpus=2), PlayedAgent(scheduler, "n1", "k80", gpus=2)]
        until(lambda: jobs_of(scheduler)[3].over, scheduler, agents)
        ask(scheduler, lambda now: scheduler.requests.cancel([4], "me", None, now))
        until(lambda: not look(scheduler, lambda registry: len(registry.live)), scheduler, agents)
        steps = jobs_of(scheduler)[3].saved_step
    finally:
        scheduler.stop()

    finished = {1: ("finished", 2500), 2: ("finished", 3000), 5: ("cancelled", 0)}
    assert {number: was for number, was in before.items() if number in finished} == finished
    assert (archived.id, archived.phase, archived.saved_step) == (0, JobPhase.FINISHED, 2000)
    assert list(said_again) == [0, 1, 2, 3]
    assert steps == 3500
    assert main(["journal", "check", str(path)]) == 0


@pytest.mark.parametrize(
    ("sentence", "reason", "detail"),
    [
        ("preempted", StopReason.PREEMPTED, ""),
        ("moved", StopReason.MOVED, ""),
        ("cancelled", StopReason.CANCELLED, ""),
        ("failed", StopReason.GIVEN_UP, "failed"),
        ("hung: no step for 60 s", StopReason.HUNG, "no step for 60 s"),
        ("a rank ended: stopped", StopReason.RANK_STOPPED, "a rank ended: stopped"),
        ("a rank ended: out-of-memory", StopReason.RANK_FAILED, "a rank ended: out-of-memory"),
    ],
)
def test_sentences_become_reasons(sentence, reason, detail):
    fields = {"event": "AttemptStopping", "at": 1.0, "job": 2, "epoch": 3, "reason": sentence}

    event = from_fields(translated(fields))

    assert event == AttemptStopping(at=1.0, job=2, epoch=3, reason=reason, detail=detail)


def test_a_job_that_would_be_refused_today_is_still_there():
    spec = {
        "gpus": 1,
        "steps": 3600,
        "counted": False,
        "argv": ["train"],
        "env": {},
        "weight": float("nan"),
        "cpus": -1.0,
    }
    fields = {"event": "JobAccepted", "at": 0.0, "job": 0, "spec": spec, "by": "me", "request": ""}

    accepted = from_fields(translated(fields))

    assert (accepted.spec.argv, accepted.spec.weight, accepted.spec.cpus) == (("train",), 1.0, 0.0)


def test_an_outcome_of_a_word_that_nobody_knows_is_a_failure_that_says_it():
    fields = {"event": "AttemptEnded", "at": 0.0, "job": 0, "epoch": 1, "outcome": "melted", "detail": "too hot"}

    ended = from_fields(translated(fields))

    assert (ended.outcome.value, ended.detail) == ("failed", "melted: too hot")


def test_phases_have_the_names_they_had():
    assert {phase.value for phase in JobPhase} == {
        "queued", "waiting", "running", "stopping", "finished", "failed", "cancelled",
    }  # fmt: skip
