"""The disk of the state file fills up: the scheduler says so in one line, ends, and goes on when there is room."""

import contextlib
import os
import subprocess

import pytest

from faults import Site
from rota.core.errors import RotaError


@pytest.fixture
def small_disk(tmp_path):
    disk = tmp_path / "disk"
    disk.mkdir()
    if os.geteuid() != 0:
        pytest.skip("needs root to mount a small disk")
    made = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=400k", "tmpfs", disk], check=False, capture_output=True)
    if made.returncode:
        pytest.skip(f"no tmpfs can be mounted here: {made.stderr.decode().strip()}")
    yield disk
    subprocess.run(["umount", "-l", disk], check=True)


def submit_until_refused(site):
    """Jobs until the scheduler takes no more; the numbers it gave."""
    numbers = []
    with contextlib.suppress(RotaError):
        while len(numbers) < 5000:
            numbers.append(site.submit(emulated=True, steps=10_000_000, name="n" * 200))
    assert numbers, "nothing was accepted at all"
    assert len(numbers) < 5000, "the disk never filled up"
    return numbers


def test_a_full_state_disk_is_one_line_and_the_scheduler_goes_on_from_the_file(tmp_path, small_disk):
    site = Site(tmp_path, state=small_disk / "state.db")
    with site:
        site.agent("n0")
        accepted = submit_until_refused(site)
        scheduler = site.programs.pop("scheduler")
        code, said = scheduler.wait(30), site.log("scheduler")

        assert code == 2
        assert "Traceback" not in said
        assert "CancelledError" not in said
        complaints = [line for line in said.splitlines() if "error" in line.lower() or "critical" in line.lower()]
        assert len(complaints) == 1, said
        assert complaints[0].startswith(f"rota: error: cannot write to state file {small_disk / 'state.db'}: ")
        assert "free space and start again" in complaints[0]

        with contextlib.suppress(OSError):
            (small_disk / "filler").write_bytes(bytes(1_000_000))
        still_full = site.serve_once()
        assert (still_full.returncode, "Traceback" in still_full.stderr) == (2, False)
        assert still_full.stderr.splitlines()[-1].startswith("rota: error: cannot ")
        assert "damaged" not in still_full.stderr

        subprocess.run(["mount", "-o", "remount,size=8m", small_disk], check=True)
        site.serve()

        known = {info.job for info in site.client.jobs()}
        assert set(accepted) <= known
        more = site.submit(emulated=True, steps=10)
        assert more > max(accepted)
        assert site.log("scheduler").count("rota: error:") == 1
