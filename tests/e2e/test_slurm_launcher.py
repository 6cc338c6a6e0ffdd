"""The launcher of attempts alone, on a real Slurm: what it does when Slurm does not do as it is asked."""

import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

import real_slurm
from live import until
from rota.core.errors import ConfigError
from rota.deploy.clocks import machine_s
from rota.deploy.providers.slurm.attempt_launcher import HOLDER, NUMBER, AttemptLauncher
from rota.deploy.providers.slurm.settings import SlurmSettings
from rota.deploy.worker.host import Host
from rota.deploy.worker.inventory import inspect
from rota.deploy.worker.launcher import LaunchPostponed
from rota.deploy.worker.spec import TaskId, TaskSpec
from rota.deploy.worker.status import Phase
from rota.deploy.worker.tasks import Lease
from slurm_site import processes_of_job

pytestmark = pytest.mark.skipif(bool(real_slurm.missing()), reason=f"Slurm: {real_slurm.missing()}")


@pytest.fixture(scope="module")
def slurm():
    with real_slurm.RealSlurm(nodes=1) as running:
        yield running


@pytest.fixture
def launcher(slurm, monkeypatch):
    monkeypatch.setenv("SLURM_CONF", str(slurm.conf))
    return AttemptLauncher(
        SlurmSettings(partition="gpu", gres="gpu:v100:4", notice_s=10.0), "n1", "v100", emulated=False
    )


@pytest.fixture
def host(tmp_path, launcher):
    made = Host(tmp_path, inspect(), more=(launcher,))
    yield made
    made.close()


@pytest.fixture
def others_have_all_gpus(slurm, tmp_path):
    script = tmp_path / "other.sh"
    script.write_text("#!/bin/sh\nsleep 1000\n")
    said = slurm.run("sbatch", "--parsable", "--gres=gpu:4", "--mem=100", "--chdir=/", "-o", "/dev/null", str(script))
    until(lambda: slurm.jobs()[int(said)] == "RUNNING", 20)
    yield
    slurm.run("scancel", said.strip())
    until(lambda: slurm.states() == ["idle"], 30)


def a_task(job, *argv, **more):
    return TaskSpec(id=TaskId(str(job), 1), argv=argv or ("sleep", "1000"), devices=("0",), launcher="slurm", **more)


def lease(seconds):
    return Lease(machine_s() + seconds)


def test_slurms_own_words_say_why_an_attempt_does_not_start_and_its_batch_job_is_taken_back(
    host, launcher, slurm, others_have_all_gpus
):
    launcher.start_within_s = 1.0
    with pytest.raises(LaunchPostponed, match=r"has not started its batch job \d+ in time \(PENDING (Resources|None)"):
        host.start(a_task(1), lease(100))

    assert host.table.ids() == []
    assert "PENDING" not in slurm.jobs().values()


def test_a_batch_job_that_starts_after_its_lease_does_nothing(host, launcher, slurm, monkeypatch):
    """The agent is killed right after it submitted: nobody is there to take the batch job back."""

    def killed(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(launcher, "_wait_until_it_runs", killed)
    monkeypatch.setattr(launcher, "clean", lambda _: None)
    monkeypatch.setattr(host.table, "forget", lambda _: None)

    with pytest.raises(KeyboardInterrupt):
        host.start(a_task(2), lease(2.0))

    number = int((host.table.path(TaskId("2", 1)) / NUMBER).read_text())
    until(lambda: slurm.jobs()[number] == "FAILED", 20)
    assert "ExitCode=75:0" in slurm.run("scontrol", "show", "job", str(number))


def test_nothing_runs_on_after_the_lease_when_the_supervisor_is_dead_too(host, slurm):
    host.start(a_task(3), lease(12.0))
    folder = host.table.path(TaskId("3", 1))
    number = int((folder / NUMBER).read_text())
    marked = subprocess.run(["pgrep", "-f", str(folder)], check=True, capture_output=True, text=True).stdout.split()
    supervisors = [
        int(pid) for pid in marked if "shim.py" in Path(f"/proc/{pid}/cmdline").read_text().replace("\0", " ")
    ]
    assert supervisors

    for pid in supervisors:
        os.kill(pid, signal.SIGKILL)

    until(lambda: slurm.jobs()[number] == "FAILED", 30)
    assert slurm.states() == ["idle"]


def test_a_task_that_is_killed_ends_its_batch_job_before_it_counts_as_ended(host, slurm):
    task = TaskId("4", 1)
    host.start(a_task(4, "/bin/sh", "-c", "setsid sleep 1000 & setsid sleep 1000"), lease(100))
    number = int((host.table.path(task) / NUMBER).read_text())
    now = time.monotonic()
    ending = host.ending(task, 0.0, 0.0, now)

    until(lambda: ending.advance(time.monotonic()) is None, 20)

    assert host.status(task).phase is Phase.ENDED
    assert processes_of_job(slurm, number) == []
    host.forget(task)


def test_term_reaches_the_command_and_not_the_program_that_watches_it(host, launcher, tmp_path):
    out = tmp_path / "out"
    script = (
        "import signal, sys, time\n"
        "def end(*_):\n    open(sys.argv[1], 'w').write('term')\n    sys.exit(4)\n"
        "signal.signal(15, end)\nopen(sys.argv[1] + '.up', 'w')\ntime.sleep(1000)\n"
    )
    host.start(a_task(5, sys.executable, "-c", script, str(out)), lease(100))
    task = TaskId("5", 1)
    until(out.with_suffix(".up").exists, 20)

    launcher.signal(host.table.path(task), signal.SIGTERM)

    until(lambda: host.status(task).phase is Phase.ENDED, 20)
    assert out.read_text() == "term"
    assert host.status(task).exit.code == 4


def test_what_slurm_cannot_give_is_refused_or_postponed_with_its_words(host, launcher):
    with pytest.raises(ConfigError, match="containers are not possible"):
        host.start(a_task(6, image="host"), lease(100))
    launcher.settings = replace(launcher.settings, partition="nosuch")
    with pytest.raises(LaunchPostponed, match="invalid partition specified: nosuch"):
        host.start(a_task(7), lease(100))


def test_a_notice_of_slurm_is_in_the_status_of_the_task(host, slurm):
    task = TaskId("8", 1)
    host.start(a_task(8), lease(100))
    number = (host.table.path(task) / NUMBER).read_text()

    slurm.run("scancel", "--batch", "--signal=USR1", number)

    until(lambda: "time limit" in host.status(task).notice, 10)
    slurm.run("scancel", number)
    until(lambda: host.status(task).phase is Phase.ENDED, 30)


@pytest.mark.parametrize("content", ["", "nan 0", "soon later", "1 2 3", "-1 0"])
def test_a_holder_without_a_lease_that_makes_sense_ends_at_once(tmp_path, content):
    (tmp_path / "notice").mkdir()
    if content:
        (tmp_path / "lease").write_text(content)

    done = subprocess.run([sys.executable, "-S", "-E", str(HOLDER), str(tmp_path)], check=False, timeout=10)

    assert done.returncode == 75
