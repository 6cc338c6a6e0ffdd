"""What operators do to a pool of pilots, and what happens to them: on a real Slurm."""

import contextlib
import os
import shutil
import signal
import subprocess
import time

import pytest

import real_slurm
from live import until
from slurm_site import FAST, SlurmSite
from slurm_steps import SERVE, Steps

pytestmark = pytest.mark.skipif(bool(real_slurm.missing()), reason=f"Slurm: {real_slurm.missing()}")
ONE = ("--gres", "gpu:v100:4", "--time", "30m", "--nodes", "1")


@pytest.fixture(scope="module")
def slurm():
    with real_slurm.RealSlurm(nodes=2) as running:
        yield running


@pytest.fixture
def site(slurm, tmp_path):
    with SlurmSite(tmp_path, slurm, *FAST) as running:
        yield running
    until(lambda: not living(slurm), 60)


def living(slurm):
    """{number: comment} of the batch jobs that wait or run."""
    said = slurm.run("squeue", "-h", "-t", "PENDING,RUNNING,COMPLETING", "-o", "%i|%k")
    return {int(number): comment for number, comment in (line.split("|") for line in said.splitlines())}


def refused(site, *arguments, folder="pools"):
    """What `rota pilots start` says when it does not start."""
    return site.run(
        "pilots", "start", "--slurm", "--pool", "gpu", "--partition", "gpu", "--emulate", "--trust-tenants",
        "--folder", str(site.folder / folder), *site.connection, *arguments, code=2,
    )  # fmt: skip


