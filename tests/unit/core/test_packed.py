"""What comes out of a compressed file is limited, and the limit can be raised."""

import gzip
import zlib

import pytest

from rota.cli.main import main
from rota.clusters import load as load_cluster
from rota.core import packed
from rota.core.errors import ConfigError
from rota.engine.log import read_events
from rota.experiments.blobs import unpack
from rota.profiles import load as load_profiles
from rota.workloads import read_trace

MB = 1_000_000


def bomb(path, megabytes, piece=b"0,0\n"):
    """A file of a few kB with so much in it."""
    member = gzip.compress(piece * (MB // len(piece)), mtime=0)
    path.write_bytes(member * megabytes)
    assert path.stat().st_size < 4000 * megabytes
    return path


@pytest.mark.parametrize(
    ("name", "read"),
    [("a.csv.gz", read_trace), ("a.csv.gz", load_cluster), ("a.csv.gz", load_profiles)],
    ids=["trace", "list of servers", "catalogue"],
)
def test_every_reader_of_compressed_files_says_how_much_it_takes(tmp_path, monkeypatch, name, read):
    monkeypatch.setenv(packed.VARIABLE, "3")

    with pytest.raises(ConfigError, match=r"more than 3 MB when it is unpacked.*--max-unpacked-mb"):
        read(bomb(tmp_path / name, 4))


def test_a_line_of_an_event_log_may_not_be_longer_than_a_file(tmp_path, monkeypatch):
    monkeypatch.setenv(packed.VARIABLE, "3")

    with pytest.raises(ConfigError, match=r"a line of .* holds more than 3 MB"):
        list(read_events(bomb(tmp_path / "a.jsonl.gz", 4, piece=b"    ")))


def test_a_record_of_a_store_is_limited_as_well(monkeypatch):
    monkeypatch.setenv(packed.VARIABLE, "3")

    with pytest.raises(ConfigError, match="the record of a run holds more than 3 MB"):
        unpack(zlib.compress(bytes(4 * MB)))


def test_the_limit_can_be_raised_and_is_256_mb_otherwise(tmp_path, monkeypatch):
    path = bomb(tmp_path / "a.gz", 4)
    monkeypatch.delenv(packed.VARIABLE, raising=False)
    assert packed.most_bytes() == 256 * MB

    monkeypatch.setenv(packed.VARIABLE, "4")
    assert len(packed.read_bytes(path)) == 4 * MB


@pytest.mark.parametrize("nonsense", ["0", "-1", "nan", "inf", "much"])
def test_a_limit_that_is_no_number_is_refused(monkeypatch, nonsense):
    monkeypatch.setenv(packed.VARIABLE, nonsense)

    with pytest.raises(ConfigError, match=f"ROTA_MAX_UNPACKED_MB is '{nonsense}'; give a number of MB above 0"):
        packed.most_bytes()


@pytest.mark.parametrize(
    "damage",
    [lambda data: data[:-9], lambda data: data + b"rest", lambda data: data[:20] + b"\xff" + data[21:]],
    ids=["cut off", "followed by something", "changed"],
)
def test_damaged_files_raise_what_callers_expect(tmp_path, damage):
    path = tmp_path / "a.gz"
    path.write_bytes(damage(gzip.compress(b"some text " * 9, mtime=0)))

    with pytest.raises(packed.DAMAGED):
        packed.read_bytes(path)


def test_several_members_and_padding_are_one_file(tmp_path):
    path = tmp_path / "a.gz"
    path.write_bytes(gzip.compress(b"a") + gzip.compress(b"b") + bytes(100))

    assert packed.read_bytes(path) == gzip.decompress(path.read_bytes()) == b"ab"


def test_the_command_line_sets_the_limit(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv(packed.VARIABLE, "256")  # so that it is put back in the end
    path = tmp_path / "a.csv.gz"
    path.write_bytes(gzip.compress(b"arrival_s,profile,gpus,steps\n" + b"0,LM,1,5\n" * 100))

    refused = main(["--max-unpacked-mb", "0.0001", "trace", "info", str(path)])
    said = capsys.readouterr().err
    taken = main(["--max-unpacked-mb", "1", "trace", "info", str(path)])

    assert (refused, taken) == (2, 0)
    assert "when it is unpacked" in said


def test_a_file_that_is_parsed_whole_is_not_larger_than_that_either(monkeypatch):
    monkeypatch.setenv(packed.VARIABLE, "1")

    with pytest.raises(ConfigError, match=r"/dev/zero holds more than 1 MB; .*--max-unpacked-mb"):
        packed.read_small("/dev/zero")
