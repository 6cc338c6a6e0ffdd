import csv
import gzip
import os
import resource
import stat
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from event_builders import CLUSTER, finished, observe_all, submitted

from rota.analysis.jobs_csv import read_jobs_csv, write_jobs_csv
from rota.analysis.metrics import Metrics
from rota.analysis.output import check_writable, whole_file, write_file, writing
from rota.core.errors import ConfigError, OutputError


def jobs_of_a_run():
    events = (submitted(0, [0.1, 0.2], profiles=["LM (batch size 5)", 'odd "name", really']), finished([0], [1 / 3]))
    return observe_all(Metrics(CLUSTER), *events).jobs()


def test_floats_in_the_csv_read_back_exactly_and_missing_times_are_empty(tmp_path):
    path = tmp_path / "jobs.csv"

    write_jobs_csv(path, jobs_of_a_run())

    rows = list(csv.DictReader(path.read_text().splitlines()))
    assert list(rows[0])[:4] == ["job_id", "arrival_s", "finish_s", "jct_s"]
    assert float(rows[0]["finish_s"]) == 1 / 3
    assert float(rows[0]["jct_s"]) == 1 / 3 - 0.1
    assert (rows[1]["finish_s"], rows[1]["jct_s"], rows[1]["deadline_s"]) == ("", "", "")
    assert rows[1]["profile"] == 'odd "name", really'
    assert [r["measured"] for r in rows] == ["1", "0"]


def test_a_csv_that_ends_in_gz_is_compressed_and_reproducible(tmp_path):
    first, second = tmp_path / "a.csv.gz", tmp_path / "b.csv.gz"

    write_jobs_csv(first, jobs_of_a_run())
    write_jobs_csv(second, jobs_of_a_run())

    assert gzip.decompress(first.read_bytes()).startswith(b"job_id,")
    assert first.read_bytes() == second.read_bytes()


@pytest.mark.parametrize("name", ["missing/jobs.csv", "folder"])
def test_a_path_that_cannot_be_written_is_refused_before_the_run(tmp_path, name):
    (tmp_path / "folder").mkdir()

    with pytest.raises(OutputError, match="cannot write"):
        check_writable(tmp_path / name)


def write_half(path):
    with whole_file(path) as temporary:
        temporary.write_text("new, but only ha")
        raise ValueError("half way")


def test_a_failure_in_the_middle_leaves_the_old_file_and_nothing_else(tmp_path):
    path = tmp_path / "jobs.csv"
    path.write_text("old")

    with pytest.raises(ValueError, match="half way"):
        write_half(path)

    assert path.read_text() == "old"
    assert [p.name for p in tmp_path.iterdir()] == ["jobs.csv"]


def test_a_new_file_has_usual_rights_and_an_old_one_keeps_its_own(tmp_path):
    new, old = tmp_path / "new", tmp_path / "old"
    old.touch(mode=0o600)
    for path in (new, old):
        with whole_file(path) as temporary:
            temporary.write_text("x")

    umask = os.umask(0)
    os.umask(umask)
    assert stat.S_IMODE(new.stat().st_mode) == 0o666 & ~umask
    assert stat.S_IMODE(old.stat().st_mode) == 0o600


def test_a_link_is_followed_and_stays_a_link(tmp_path):
    (tmp_path / "real").write_text("old")
    (tmp_path / "link").symlink_to("real")

    with whole_file(tmp_path / "link") as temporary:
        temporary.write_text("new")

    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "real").read_text() == "new"


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_a_full_device_is_said_to_be_full():
    with pytest.raises(OutputError, match="the disk is full"):
        write_jobs_csv("/dev/full", jobs_of_a_run())


