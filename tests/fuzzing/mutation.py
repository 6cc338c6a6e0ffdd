"""Changes to good inputs that keep most of their structure, so that they reach what lies behind the first check."""

import contextlib
import functools
import gzip
import io
import json
import random
import re
import sqlite3
import zlib

NUMBERS = (
    "0", "-0", "-1", "1", "1.5", "-1.5", "1e400", "-1e400", "1e308", "5e-324", "nan", "-nan", "inf", "-inf", "Infinity",
    "NaN", "2147483648", "4294967296", "9223372036854775807", "9223372036854775808", "18446744073709551616",
    "-9223372036854775809", "1000000", "10000000", "1000000000", "1000000000000", "1" + "0" * 30, "1" + "0" * 400,
    "9" * 5000, "0x" + "f" * 8, "0x" + "f" * 5000, "0b" + "1" * 20000, "1_000", "+7", "٣", "", "true", "null", "None",
    "1970-01-01", "9999-12-31 23:59:59", "0001-01-01T00:00:00", "2017-10-09T06:13:03+99:99", "00", "1e5", "\x00",
)  # fmt: skip
TEXTS = (
    "", " ", "a", "a" * 300, "a" * 70_000, "\x00", "\n", "\r", "\t", "\x1b[2J", "\u202e", "é", "\ufeff", "%s%n", "{}",
    "../../etc/passwd", "/dev/zero", "--privileged", "-", "*", "a/b", "a=b", "a:b", "a,b", "'", '"', "\\", "\\ud800",
    "\\u0000", "nan", "0", "none", "null", "__class__", "v100", "k80", "K80", "x" * 5000 + "=1", "a." * 3000 + "a",
)  # fmt: skip
VALUES = (
    None, True, False, 0, -1, 1, 2**31, 2**53, 2**63, 2**64, -(2**63), 10**12, 10**30, 10**400, 0.5, -0.5, 1e308,
    float("nan"), float("inf"), -float("inf"), "", "a", "é", "\x00", "\ud800", "a" * 5000, "nan", [], {}, [[]], [None],
    {"": None}, {"a": {}}, [1, "a", None], [0] * 1000, ["a"], "2017-10-09 06:13:03", "None",
)  # fmt: skip
_NUMBER = re.compile(r"-?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?")
_QUOTED = re.compile(r'"[^"\n]*"')
_NESTED = (
    "[" * 500 + "]" * 500,
    "[" * 100_000,
    "{" * 5000,
    '{"a":' * 3000 + "1" + "}" * 3000,
    "{a=" * 500 + "1" + "}" * 500,
)
_SEPARATORS = (",", "\t", "|", " ", ":", "=", ";")
_MEMBER = gzip.compress(b"0,0\n" * (1 << 22), mtime=0)
"""16 MB that need 16 kB; members of gzip may stand one after another."""


