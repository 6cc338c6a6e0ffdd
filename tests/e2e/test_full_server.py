"""The disk of a server fills up: its agent stays, says so, starts nothing, and what runs there goes on."""

import json
import subprocess
import sys

import pytest

from faults import Site, until
from soak import SmallDisk


@pytest.fixture
def small_disk(tmp_path):
    disk = SmallDisk(tmp_path / "disk", 64)
    if not disk.mounted:
        pytest.skip("no small disk can be mounted here")
    yield disk
    disk.close()


def remark(site, node):
    words = [sys.executable, "-m", "rota.cli", "nodes", "--json", "--scheduler", site.address, "--insecure"]
    told = json.loads(subprocess.run(words, check=True, capture_output=True, text=True).stdout)
    return next(each["remark"] for each in told if each["node"] == node)


@pytest.mark.parametrize("restarted", [pytest.param(False, marks=pytest.mark.long), True])
def test_a_full_server_starts_nothing_and_its_jobs_go_on(tmp_path, small_disk, restarted):
    with Site(tmp_path, lease=20, dead_after=10) as site:
        site.agent("full", "emulate:v100=2", folder=str(small_disk.path / "full"))
        running = site.submit(steps=100_000)
        plain = site.submit(argv=["sh", "-c", "sleep 8; echo result"], env={})
        until(lambda: len(site.steps(running)) > 5 and site.job(plain).phase == "running", 30, "steps")

        small_disk.fill()
        until(lambda: "is full" in remark(site, "full"), 20, "the agent's word")
        if restarted:
            site.kill("full")
            site.agent("full", "emulate:v100=2", folder=str(small_disk.path / "full"))
            until(lambda: "is full" in remark(site, "full"), 20, "the agent's word")
        waiting = site.submit(argv=["echo", "later"], env={})
        assert site.done(plain, seconds=40)[0].phase == "finished"
        assert site.programs["full"].poll() is None, "the agent has ended"
        assert (site.job(waiting).phase, site.job(running).phase) == ("queued", "running")
        assert site.job(waiting).reason_code == "outranked"
        site.agent("roomy")
        assert site.done(waiting)[0].phase == "finished"

        small_disk.free()
        until(lambda: remark(site, "full") == "", 20, "the end of the trouble")
        later = [site.submit(argv=["true"], env={}) for _ in range(3)]
        assert {job.phase for job in site.done(*later)} == {"finished"}
        job = site.job(running)
        assert (job.phase, job.epoch, job.restarts) == ("running", 1, 0)
        steps = [step[1] for step in site.steps(running)]
        assert steps == list(range(len(steps)))
        assert "Traceback" not in site.log("full")
        site.client.cancel([running])
        site.done(running)