def test_a_keeper_killed_while_sbatch_has_not_answered_has_one_pilot_afterwards(site, slurm, monkeypatch):
    programs = site.folder / "bin"
    programs.mkdir()
    go = site.folder / "go"
    (programs / "sbatch").write_text(
        f'#!/bin/sh\ntouch {go}.waits\nwhile [ ! -e {go} ]; do sleep 0.1; done\nexec {shutil.which("sbatch")} "$@"\n'
    )
    (programs / "sbatch").chmod(0o755)
    with monkeypatch.context() as slow:
        slow.setenv("PATH", f"{programs}:{os.environ['PATH']}")
        keeper = subprocess.Popen(
            [*site.rota, "pilots", "start", "--slurm", "--pool", "gpu", "--partition", "gpu", "--emulate",
             "--trust-tenants", "--notice", "10", "--folder", str(site.folder / "pools"), "--work-dir", str(site.work),
             *site.connection, *ONE],
            env=site.env, cwd=site.folder, stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
    until((site.folder / "go.waits").exists, 60)
    keeper.kill()
    keeper.wait()

    site.pool(*ONE)
    assert living(slurm) == {}
    go.touch()

    (name,) = site.until_up(1)
    assert list(living(slurm).values()) == [f"rota-pilot={name}"]


@pytest.mark.long
def test_a_second_keeper_ends_with_a_reason_and_touches_no_pilot(site, slurm):
    site.pool(*ONE)
    (name,) = site.until_up(1)
    before = living(slurm)

    same = refused(site, *ONE)
    other = refused(site, *ONE, "--nodes", "2", folder="elsewhere")
    stopping = site.run("pilots", "stop", "gpu", "--folder", str(site.folder / "elsewhere"), *site.connection, code=2)

    assert f"is kept by process {site.processes['pool-gpu'].pid} already" in same
    assert f"is pilot {name} of the pool in {site.folder}/pools/gpu" in other
    assert f"is pilot {name} of the pool in {site.folder}/pools/gpu" in stopping
    assert living(slurm) == before


def test_a_partition_that_does_not_exist_is_told_in_slurms_words(site, slurm):
    site.pool(*ONE, "--partition", "nosuch")

    listed = site.run("pilots", "--folder", str(site.folder / "pools"), *site.connection)

    assert "Slurm refuses more pilots: sbatch: error: invalid partition specified: nosuch" in listed
    assert living(slurm) == {}


@pytest.mark.long
def test_no_name_or_command_of_a_job_reaches_slurm(site, slurm):
    site.pool(*ONE, "--per-attempt")
    site.until_up(1)
    words = ("two\nlines", "100%j %x", "a'b\"c$(id)`id`", "x" * 2000)
    with site.client() as client:
        jobs = client.submit(
            [
                {"argv": ["/bin/echo", word], "gpus": 1, "cwd": "/", "name": word[:50].replace("\n", " ")}
                for word in words
            ]
        )
        for job, word, info in zip(jobs, words, client.wait(jobs, 120), strict=True):
            assert info.phase == "finished"
            assert until(lambda job=job: b"".join(client.logs(job)).decode(), 10) == f"{word}\n"
    shown = slurm.run("scontrol", "show", "job", "-o")
    for job, word in zip(jobs, words, strict=True):
        assert f"JobName=rota-job-{job} " in shown
        assert word[:50] not in shown


@pytest.mark.long
def test_a_pilot_on_a_node_that_slurm_drains_leaves_with_its_work_saved_and_is_replaced_elsewhere(site, slurm):
    site.pool(*ONE)
    site.until_up(1)
    (first,) = [row for row in site.pilots().values() if row["state"] == "up"]
    with site.client() as client:
        (job,) = client.submit([{"emulated": True, "profile": "resnet18-32", "steps": 10**8, "gpus": 2}])
        until(lambda: client.job(job).step > 0, 30)

        slurm.run("scontrol", "update", f"nodename={first['host']}", "state=drain", "reason=repair")

        until(lambda: (at := client.job(job).parts) and at[0].node != first["pilot"], 120)
        assert client.job(job).lost_steps == 0
        until(lambda: "drained" in slurm.states(), 30)
        slurm.run("scontrol", "update", f"nodename={first['host']}", "state=resume")
        client.cancel([job])


@pytest.fixture
def small_disk(tmp_path):
    disk = tmp_path / "disk"
    disk.mkdir()
    made = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", disk], check=False, capture_output=True)
    if made.returncode:
        pytest.skip(f"no tmpfs can be mounted here: {made.stderr.decode().strip()}")
    yield disk
    subprocess.run(["umount", "-l", disk], check=True)


@pytest.mark.long
def test_a_full_disk_ends_neither_the_keeper_nor_pilots_and_they_are_replaced_when_there_is_room(
    small_disk, site, slurm
):
    site.pool(*ONE, "--folder", str(small_disk / "pools"))
    site.until_up(1)
    (first,) = living(slurm)
    with contextlib.suppress(OSError), (small_disk / "filler").open("wb", buffering=0) as filler:
        while True:
            filler.write(bytes(512))
    slurm.run("scancel", str(first))
    log = site.folder / "pool-gpu.log"
    until(lambda: "the pool cannot be kept" in log.read_text(), 40)
    assert "No space left on device" in log.read_text()

    (small_disk / "filler").unlink()

    until(lambda: "the pool is kept again" in log.read_text(), 40)
    until(lambda: first not in living(slurm) and len(living(slurm)) == 1, 60)
    site.until_up(1)
    assert site.processes["pool-gpu"].poll() is None


@pytest.mark.long
def test_a_slurmctld_that_forgot_everything_gets_one_pilot_for_each_node_again(slurm, tmp_path):
    with SlurmSite(tmp_path, slurm, *SERVE) as site:
        site.pool("--gres", "gpu:v100:4", "--time", "30m", "--nodes", "2")
        before = set(site.until_up(2))
        steps = Steps(site)
        with site.client() as client:
            jobs = steps.submit(client, 2, steps=400)
            slurm.kill("slurmctld")
            slurm.start_controller(clean=True)

            def again():
                return len(found := site.up()) == 2 and before.isdisjoint(found)

            until(again, 240, "two pilots are asked for again")
            hosts = [row["host"] for row in site.pilots().values() if row["state"] == "up"]
            assert sorted(hosts) == ["n1", "n2"]
            steps.check(client, jobs, steps=400, again=400)
    until(lambda: not living(slurm), 60)


@pytest.mark.long
def test_a_scheduler_killed_while_slurmctld_hangs_has_a_keeper_again(slurm, tmp_path):
    nodes = "slurm:partition=gpu,gres=gpu:v100:4,nodes=1,time=10m,notice=10,emulate,trust-tenants,every=1,folder="
    nodes += str(tmp_path / "pools")
    with SlurmSite(tmp_path, slurm, *FAST, "--nodes", nodes) as site:
        said = tmp_path / "state.db.pilots.log"
        site.until_up(1)
        until(lambda: "pilots asked for" in said.read_text(), 20)
        before = living(slurm)
        controller = slurm.processes["slurmctld"].pid
        os.kill(controller, signal.SIGSTOP)
        try:
            time.sleep(2)  # the keeper looks every second
            site.kill("serve")
            site.serve()
            until(lambda: "Slurm does not answer, trying again" in said.read_text(), 60)
        finally:
            os.kill(controller, signal.SIGCONT)

        until(lambda: said.read_text().count("1 pilots asked for") == 2, 90, "there is a keeper again")
        site.until_up(1)
        assert living(slurm) == before
        assert "the keeper of pilots ended" not in (tmp_path / "serve.log").read_text()
        site.run("pilots", "stop", "--now", "--folder", str(tmp_path / "pools"), *site.connection)


@pytest.mark.long
@pytest.mark.parametrize("ahead_s", [-600.0, 600.0])
def test_clocks_that_differ_by_ten_minutes_between_keeper_and_nodes_change_nothing(
    slurm, tmp_path, monkeypatch, ahead_s
):
    """The scheduler and the keeper have this clock; Slurm and its pilots that of the machine."""
    (tmp_path / "clock").write_text(str(ahead_s))
    monkeypatch.setenv("ROTA_TEST_WALL_CLOCK", str(tmp_path / "clock"))
    with SlurmSite(tmp_path, slurm, *FAST) as site:
        site.pool(*ONE)
        site.until_up(1)
        with site.client() as client:
            (job,) = client.submit([{"argv": ["/bin/date"], "gpus": 1, "cwd": "/", "max_restarts": 0}])
            assert client.wait([job], 60)[0].phase == "finished"
        (row,) = [row for row in site.pilots().values() if row["state"] == "up"]
        assert 1700 < row["left_s"] <= 1800
    until(lambda: not living(slurm), 60)
