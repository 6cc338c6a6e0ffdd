"""The state file: nothing committed is ever lost, and nothing foreign is taken for ours."""

import contextlib
import json
import os
import signal
import sqlite3
import subprocess
import sys

import pytest

from rota.core.errors import ConfigError, OutputError
from rota.deploy.scheduler.journal import Journal


def rows(*kinds):
    return [(float(i), kind, json.dumps({"event": kind, "at": float(i)})) for i, kind in enumerate(kinds)]


def test_events_come_back_in_order(tmp_path):
    journal = Journal(tmp_path / "s.db")
    assert journal.append(rows("a", "b")) == 2
    assert journal.append(rows("c")) == 3
    journal.close()

    again = Journal(tmp_path / "s.db")

    assert [fields["event"] for _, fields in again.events()] == ["a", "b", "c"]
    assert [number for number, _ in again.events(1)] == [2, 3]
    assert again.read(0, 2) == [(1, '{"event": "a", "at": 0.0}'), (2, '{"event": "b", "at": 1.0}')]
    again.close()


def test_the_file_is_for_its_owner_only(tmp_path):
    Journal(tmp_path / "s.db").close()

    assert (tmp_path / "s.db").stat().st_mode & 0o077 == 0


def test_a_second_scheduler_is_refused_and_the_first_is_named(tmp_path):
    first = Journal(tmp_path / "s.db")

    with pytest.raises(ConfigError, match=f"another scheduler \\(process {os.getpid()}\\)"):
        Journal(tmp_path / "s.db")

    first.close()
    Journal(tmp_path / "s.db").close()


def test_a_second_scheduler_is_refused_under_another_name_of_the_file(tmp_path):
    """In another process, as schedulers are."""
    first = Journal(tmp_path / "s.db")
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "soft.db").symlink_to(tmp_path / "s.db")
    os.link(tmp_path / "s.db", tmp_path / "elsewhere" / "hard.db")

    said = {name: _opened_elsewhere(tmp_path / "elsewhere" / name) for name in ("soft.db", "hard.db")}

    assert f"another scheduler (process {os.getpid()})" in said["soft.db"]
    assert "another name of the same file" in said["hard.db"]
    first.append([(0.0, "a", "{}")])
    first.close()
    assert _opened_elsewhere(tmp_path / "elsewhere" / "hard.db") == "1"


def _opened_elsewhere(path):
    """Number of the last event as another process finds it, or why it is refused."""
    code = (
        "import sys\nfrom rota.core.errors import ConfigError\nfrom rota.deploy.scheduler.journal import Journal\n"
        "try:\n    print(Journal(sys.argv[1]).last)\nexcept ConfigError as error:\n    print(error)"
    )
    done = subprocess.run([sys.executable, "-c", code, str(path)], capture_output=True, text=True, check=True)
    return done.stdout.strip()


def test_a_write_that_meets_another_writer_says_so(tmp_path):
    journal = Journal(tmp_path / "s.db")
    with contextlib.closing(sqlite3.connect(tmp_path / "s.db")) as other:
        other.execute("INSERT INTO events VALUES (1, 0.0, 'a', '{}', NULL)")
        other.commit()

    with pytest.raises(OutputError, match=r"UNIQUE.*another process writes to the same file") as problem:
        journal.append([(0.0, "a", "{}")])

    assert "free space" not in str(problem.value)
    journal.close()


def test_a_file_that_is_no_database_is_refused(tmp_path):
    (tmp_path / "s.db").write_text("this is a diary")

    with pytest.raises(ConfigError, match="not a state file of Rota"):
        Journal(tmp_path / "s.db")

    assert (tmp_path / "s.db").read_text() == "this is a diary"


def test_a_foreign_database_is_refused_and_left_alone(tmp_path):
    foreign = sqlite3.connect(tmp_path / "s.db")
    foreign.execute("CREATE TABLE songs (name)")
    foreign.commit()
    foreign.close()
    before = (tmp_path / "s.db").read_bytes()

    with pytest.raises(ConfigError, match="not a state file of Rota"):
        Journal(tmp_path / "s.db")

    assert (tmp_path / "s.db").read_bytes() == before


