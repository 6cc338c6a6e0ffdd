"""Output that the scheduler keeps: pieces in any order, bounds that hold, and what is said to be missing."""

import os
import shutil

import pytest

from rota.core.errors import OutputError
from rota.deploy.agent.log_spool import LogSpool
from rota.deploy.scheduler.log_archive import LogArchive, Pacing, Piece, Stored
from rota.deploy.scheduler.options import LogLimits
from rota.deploy.worker.frames import FrameReader, Segment, segments_in
from rota.deploy.worker.shim import SegmentedLog
from rota.deploy.worker.spec import TaskId

RANK = (17, 1, 0)


def frame(text, at=1.5, stream="o"):
    return b"%013x%b%05x%b" % (int(at * 1e6), stream.encode(), len(text), text)


def an_archive(folder, clock=lambda: 1000.0, **limits):
    archive = LogArchive(folder / "logs", LogLimits(**{"least_free_bytes": 0, **limits}), clock)
    archive.open()
    return archive


def put(archive, data, number=0, before=0, offset=0, rank=RANK, tenant="a", end=False):
    piece = Piece(rank=rank, segment=Segment(number, before), offset=offset, data=data, end=end)
    return archive.store(piece, tenant)


def kept(archive, rank=RANK):
    return b"".join(archive.read(rank, segment, 0, 10**6) for segment in archive.segments(rank))


def test_pieces_that_come_twice_early_or_late_are_stored_once(tmp_path):
    archive = an_archive(tmp_path)

    assert put(archive, b"abc") == Stored(0, 3)
    assert put(archive, b"abc") == Stored(0, 3)
    assert put(archive, b"xyz", offset=9) == Stored(0, 3)
    assert put(archive, b"def", offset=3) == Stored(0, 6)
    assert put(archive, b"ghi", number=1, before=6) == Stored(1, 3)
    assert put(archive, b"old", number=0, offset=6) == Stored(1, 3)
    assert not archive.complete(RANK)
    assert put(archive, b"", number=1, before=6, offset=3, end=True) == Stored(1, 3, end=True)

    assert kept(archive) == b"abcdefghi"
    assert an_archive(tmp_path).complete(RANK)
    assert put(an_archive(tmp_path), b"", number=0, end=True).end  # the answer was lost


def test_numbers_that_cannot_be_are_not_stored(tmp_path):
    archive = an_archive(tmp_path)

    for odd in (
        {"number": -1}, {"number": 10**9}, {"before": -1}, {"before": 10**18}, {"number": 2**62}, {"offset": -1},
        {"offset": 2**62},
    ):  # fmt: skip
        put(archive, b"x", **odd)

    assert archive.segments(RANK) == []
    assert archive.size == 0


def test_the_rank_that_has_most_loses_its_oldest_segments(tmp_path):
    archive = an_archive(tmp_path, job_bytes=1000, segment_bytes=100)
    put(archive, b"traceback", rank=(17, 1, 1), end=True)

    for number in range(30):
        put(archive, b"x" * 100, number=number, before=number * 81)

    assert kept(archive, (17, 1, 1)) == b"traceback"
    assert 600 <= len(kept(archive)) <= 1000
    assert archive.segments(RANK)[-1].number == 29
    assert archive.size == len(kept(archive)) + 9


def test_many_short_attempts_leave_at_least_their_size(tmp_path):
    archive = an_archive(tmp_path, job_bytes=500, segment_bytes=100)

    for epoch in range(1, 40):
        put(archive, frame(b"hello"), rank=(17, epoch, 0), end=True)

    assert archive.size <= 500
    assert archive.segments((17, 1, 0)) == [Segment(1, 5)]  # five bytes are missing
    assert kept(archive, (17, 39, 0)) == frame(b"hello")


def test_the_tenant_that_has_most_pays_for_room(tmp_path):
    now = [0.0]
    archive = an_archive(tmp_path, lambda: now[0], total_bytes=1000, job_bytes=400, segment_bytes=50)
    put(archive, b"mine", rank=(1, 1, 0), tenant="quiet", end=True)

    for job in range(2, 30):
        now[0] += 100.0
        put(archive, b"y" * 300, rank=(job, 1, 0), tenant="loud", end=True)

    assert archive.size <= 1000
    assert kept(archive, (1, 1, 0)) == b"mine"
    assert kept(archive, (29, 1, 0)) == b"y" * 300
    assert not archive.known((2, 1, 0))


