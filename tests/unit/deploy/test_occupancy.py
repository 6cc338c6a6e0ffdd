"""Who held which GPUs when: changes from a journal, and the rounds that a gateway makes of them."""

import json
import random

import pytest
from questions_harness import AN_AGE, PROFILE, AskedHarness, a_busy_scheduler

from rota.dashboard.past_rounds import PastRounds
from rota.dashboard.picture import IDLE, OTHERS
from rota.deploy.questions import occupancy
from rota.deploy.questions.occupancy import OccupancyLog
from rota.deploy.scheduler.journal import Journal

WORDS = ("rivals", "their-name")


class Journalled:
    """A harness whose events are in a real state file, and what a question would be answered."""

    def __init__(self, harness, path):
        self.harness, self.path, self.written = harness, path, 0
        self.log = OccupancyLog(path)
        self.asked = 0

    def write(self):
        rows = self.harness.journal.rows[self.written :]
        self.written += len(rows)
        journal = Journal(self.path)
        try:
            return journal.append([(row["at"], row["event"], json.dumps(row)) for row in rows])
        finally:
            journal.close()

    def occupancy(self, after, tenant=None):
        self.asked += 1
        self.log.read_on(self.write(), self.harness.registry)
        told = json.loads(json.dumps(self.log.told(after, tenant)))
        now = self.harness.clock.now()
        return {**told, "from_s": 0.0, "to_s": now, "round_s": 60.0, "time_scale": 1.0}

    def as_seen_by(self, tenant):
        class Asked:
            occupancy = staticmethod(lambda after: self.occupancy(after, tenant))

        return Asked()


def held_now(harness):
    """(server, device) to job, as the registry has it."""
    found = {}
    for job in harness.registry.running.values():
        for part in job.attempt.parts:
            found |= dict.fromkeys(((part.node, device) for device in part.devices), job.id)
    return found


def shown(answer):
    """GPUs by server as a round shows them."""
    return {name: values[3] for name, values in answer["nodes"].items()}


@pytest.mark.parametrize("seed", range(30, 36))
def test_the_last_round_is_what_the_registry_has(seed, tmp_path):
    harness = a_busy_scheduler(seed, "las")
    past = PastRounds(Journalled(harness, tmp_path / "state.db").as_seen_by(None))
    past.read_on()

    now = past.at(harness.clock.now())

    held = {(name, cell[0]) for name, cells in shown(now).items() for cell in cells if isinstance(cell, list)}
    assert held == {(node, job) for (node, _), job in held_now(harness).items()}
    live = {job.id for job in harness.registry.live.values() if not job.ending}
    assert now["running"] == len(harness.registry.running)
    assert now["waiting"] == len(live - set(harness.registry.running))


def test_every_round_of_the_past_is_as_it_was_then(tmp_path, monkeypatch):
    monkeypatch.setattr(occupancy, "_ROWS_AT_ONCE", 3)
    monkeypatch.setattr("rota.dashboard.past_rounds._EVERY", 4)
    draw = random.Random(5)
    harness = AskedHarness(policy="las")
    harness.join("n0", gpus=2, kind="v100")
    harness.join("n1", gpus=2, kind="k80")
    journalled = Journalled(harness, tmp_path / "state.db")
    past = PastRounds(journalled.as_seen_by(None))
    seen = []
    for number in range(25):
        if draw.random() < 0.5:
            steps = draw.choice([200, AN_AGE])
            harness.submit(profile=PROFILE, steps=steps, gpus=draw.choice([1, 2]), tenant=draw.choice("ab"))
        harness.round()
        seen.append((harness.clock.now(), {(node, job) for (node, _), job in held_now(harness).items()}))
        if number % 4 == 0:
            past.read_on()
    past.read_on()

    for at, held in seen:
        cells = shown(past.at(at))
        assert {(name, cell[0]) for name in cells for cell in cells[name] if isinstance(cell, list)} == held
    assert len({frozenset(held) for _, held in seen}) > 3
    assert journalled.asked > 10


def a_shared_cluster(tmp_path):
    harness = AskedHarness(policy="fifo")
    harness.join("n0", gpus=4, kind="v100")
    harness.round()
    for tenant, name in (("mine", "my-name"), ("rivals", "their-name")):
        harness.submit(profile=PROFILE, steps=AN_AGE, gpus=2, tenant=tenant, name=name)
        harness.submit(profile=PROFILE, steps=AN_AGE, gpus=2, tenant=tenant, name=name)
    for _ in range(3):
        harness.round()
    return harness, Journalled(harness, tmp_path / "state.db")


def test_a_tenant_is_told_its_own_jobs_and_of_others_how_many_gpus_they_hold(tmp_path):
    harness, journalled = a_shared_cluster(tmp_path)
    answer = journalled.occupancy(0, "mine")
    past = PastRounds(journalled.as_seen_by("mine"))
    past.read_on()
    now = past.at(harness.clock.now())

    assert not any(word in json.dumps([answer, now]) for word in WORDS)
    foreign = {job.id for job in harness.registry.jobs.values() if job.tenant == "rivals"}
    told = {change[2] for change in answer["changes"] if change[1] in {"submit", "start", "end", "over"}}
    assert told
    assert not told & foreign
    everything = journalled.occupancy(0)
    held_by_others = sum(
        len(cells) - cells.count(IDLE) - sum(1 for cell in cells if isinstance(cell, list))
        for cells in shown(now).values()
    )
    theirs = [job for job in held_now(harness).values() if job in foreign]
    assert held_by_others == len(theirs)
    assert sum(cells.count(OTHERS) for cells in shown(now).values()) == len(theirs)
    assert WORDS[1] in json.dumps(everything)


def test_what_still_holds_is_known_after_the_oldest_changes_went(tmp_path, monkeypatch):
    harness, journalled = a_shared_cluster(tmp_path)
    journalled.occupancy(0)
    before = PastRounds(journalled.as_seen_by(None))
    before.read_on()
    monkeypatch.setattr(occupancy, "_MOST_CHANGES", 2)

    journalled.log._forget_oldest()

    after = PastRounds(journalled.as_seen_by(None))
    after.read_on()
    now = harness.clock.now()
    assert shown(after.at(now)) == shown(before.at(now))
    assert after.at(now)["waiting"] == before.at(now)["waiting"]


def test_a_journal_without_its_first_events_shows_what_runs_now(tmp_path):
    harness, journalled = a_shared_cluster(tmp_path)
    cut = next(i for i, row in enumerate(harness.journal.rows) if row["event"] == "AttemptStarted") + 1
    journalled.written = cut
    past = PastRounds(journalled.as_seen_by(None))
    past.read_on()

    held = {cell[0] for cells in shown(past.at(harness.clock.now())).values() for cell in cells if cell != IDLE}

    assert held == set(held_now(harness).values())
