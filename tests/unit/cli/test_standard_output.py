"""`-` in the place of a file: the data alone is on standard output."""

import csv
import io
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from rota.cli.main import main

RUN = ["simulate", "--workload", "gavel-static", "--set", "jobs=5", "--cluster", "v100=4", "--policy", "fifo"]
ROTA = f"{sys.executable} -m rota.cli {' '.join(RUN)}"


def test_jobs_on_standard_output_are_the_file_and_the_table_is_on_standard_error(tmp_path, capfd):
    assert main([*RUN, "--jobs-csv", str(tmp_path / "jobs.csv")]) == 0
    table = capfd.readouterr().out
    assert main([*RUN, "--jobs-csv", "-"]) == 0
    shown = capfd.readouterr()

    assert shown.out == (tmp_path / "jobs.csv").read_text()
    assert len(list(csv.DictReader(io.StringIO(shown.out)))) == 5
    assert [line.split()[:2] for line in shown.err.splitlines()] == [line.split()[:2] for line in table.splitlines()]


def test_events_on_standard_output_are_the_log_and_can_be_replayed(tmp_path, capfd):
    log = tmp_path / "run.jsonl"
    assert main([*RUN, "--events", str(log)]) == 0
    capfd.readouterr()
    assert main([*RUN, "--events", "-"]) == 0
    shown = capfd.readouterr()
    assert main(["replay", str(log), "--jobs-csv", "-"]) == 0

    assert shown.out == log.read_text()
    assert "Mean completion time" in shown.err
    assert capfd.readouterr().out.startswith("job_id,")


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (["--jobs-csv", "-", "--events", "-"], "--jobs-csv and --events both write to standard output"),
        (["--jobs-csv", "-", "--json"], "--jobs-csv and --json both write to standard output"),
        (["--events", "-", "--json"], "--events and --json both write to standard output"),
        (["--checkpoint", "-"], "give a file name"),
    ],
)
def test_only_one_output_can_have_standard_output(capfd, flags, said):
    assert main([*RUN, *flags]) == 2

    shown = capfd.readouterr()
    assert said in shown.err
    assert shown.out == ""


def test_two_outputs_may_go_to_a_file_and_to_standard_output(tmp_path, capfd):
    assert main([*RUN, "--jobs-csv", str(tmp_path / "jobs.csv"), "--json"]) == 0

    assert json.loads(capfd.readouterr().out)["jobs_finished"] == 5
    assert (tmp_path / "jobs.csv").exists()


def test_an_exported_store_goes_to_standard_output(tmp_path, capfd):
    sweep = ["--cluster", "v100=4", "--policies", "fifo", "--seeds", "0:1", "--quiet", "-j", "1"]
    store = str(tmp_path / "a.db")
    assert main(["sweep", "--workload", "gavel-static", "--set", "jobs=3", *sweep, "--store", store]) == 0
    capfd.readouterr()

    assert main(["results", "export", store, "--csv", "-"]) == 0

    shown = capfd.readouterr()
    assert [line["policy"] for line in csv.DictReader(io.StringIO(shown.out))] == ["fifo", "fifo"]
    assert "2 runs" in shown.err
    assert not Path("-").exists()


@pytest.mark.parametrize("flag", ["--events", "--jobs-csv"])
def test_a_full_disk_behind_standard_output_is_one_message_and_a_reader_that_goes_none(flag):
    full = subprocess.run(["/bin/sh", "-c", f"{ROTA} {flag} - >/dev/full"], check=False, capture_output=True, text=True)
    gone = subprocess.run(
        ["/bin/sh", "-c", f"{ROTA} {flag} - | head -c 5"], check=False, capture_output=True, text=True
    )

    assert full.returncode == 2
    assert "cannot write to standard output: the disk is full" in full.stderr
    assert "rror" not in gone.stderr
    assert len(gone.stdout) == 5


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="a device that is always full")
@pytest.mark.parametrize("form", ["", "--json"])
def test_standard_output_on_a_full_disk_is_one_message(form):
    command = ["sh", "-c", f"{ROTA} {form} > /dev/full"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)

    assert done.returncode == 2
    assert done.stderr.splitlines()[-1].startswith("rota: error: cannot write: No space left on device")


@pytest.mark.parametrize("closed", [">&-", "2>&-"])
def test_a_stream_may_be_closed(tmp_path, closed):
    command = ["sh", "-c", f"{ROTA} --jobs-csv jobs.csv {closed}"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path)

    assert done.returncode == 0, done.stderr
    assert (tmp_path / "jobs.csv").exists()


def test_a_checkpoint_does_not_take_the_place_of_a_device(tmp_path, capfd):
    device = tmp_path / "device"
    os.mkfifo(device)
    reader = os.open(device, os.O_RDONLY | os.O_NONBLOCK)

    assert main([*RUN, "--checkpoint", str(device), "--checkpoint-every", "1000"]) == 2

    os.close(reader)
    assert "give a file name" in capfd.readouterr().err
    assert device.is_fifo()
