"""What a user sees of output: lines, headings, what is missing, and nothing that drives a terminal."""

import pytest

from rota.deploy.log_feed import (
    AttemptBegins,
    CaughtUp,
    LogFeed,
    LogQuery,
    Missing,
    Output,
    last_lines,
    lines_of,
    merged,
)
from rota.deploy.log_text import LogText, printable
from rota.deploy.worker.frames import FrameReader
from rota.rpc import rota_pb2 as pb


def frame(text, at=1.5, stream="o"):
    return b"%013x%b%05x%b" % (int(at * 1e6), stream.encode(), len(text), text)


def out(text, at=1.0, rank=0, stream="o"):
    return Output(attempt=1, rank=rank, at=at, stream=stream, data=text)


@pytest.mark.parametrize("size", [1, 7, 19, 20, 1000])
def test_frames_may_come_in_any_pieces(size):
    data = frame(b"hello\n", 2.25) + frame(b"", 3.0, "e") + frame(b"0000000000000o00005", 4.5, "e")
    reader = FrameReader()

    found = [f for at in range(0, len(data), size) for f in reader.feed(data[at : at + size])]

    assert [(f.at, f.stream, f.data) for f in found] == [
        (2.25, "o", b"hello\n"), (3.0, "e", b""), (4.5, "e", b"0000000000000o00005"),
    ]  # fmt: skip


def test_what_is_no_frame_ends_its_segment_alone():
    reader = FrameReader()

    assert [f.data for f in reader.feed(frame(b"good") + b"\x00" * 40 + frame(b"lost"))] == [b"good"]
    assert reader.broken
    assert list(reader.feed(frame(b"lost"))) == []


def test_a_feed_counts_what_is_missing_and_goes_on_where_it_was():
    feed = LogFeed(LogQuery(job=1))
    first = frame(b"abc")
    chunks = [
        pb.LogChunk(begins=pb.LogAttempt(attempt=1, last=1)),
        pb.LogChunk(attempt=1, segment=2, before=10, data=first[:8]),
    ]
    again = [
        pb.LogChunk(attempt=1, segment=2, before=10, offset=8, data=first[8:]),
        pb.LogChunk(attempt=1, segment=5, before=20),
    ]

    items = list(feed.items(chunks))
    (position,) = feed.request().after
    items += list(feed.items(again))

    assert (position.attempt, position.segment, position.offset) == (1, 2, 8)
    sizes = [
        item.size if isinstance(item, Missing) else item.data for item in items if not isinstance(item, AttemptBegins)
    ]
    assert sizes == [10, b"abc", 7]


def test_lines_are_put_together_by_rank_and_stream_and_merged_by_time():
    items = [
        out(b"a1\na", 1.0),
        out(b"b1\n", 1.5, rank=1),
        out(b"oops\n", 2.0, stream="e"),
        out(b"2\n", 3.0),
        CaughtUp(),
    ]

    text = [(i.at, i.rank, i.data) for i in lines_of(merged(items)) if isinstance(i, Output)]

    assert text == [(1.0, 0, b"a1\n"), (1.5, 1, b"b1\n"), (2.0, 0, b"oops\n"), (1.0, 0, b"a2\n")]


def test_the_last_lines_come_with_the_heading_of_their_attempt():
    begins = [AttemptBegins(pb.LogAttempt(attempt=n, last=2)) for n in (1, 2)]
    items = [begins[0], out(b"1\n"), begins[1], out(b"2\n"), out(b"3\n"), CaughtUp(), out(b"4\n")]

    assert list(last_lines(items, 1, follow=True)) == [begins[1], out(b"3\n"), out(b"4\n")]
    assert list(last_lines(items, 2, follow=False)) == [begins[1], out(b"3\n"), CaughtUp(), out(b"4\n")]
    assert list(last_lines(items, 9, follow=True)) == [*items[:5], items[6]]


def test_nothing_of_a_tenant_drives_a_terminal():
    assert printable(b"\x1b[2J\x07\r\x7f\ttab\n") == b"^[[2J^G^M^?\ttab\n"
    assert printable("\x9b31m \u202eevil".encode()) == b"<U+009B>31m <U+202E>evil"
    assert printable(b"\xff\x9bx").decode() == "\ufffd\ufffdx"
    assert printable("naïve ✓\n".encode()) == "naïve ✓\n".encode()


def test_words_of_ours_begin_a_line_and_obey_the_same_rule():
    pieces = []
    text = LogText(job=3, rank=0, write=pieces.append)
    place = pb.LogPlace(node="n\x1b0", first_rank=0, ranks=1)

    text.show_one(out(b"no end"))
    text.show_one(Missing(attempt=1, rank=0, size=1234))
    text.show_one(AttemptBegins(pb.LogAttempt(attempt=2, last=2, places=[place])))

    lines = b"".join(pieces).splitlines()
    assert lines[1] == b"... 1,234 bytes are missing here: there was more output than is kept"
    assert lines[2].startswith(b"==> job 3, attempt 2, rank 0 on n^[0, started ")
