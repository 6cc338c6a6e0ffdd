from hypothesis import given
from hypothesis import strategies as st

from rota.client.wire import LONGEST_LINE, Lines, encode


@given(st.lists(st.dictionaries(st.text(), st.integers() | st.text()), max_size=8), st.integers(1, 50))
def test_messages_survive_any_cutting_of_the_stream(bodies, size):
    messages = [{**body, "op": "x"} for body in bodies]
    stream = b"".join(map(encode, messages))
    lines = Lines()

    got = [m for start in range(0, len(stream), size) for m in lines.feed(stream[start : start + size])]

    assert got == messages
    assert lines.bad == 0


@given(st.lists(st.binary(max_size=300), max_size=10))
def test_no_bytes_can_make_it_fail(pieces):
    lines = Lines()
    for piece in pieces:
        list(lines.feed(piece))


def test_a_line_that_is_too_long_is_dropped_and_the_next_is_read():
    lines = Lines()
    list(lines.feed(b"x" * LONGEST_LINE))
    list(lines.feed(b"x" * LONGEST_LINE))

    assert list(lines.feed(b'x\n{"op":"a"}\n')) == [{"op": "a"}]
    assert lines.bad == 1
