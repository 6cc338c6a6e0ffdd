"""What a scheduler keeps beside its journal comes to its standby: in any order, from anywhere on, within bounds."""

import asyncio
import contextlib
import datetime as dt
import json
import sqlite3

import pytest

from rota.core.errors import ConfigError
from rota.deploy.notifications.positions import positions_file
from rota.deploy.scheduler.log_archive import LogArchive, Piece
from rota.deploy.scheduler.options import LogLimits, Options
from rota.deploy.scheduler.secrets import SecretStore, secrets_file
from rota.deploy.security.joining import UsedTicket, UsedTickets
from rota.deploy.security.places import revoked_file, tokens_file
from rota.deploy.security.revocations import Revocations
from rota.deploy.security.sealing import Seal
from rota.deploy.security.subjects import Role, Subject
from rota.deploy.security.tokens import TokenFile
from rota.deploy.server import replication_files
from rota.deploy.server.replica_files import ReplicaFiles
from rota.deploy.server.replication_files import FileReplication
from rota.deploy.server.side_files import SideFiles
from rota.deploy.worker.frames import Segment

KEY = bytes(32)
NOW = dt.datetime(2026, 1, 1, tzinfo=dt.timezone.utc)


class Machine:
    """The places of one scheduler."""

    def __init__(self, folder):
        self.certs = folder / "certs"
        self.certs.mkdir(parents=True)
        limits = LogLimits(least_free_bytes=0)
        self.options = Options(state=str(folder / "state.db"), log_limits=limits)
        self.logs = LogArchive(self.options.logs_folder, limits)
        self.logs.open()
        self.tokens = TokenFile(tokens_file(self.certs))
        self.revoked = Revocations(revoked_file(self.certs))

    def put(self, job, text, *, epoch=1, rank=0, segment=0, before=0, offset=0, end=False, tenant="vision"):
        place = (job, epoch, rank)
        piece = Piece(rank=place, segment=Segment(segment, before), offset=offset, data=text, end=end)
        return self.logs.store(piece, tenant)

    def output(self, job, epoch=1, rank=0):
        place = (job, epoch, rank)
        return b"".join(self.logs.read(place, segment, 0, 10**7) for segment in self.logs.segments(place))


class Line:
    """From a standby to the scheduler in charge, without a network."""

    def __init__(self, first, second):
        self.first = first
        self.second = second
        self.restart()
        self.standby = ReplicaFiles(second.options, second.certs, Seal(KEY))
        self.questions = 0

    def restart(self):
        """The scheduler in charge comes up again."""
        self.first.logs = LogArchive(self.first.options.logs_folder, LogLimits(least_free_bytes=0))
        self.first.logs.open()
        side = SideFiles(self.first.logs.folder.with_name("state.db"), self.first.certs)
        self.in_charge = FileReplication(self.first.logs, self.first.logs.changes, side, Seal(KEY))

    async def ReplicateFiles(self, request, **_):
        self.questions += 1
        return await self.in_charge.reply(request)

    def settle(self):
        """Ask until nothing is new."""

        async def ask():
            while await self.standby._ask(self) != replication_files.IDLE_S:
                pass

        asyncio.run(ask())


@pytest.fixture
def pair(tmp_path):
    return Line(Machine(tmp_path / "first"), Machine(tmp_path / "second"))


def test_output_of_before_and_of_now_comes_and_nothing_twice(pair):
    first, second = pair.first, pair.second
    first.put(1, b"of before\n", end=True)
    first.put(2, b"a")
    pair.restart()
    pair.settle()
    first.put(2, b"b" * 400_000, offset=1)
    first.put(2, b"c", segment=1, before=7, epoch=1)
    first.put(2, b"other rank", rank=1, end=True, tenant="speech")
    pair.settle()
    asked = pair.questions
    pair.settle()

    assert [second.output(1), second.output(2)] == [b"of before\n", b"a" + b"b" * 400_000 + b"c"]
    assert second.output(2, rank=1) == b"other rank"
    assert second.logs.complete((1, 1, 0))
    assert not second.logs.complete((2, 1, 0))
    assert second.logs.tenant(1) == "vision"
    assert pair.questions == asked + 1
    assert oct((second.logs.place((1, 1, 0)) / "000000-0").stat().st_mode)[-3:] == "600"