def test_jobs_that_all_write_at_once_stay_within_the_bound_of_all(tmp_path):
    archive = an_archive(tmp_path, total_bytes=3000, job_bytes=1000, segment_bytes=50)

    for number in range(15):
        for job in range(10):
            put(archive, b"z" * 50, number=number, before=number * 31, rank=(job, 1, 0))

    assert archive.size <= 3000
    assert all(kept(archive, (job, 1, 0)) for job in range(10))


def test_what_is_too_old_goes_also_after_a_restart(tmp_path):
    archive = an_archive(tmp_path)
    put(archive, b"old")
    put(archive, b"new", rank=(18, 1, 0))

    again = an_archive(tmp_path)
    again.expire(lambda jobs: [job for job in jobs if job == 17])

    assert (again.size, again.known(RANK), again.known((18, 1, 0))) == (3, False, True)
    assert put(again, b"", end=True).end


def test_who_was_silent_longest_is_known_after_a_restart_with_another_clock(tmp_path):
    archive = an_archive(tmp_path, job_bytes=400, segment_bytes=50)
    for job, written in ((1, 2000.0), (2, 1000.0)):
        put(archive, b"x" * 300, rank=(job, 1, 0), end=True)
        for path in [*(tmp_path / "logs" / str(job)).rglob("*"), tmp_path / "logs" / str(job)]:
            os.utime(path, (written, written))

    again = an_archive(tmp_path, lambda: 50.0, total_bytes=700, job_bytes=400, segment_bytes=50)
    put(again, b"x" * 300, rank=(3, 1, 0), end=True)

    assert [again.known((job, 1, 0)) for job in (1, 2, 3)] == [True, False, True]


def test_the_disk_of_the_state_file_is_not_filled(tmp_path):
    free = shutil.disk_usage(tmp_path).free
    archive = an_archive(tmp_path, least_free_bytes=free * 2)

    with pytest.raises(OutputError, match=r"cannot keep the output of job 17 in .*: less than .* bytes are free"):
        put(archive, b"x")
    assert kept(archive) == b""


def test_agents_together_send_no_faster_than_they_may():
    pacing = Pacing(100.0)

    assert pacing.pause_s(50, 10.0) == pytest.approx(0.5)
    assert pacing.pause_s(100, 10.0) == pytest.approx(1.5)
    assert pacing.pause_s(0, 20.0) == pytest.approx(0.0)


# From the supervisor over the spool to the archive


def test_everything_that_a_supervisor_wrote_arrives_and_the_spool_is_empty(tmp_path):
    folder = tmp_path / "spool" / "17.1.0"
    folder.mkdir(parents=True)
    written = SegmentedLog(str(folder), 10**6, 1000)
    running = [True]
    spool = LogSpool(tmp_path / "spool", lambda _: not running[0])
    archive = an_archive(tmp_path)
    said = b""

    def send():
        pieces = spool.load()
        for piece in pieces:
            stored = put(archive, piece.data, piece.segment.number, piece.segment.before, piece.offset, end=piece.end)
            spool.stored(piece, stored.segment, stored.size, end=stored.end)
        return pieces

    for i in range(200):
        text = b"line %d\n" % i * (i % 7)
        written.write(b"e" if i % 3 else b"o", text) if text else None
        said += text
        if i % 50 == 0:
            send()
        if i == 120:  # another agent in this folder
            spool = LogSpool(tmp_path / "spool", lambda _: not running[0])
    while send():
        assert len(segments_in(folder)) <= 200
    running[0] = False
    while send():
        pass

    read = b"".join(f.data for s in archive.segments(RANK) for f in FrameReader().feed(archive.read(RANK, s, 0, 10**6)))
    assert read == said
    assert archive.complete(RANK)
    spool.drop_sent(3600.0)
    assert folder.exists()
    spool.drop_sent(0.0)
    assert not folder.exists()


def test_another_scheduler_gets_what_the_one_before_had_stored_in_the_last_moments(tmp_path):
    folder = tmp_path / "spool" / "17.1.0"
    folder.mkdir(parents=True)
    for number, text in enumerate((b"one", b"two", b"three")):
        (folder / f"{number:06d}-{3 * number}").write_bytes(frame(text))
    spool = LogSpool(tmp_path / "spool", lambda _: True)
    first, second = an_archive(tmp_path / "first"), an_archive(tmp_path / "second")

    def send(archive):
        while pieces := spool.load() or spool.load():
            for piece in pieces:
                at = piece.segment
                stored = put(archive, piece.data, at.number, at.before, piece.offset, end=piece.end)
                spool.stored(piece, stored.segment, stored.size, end=stored.end)

    put(second, frame(b"one")[:5])  # as far as it was shipped
    send(first)
    assert first.complete(RANK)
    spool.drop_sent(20.0)
    spool.rewind()
    send(second)

    assert kept(second) == kept(first) == frame(b"one") + frame(b"two") + frame(b"three")
    assert second.complete(RANK)