@pytest.mark.skipif(sys.platform == "win32", reason="needs file size limits")
def test_a_file_that_may_not_grow_any_more_leaves_no_half_file(tmp_path):
    path = tmp_path / "jobs.csv"
    script = (
        "import numpy as np, sys\n"
        "from rota.analysis.jobs_csv import write_jobs_csv\n"
        "from rota.core.errors import OutputError\n"
        "try:\n"
        "    write_jobs_csv(sys.argv[1], {'job_id': np.arange(100000), 'arrival_s': np.arange(100000) / 7})\n"
        "except OutputError as error:\n"
        "    sys.exit(str(error))\n"
    )

    done = subprocess.run(
        [sys.executable, "-c", script, str(path)],
        check=False,
        capture_output=True,
        text=True,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, 50_000)),
    )

    assert done.returncode == 1, done.stderr
    assert "cannot write" in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_columns_of_any_length_are_written(tmp_path):
    path = tmp_path / "none.csv"

    write_jobs_csv(path, {"job_id": np.zeros(0, dtype=np.int64), "arrival_s": np.zeros(0)})

    assert path.read_text() == "job_id,arrival_s\n"


@pytest.mark.parametrize("name", ["jobs.csv", "jobs.csv.gz"])
def test_a_csv_reads_back_as_it_was_written(tmp_path, name):
    written = jobs_of_a_run()
    write_jobs_csv(tmp_path / name, written)

    again = read_jobs_csv(tmp_path / name)

    assert list(again) == list(written)
    for column, values in written.items():
        expected = np.where(np.isfinite(values), values, np.nan) if values.dtype.kind == "f" else values
        np.testing.assert_array_equal(again[column], expected)


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ("", r"jobs\.csv:1: no column job_id, arrival_s, jct_s"),
        ("job_id,arrival_s\n", r"jobs\.csv:1: no column jct_s"),
        ("job_id,arrival_s,jct_s\n", "there is no job in it"),
        ("job_id,arrival_s,jct_s\n0,0,1\n1,2\n", r"jobs\.csv:3: 2 fields, but the header has 3"),
        ("job_id,arrival_s,jct_s\nx,0,1\n", r"jobs\.csv:2, column job_id: 'x' is not a whole number"),
        ("job_id,arrival_s,jct_s\n0,,1\n", r"jobs\.csv:2, column arrival_s: '' is not a number"),
        ("job_id,arrival_s,jct_s\n0,0,-1\n", r"jobs\.csv:2, column jct_s: '-1' is not a possible value"),
        ("job_id,arrival_s,jct_s\n0,nan,1\n", r"jobs\.csv:2, column arrival_s: 'nan' is not a possible value"),
    ],
)
def test_a_csv_that_cannot_be_used_names_line_and_column(tmp_path, content, says):
    (tmp_path / "jobs.csv").write_text(content)

    with pytest.raises(ConfigError, match=says):
        read_jobs_csv(tmp_path / "jobs.csv")


def test_a_csv_that_is_cut_off_or_no_text_is_refused(tmp_path):
    (tmp_path / "cut.csv.gz").write_bytes(gzip.compress(b"job_id,arrival_s,jct_s\n0,0,1\n")[:-12])
    (tmp_path / "odd.csv").write_bytes(b"job_id,\xff\xfe")

    for name in ("cut.csv.gz", "odd.csv"):
        with pytest.raises(ConfigError, match=f"cannot read .*{name}"):
            read_jobs_csv(tmp_path / name)


def write_until_ctrl_c(path):
    with writing(path) as file:
        file.write(b"new, but only ha")
        raise KeyboardInterrupt


def test_ctrl_c_in_the_middle_leaves_the_old_file_and_nothing_else(tmp_path):
    path = tmp_path / "figure.png"
    path.write_bytes(b"old")

    with pytest.raises(KeyboardInterrupt):
        write_until_ctrl_c(path)

    assert path.read_bytes() == b"old"
    assert [p.name for p in tmp_path.iterdir()] == ["figure.png"]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_a_device_is_written_directly_and_its_failure_is_said():
    with pytest.raises(OutputError, match="the disk is full"):
        write_file("/dev/full", "text")


def test_a_link_to_a_file_stays_a_link_when_the_file_is_replaced(tmp_path):
    (tmp_path / "real").write_text("old")
    (tmp_path / "link").symlink_to("real")

    write_file(tmp_path / "link", "new")

    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "real").read_text() == "new"