def test_a_standby_goes_on_where_its_disk_is_when_either_comes_up_again(pair):
    first, second = pair.first, pair.second
    first.put(1, b"x" * 300_000)
    pair.settle()
    first.put(1, b"y" * 300_000, offset=300_000, end=True)
    pair.standby = ReplicaFiles(second.options, second.certs, Seal(KEY))
    pair.settle()
    pair.restart()
    first.put(2, b"z")
    pair.settle()

    assert second.output(1) == b"x" * 300_000 + b"y" * 300_000
    assert second.logs.complete((1, 1, 0))
    assert second.output(2) == b"z"


def test_output_that_the_scheduler_in_charge_dropped_is_not_waited_for(pair):
    first, second = pair.first, pair.second
    first.put(1, b"one", segment=0)
    pair.settle()
    first.put(1, b"two", segment=1, before=3)
    first.put(1, b"three", segment=2, before=6)
    (first.logs.place((1, 1, 0)) / "000001-3").unlink()
    first.put(2, b"gone")
    first.logs._remove(2)
    pair.settle()

    assert second.output(1) == b"onethree"
    assert second.output(2) == b""


def test_tokens_come_and_what_was_revoked_on_either_side_stays_so(pair):
    first, second = pair.first, pair.second
    (kept, text), (ended, gone), (mine, shut) = (first.tokens.add("lab") for _ in range(3))
    pair.settle()
    assert second.tokens.verify(text).tenant == "lab"

    second.tokens.revoke(mine)
    first.tokens.revoke(ended)
    pair.settle()

    assert second.tokens.verify(text).id == kept
    assert second.tokens.verify(gone) is None
    assert second.tokens.verify(shut) is None
    assert oct(tokens_file(second.certs).stat().st_mode)[-3:] == "600"


def test_revocations_and_used_tickets_of_both_count_together(pair):
    first, second = pair.first, pair.second
    ticket = UsedTicket(node="n7", key="abc", until=4e9)
    with UsedTickets(first.certs).changing() as used:
        used["17"] = ticket
    first.revoked.revoke(Role.AGENT, "n1", NOW)
    second.revoked.revoke(Role.AGENT, "n2", NOW)
    pair.settle()

    assert set(second.revoked.read()) == {"agent/n1", "agent/n2"}
    assert second.revoked.made_after(Subject(Role.AGENT, "n1")) == NOW
    with UsedTickets(second.certs).changing() as used:
        assert used == {"17": ticket}


def test_values_of_jobs_that_are_over_leave_the_standby_too(pair):
    first, second = (secrets_file(machine.options.state) for machine in (pair.first, pair.second))
    store = SecretStore(first)
    names = store.put({1: {"KEY": "for ever"}, 2: {"KEY": "short"}})
    with contextlib.closing(sqlite3.connect(first)) as db:
        rows = db.execute("SELECT * FROM environments").fetchall()
    copy = SecretStore(second)
    copy._write("INSERT INTO environments VALUES (?, ?, ?)", rows)
    store._write("DELETE FROM environments WHERE name = ?", [(names[2],)])
    pair.settle()
    store.close()
    copy.close()

    with contextlib.closing(sqlite3.connect(second)) as db:
        assert db.execute("SELECT name, job FROM environments").fetchall() == [(names[1], 1)]


def test_what_was_notified_comes_whole(pair):
    positions = json.dumps({"journal": "j", "targets": {"ops": 17}})
    positions_file(pair.first.logs.folder.with_name("state.db")).write_text(positions)
    pair.settle()

    assert positions_file(pair.second.logs.folder.with_name("state.db")).read_text() == positions


def test_a_file_that_is_no_file_of_tokens_changes_nothing_and_holds_up_nothing(pair, caplog):
    first, second = pair.first, pair.second
    _, text = first.tokens.add("lab")
    pair.settle()
    tokens_file(first.certs).write_text("{")
    first.put(1, b"output")
    pair.settle()

    assert second.tokens.verify(text).tenant == "lab"
    assert second.output(1) == b"output"
    assert "tokens.json of the scheduler in charge is not kept" in caplog.text


def test_whoever_has_not_the_key_of_the_scheduler_reads_no_tokens(pair):
    pair.first.tokens.add("lab")
    pair.standby = ReplicaFiles(pair.second.options, pair.second.certs, Seal(bytes(31) + b"x"))

    with pytest.raises(ConfigError, match="needs the scheduler's own key"):
        pair.settle()
    assert not tokens_file(pair.second.certs).exists()