def test_output_that_nobody_takes_is_offered_again_and_others_are_not_kept(tmp_path, monkeypatch):
    for name in ("17.1.0", "18.1.0"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "000000-0").write_bytes(frame(b"hello"))
    (tmp_path / "notes").mkdir()
    (tmp_path / "a.1.0").mkdir()
    spool = LogSpool(tmp_path, lambda _: True)

    assert [str(piece.task) for piece in spool.load()] == ["17.1.0", "18.1.0"]
    spool.refused(TaskId("17", 1, 0), "never heard of it")
    assert [str(piece.task) for piece in spool.load()] == ["18.1.0"]

    monkeypatch.setattr("rota.deploy.agent.log_spool._REFUSED_S", 0.0)
    assert len(spool.load()) == 2
    monkeypatch.setattr("rota.deploy.agent.log_spool._KEEP_REFUSED_S", 0.0)
    spool.refused(TaskId("17", 1, 0), "never heard of it")
    assert not (tmp_path / "17.1.0").exists()


def test_a_server_that_nobody_hears_keeps_only_so_much(tmp_path, monkeypatch):
    monkeypatch.setattr("rota.deploy.agent.log_spool._MOST_BYTES", 250)
    for job in range(5):
        (tmp_path / f"{job}.1.0").mkdir()
        (tmp_path / f"{job}.1.0" / "000000-0").write_bytes(b"x" * 100)

    LogSpool(tmp_path, lambda _: True).load()

    assert sorted(path.name for path in tmp_path.iterdir()) == ["3.1.0", "4.1.0"]


def test_a_supervisor_on_a_full_disk_counts_and_goes_on(tmp_path):
    log = SegmentedLog(str(tmp_path), 10**6, 1000)
    log.write(b"o", b"before\n")
    os.close(log.fd)
    log.fd = os.open("/dev/full", os.O_WRONLY)
    log.write(b"o", b"lost\n")
    log.write(b"e", b"after\n")

    assert log.dropped == 5
    assert segments_in(tmp_path) == [Segment(0, 0), Segment(1, 12)]


def test_output_that_an_older_agent_left_is_sent(tmp_path):
    folder = tmp_path / "17.1.0"
    folder.mkdir()
    for name, text in (("stdout.log.1", "first\n"), ("stdout.log", "x" * 70_000), ("stderr.log", "bad\n")):
        (folder / name).write_text(text)
    spool = LogSpool(tmp_path, lambda _: True)

    assert spool.load() == []  # the end is seen at the second look
    (piece,) = spool.load()

    said = [(found.stream, found.data) for found in FrameReader().feed(piece.data)]
    assert (said[0], said[-1]) == (("o", b"first\n"), ("e", b"bad\n"))
    assert sum(len(data) for _, data in said) == 6 + 70_000 + 4


def test_a_folder_among_the_segments_keeps_nobody(tmp_path):
    (tmp_path / "17.1.0" / "000000-0").mkdir(parents=True)
    (tmp_path / "17.1.0" / "000001-0").write_bytes(frame(b"hello"))

    (piece,) = LogSpool(tmp_path, lambda _: True).load()

    assert (piece.segment.number, piece.data) == (1, frame(b"hello"))


def test_a_tenant_beyond_its_bound_loses_its_own_output_alone(tmp_path):
    limits = LogLimits(least_free_bytes=0, segment_bytes=100)
    archive = LogArchive(tmp_path / "logs", limits, lambda: 1000.0, {"a": 500, "b": 5000}.__getitem__)
    archive.open()
    put(archive, b"b" * 900, rank=(1, 1, 0), tenant="b", end=True)

    for job in range(2, 12):
        put(archive, b"a" * 100, rank=(job, 1, 0), tenant="a", end=True)

    assert len(kept(archive, (1, 1, 0))) == 900
    assert 300 <= sum(len(kept(archive, (job, 1, 0))) for job in range(2, 12)) <= 500
    assert kept(archive, (11, 1, 0)) == b"a" * 100