def test_a_damaged_file_is_refused(tmp_path):
    journal = Journal(tmp_path / "s.db")
    for _ in range(50):
        journal.append(rows(*"abcdefgh"))
    journal.close()
    content = bytearray((tmp_path / "s.db").read_bytes())
    content[4096:12288] = os.urandom(8192)
    (tmp_path / "s.db").write_bytes(content)

    with pytest.raises(ConfigError, match="damaged"):
        Journal(tmp_path / "s.db")


def test_a_folder_that_is_not_there_is_named(tmp_path):
    with pytest.raises(ConfigError, match="nowhere"):
        Journal(tmp_path / "nowhere" / "s.db")


WRITER = """
import sys
from rota.deploy.scheduler.journal import Journal
journal = Journal(sys.argv[1])
for number in range(100000):
    journal.append([(0.0, "a", '{"event": "a", "at": 0.0, "number": %d}' % number)])
    print(number, flush=True)
"""


def test_what_was_committed_survives_kill_9(tmp_path):
    for _ in range(3):
        process = subprocess.Popen([sys.executable, "-c", WRITER, tmp_path / "s.db"], stdout=subprocess.PIPE, text=True)
        told = [int(process.stdout.readline()) for _ in range(20)]
        process.send_signal(signal.SIGKILL)
        rest = process.stdout.read().split()
        process.wait()
        process.stdout.close()
        last = int(rest[-1]) if rest else told[-1]

        journal = Journal(tmp_path / "s.db")
        found = [fields["number"] for _, fields in journal.events()]
        journal.close()

        begun = len(found) - 1 - found[::-1].index(0)
        assert found[begun:][: last + 1] == list(range(last + 1))


def test_a_full_disk_is_one_clear_message_and_nothing_is_half_written(tmp_path):
    journal = Journal(tmp_path / "s.db")
    journal.append(rows("a"))
    journal._db.execute("PRAGMA max_page_count = 6")  # as far as SQLite can tell, the disk ends here

    with pytest.raises(OutputError, match="Nothing was lost"):
        journal.append([(0.0, "big", json.dumps({"event": "big", "at": 0.0, "text": "x" * 4000}))] * 20)

    assert [fields["event"] for _, fields in journal.events()] == ["a"]
    journal.close()


def test_the_last_two_snapshots_stay(tmp_path):
    journal = Journal(tmp_path / "s.db")
    for text in (b"one", b"two", b"three"):
        journal.append(rows("a", "b"))
        journal.save_snapshot(1, text)

    assert [(stored.number, stored.body) for stored in journal.snapshots()] == [(6, b"three"), (4, b"two")]
    journal.close()


def test_a_snapshot_with_a_wrong_bit_is_none(tmp_path):
    journal = Journal(tmp_path / "s.db")
    for text in (b"one", b"two"):
        journal.append(rows("a"))
        journal.save_snapshot(1, text)
    journal._db.execute("UPDATE snapshots SET body = ? WHERE seq = 2", (b"twp",))

    assert [stored.body for stored in journal.snapshots()] == [b"one"]
    journal.close()


def test_an_event_with_a_wrong_bit_is_named(tmp_path):
    journal = Journal(tmp_path / "s.db")
    journal.append(rows("a", "b", "c"))
    journal._db.execute("UPDATE events SET body = replace(body, '1.0', '1.1') WHERE seq = 2")

    with pytest.raises(ConfigError, match=r"event 2 is damaged .*rota journal check .*rota journal repair"):
        list(journal.events())
    journal.close()


def test_an_event_that_is_missing_is_named(tmp_path):
    journal = Journal(tmp_path / "s.db")
    journal.append(rows("a", "b", "c"))
    journal._db.execute("DELETE FROM events WHERE seq = 2")

    with pytest.raises(ConfigError, match=r"event 2 is damaged \(it is missing\)"):
        list(journal.events())
    journal.close()


def test_events_of_a_later_format_are_refused_with_what_to_do(tmp_path):
    journal = Journal(tmp_path / "s.db")
    journal._db.execute("UPDATE meta SET value = '2' WHERE name = 'event_format'")
    journal.close()

    with pytest.raises(ConfigError, match=r"events of format 2; .* Start the version that wrote it"):
        Journal(tmp_path / "s.db")


def test_a_file_keeps_its_id(tmp_path):
    ids = []
    for name in ("a.db", "a.db", "b.db"):
        journal = Journal(tmp_path / name)
        ids.append(journal.id)
        journal.close()

    assert ids[0] == ids[1] != ids[2]