class Mutator:
    """Makes inputs; the same ones for the same seed."""

    def __init__(self, seed):
        self.random = random.Random(seed)

    def mutated(self, seeds, *, packed=False):
        """A changed copy of one of the seeds; `packed`: whether the reader takes gzip."""
        data = self.random.choice(seeds)
        for _ in range(self.random.choice((1, 1, 1, 2, 2, 3, 5, 8))):
            data = self._step(data, seeds)
        return self._packed(data) if packed and self.random.random() < 0.08 else data

    def _step(self, data, seeds):
        draw = self.random.random()
        if draw < 0.2:
            return self.of_bytes(data, seeds)
        try:
            text = data.decode()
        except UnicodeDecodeError:
            return self.of_bytes(data, seeds)
        if draw < 0.5 and text.lstrip()[:1] in {"{", "["}:
            return self.of_json(text).encode("utf-8", "surrogatepass")
        return self.of_text(text).encode("utf-8", "surrogatepass")

    def of_bytes(self, data, seeds):
        """Bits, pieces and lengths, without knowing what they mean."""
        rng = self.random
        data = bytearray(data)
        at = rng.randrange(len(data) + 1)
        length = min(len(data) - at, rng.choice((1, 1, 2, 4, 8, 64, 1024)))
        draw = rng.randrange(9)
        if draw == 0 and data:
            data[at % len(data)] ^= 1 << rng.randrange(8)
        elif draw == 1:
            data[at : at + length] = rng.randbytes(length)
        elif draw == 2:
            del data[at : at + length]
        elif draw == 3:
            data[at:at] = data[at : at + length] * rng.choice((1, 2, 100))
        elif draw == 4:
            del data[at:]
        elif draw == 5:
            data[at:at] = rng.choice(
                (b"\x00", b"\xff\xfe", b"\xed\xa0\x80", b"\xef\xbb\xbf", b"\x80" * 9, b"\n" * 5000)
            )
        elif draw == 6:
            other = rng.choice(seeds)
            data[at:] = other[rng.randrange(len(other) + 1) :]
        elif draw == 7:
            data[at : at + 8] = rng.choice((b"\xff" * 8, b"\x00" * 8, b"\x7f" + b"\xff" * 7, b"\x01\x00\x00\x00"))
        else:
            data = bytearray(data.decode("latin-1").encode(rng.choice(("utf-16", "utf-32", "utf-8", "utf-7"))))
        return bytes(data)

    def of_text(self, text):
        """Numbers, quoted texts, cells and lines."""
        change = self.random.choice((self._number, self._number, self._quoted, self._cell, self._line, self._nested))
        return change(text)

    def _number(self, text):
        return self._replaced(text, _NUMBER, self.random.choice(NUMBERS))

    def _quoted(self, text):
        value = self.random.choice(TEXTS)
        quoted = f'"{value}"' if self.random.random() < 0.8 else self.random.choice((value, "1", "[]", "{}", "true"))
        return self._replaced(text, _QUOTED, quoted)

    def _nested(self, text):
        if self.random.random() < 0.7:
            return self._cell(text)
        return self._replaced(text, self.random.choice((_NUMBER, _QUOTED)), self.random.choice(_NESTED))

    def _replaced(self, text, pattern, value):
        found = list(pattern.finditer(text))
        if not found:
            return text + value
        place = self.random.choice(found)
        return text[: place.start()] + value + text[place.end() :]

    def _cell(self, text):
        lines = text.split("\n")
        at = self.random.randrange(len(lines))
        separator = max(_SEPARATORS, key=lambda s: lines[at].count(s) + self.random.random())
        cells = lines[at].split(separator)
        which = self.random.randrange(len(cells))
        draw = self.random.randrange(4)
        if draw == 0:
            del cells[which]
        elif draw == 1:
            cells.insert(which, self.random.choice(cells))
        else:
            cells[which] = self.random.choice(NUMBERS if draw == 2 else TEXTS)
        lines[at] = separator.join(cells)
        return "\n".join(lines)

    def _line(self, text):
        lines = text.split("\n")
        at = self.random.randrange(len(lines))
        draw = self.random.randrange(5)
        if draw == 0:
            del lines[at]
        elif draw == 1:
            lines[at:at] = [lines[at]] * self.random.choice((1, 2, 300))
        elif draw == 2:
            self.random.shuffle(lines)
        elif draw == 3:
            lines[at] = lines[at][: self.random.randrange(len(lines[at]) + 1)]
        else:
            lines.insert(at, self.random.choice(TEXTS))
        return "\n".join(lines)

    def of_json(self, text):
        """Another value somewhere in a document, or in one line of a file of documents."""
        lines = text.split("\n")
        whole = not any(_loaded(line) is not None for line in lines[:2]) or len(lines) == 1
        at = 0 if whole else self.random.randrange(len(lines))
        document = _loaded(text if whole else lines[at])
        if document is None:
            return self.of_text(text)
        changed = _dumped(self.of_value(document))
        if whole:
            return changed
        lines[at] = changed
        return "\n".join(lines)

    def of_value(self, value):  # noqa: PLR0911 - one for each change
        """A tree of plain values with a change at one node."""
        rng = self.random
        if isinstance(value, dict) and value and rng.random() < 0.85:
            key = rng.choice(list(value))
            draw = rng.random()
            if draw < 0.1:
                return {k: v for k, v in value.items() if k != key}
            if draw < 0.15:
                return {**value, rng.choice(TEXTS): value[key]}
            return {**value, key: self.of_value(value[key])}
        if isinstance(value, list) and value and rng.random() < 0.8:
            at = rng.randrange(len(value))
            draw = rng.random()
            if draw < 0.1:
                return value[:at] + value[at + 1 :]
            if draw < 0.2:
                return value[:at] + [value[at]] * rng.choice((2, 500)) + value[at + 1 :]
            return [*value[:at], self.of_value(value[at]), *value[at + 1 :]]
        if isinstance(value, int | float) and not isinstance(value, bool) and rng.random() < 0.5:
            return rng.choice([v for v in VALUES if isinstance(v, int | float)] + [value + 1, -value])
        return rng.choice(VALUES)

    def _packed(self, data):
        """The same with gzip, sometimes damaged, sometimes with much more in it than it seems."""
        draw = self.random.random()
        zipped = gzip.compress(data, mtime=0)
        if draw < 0.4:
            return zipped
        if draw < 0.93:
            return self.of_bytes(zipped, [zipped])
        return zipped + _MEMBER * self.random.choice((17, 40))

    # Databases

    def of_database(self, data, folder):
        """A database with other bytes, or with other values in its rows."""
        if self.random.random() < 0.4:
            return self._damaged(data)
        path = folder / "mutated.db"
        path.write_bytes(data)
        with contextlib.closing(sqlite3.connect(path)) as db:
            for _ in range(self.random.choice((1, 1, 2, 4))):
                with contextlib.suppress(sqlite3.Error, ValueError, OverflowError):
                    self._change_row(db)
                    db.commit()
        return path.read_bytes()

    def _change_row(self, db):
        tables = [row[0] for row in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        table = self.random.choice(sorted(tables))
        columns = [row[1] for row in db.execute(f'PRAGMA table_info("{table}")')]
        column = self.random.choice(columns)
        rows = db.execute(f'SELECT rowid, "{column}" FROM "{table}"').fetchall()  # noqa: S608 - names of the file
        if not rows or self.random.random() < 0.03:
            db.execute(f'DROP TABLE "{table}"')
            return
        number, value = self.random.choice(rows)
        if self.random.random() < 0.1:
            db.execute(f'DELETE FROM "{table}" WHERE rowid = ?', (number,))  # noqa: S608 - names of the file
            return
        query = f'UPDATE "{table}" SET "{column}" = ? WHERE rowid = ?'  # noqa: S608 - names of the file
        db.execute(query, (self._cell_value(value), number))

    def _cell_value(self, value):
        rng = self.random
        if isinstance(value, str) and value[:1] in {"{", "["} and rng.random() < 0.8:
            return self.of_json(value) if rng.random() < 0.8 else self.of_text(value)
        if isinstance(value, bytes) and len(value) < 100_000 and rng.random() < 0.8:
            with contextlib.suppress(zlib.error):
                inner = zlib.decompress(value)
                return zlib.compress(self._step(inner, [inner]), 1) if rng.random() < 0.97 else _large_record()
            return self.of_bytes(value, [value])
        plain = [v for v in VALUES if v is None or isinstance(v, str | int | float)]
        return rng.choice([*plain, b"", b"\x00" * 9, rng.randbytes(40)])

    def _damaged(self, data):
        """Pages with other bytes; most of the file stays as it is."""
        damaged = bytearray(data)
        rng = self.random
        for _ in range(rng.choice((1, 1, 4, 30))):
            at = rng.randrange(len(damaged))
            damaged[at : at + 4] = rng.randbytes(rng.choice((1, 4))) if rng.random() < 0.7 else b"\xff" * 4
        return bytes(damaged[: rng.randrange(len(damaged))]) if rng.random() < 0.1 else bytes(damaged)


@functools.cache
def _large_record():
    """300 MB of zeros in few bytes, made without holding them."""
    packer = zlib.compressobj()
    return b"".join([packer.compress(bytes(1 << 20)) for _ in range(300)] + [packer.flush()])


def _loaded(text):
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _dumped(value):
    stream = io.StringIO()
    try:
        json.dump(value, stream)
    except (ValueError, RecursionError):  # an integer that cannot be written
        return str(value)[:1000] if not isinstance(value, int) else "1" + "0" * 5000
    return stream.getvalue()
