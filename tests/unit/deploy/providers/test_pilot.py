"""A pilot on its machine: which devices are its own, and signals that come at the wrong moment."""

import os
import signal
import subprocess
import sys

import pytest

from rota.deploy.providers import pilot

TRIES = """
import sys, time
from pathlib import Path
from rota.deploy.providers import pilot
pilot._LOCK_S = 0.0
with pilot._locked_devices(Path(sys.argv[1])) as free:
    print(free)
"""


@pytest.fixture
def signals():
    before = {number: signal.getsignal(number) for number in pilot._PASSED_ON}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


def another_one(folder, **environ):
    """Whether a second pilot on this node gets its devices."""
    env = {**os.environ, "SLURMD_NODENAME": "n1", "SLURM_CLUSTER_NAME": "c", **environ}
    done = subprocess.run([sys.executable, "-c", TRIES, folder], check=True, env=env, capture_output=True, text=True)
    return done.stdout.strip() == "True"


def test_devices_are_locked_by_their_numbers_on_the_node_where_every_job_counts_its_own_from_0(tmp_path, monkeypatch):
    for name, value in {"SLURMD_NODENAME": "n1", "SLURM_CLUSTER_NAME": "c", "CUDA_VISIBLE_DEVICES": "0,1"}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("SLURM_JOB_GPUS", "0,1")

    with pilot._locked_devices(tmp_path) as free:
        assert free
        assert another_one(tmp_path, SLURM_JOB_GPUS="2,3", CUDA_VISIBLE_DEVICES="0,1")
        assert not another_one(tmp_path, SLURM_JOB_GPUS="1,2", CUDA_VISIBLE_DEVICES="0,1")


def test_locks_are_not_put_where_a_link_of_somebody_else_leads(tmp_path):
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / f"rota-devices-{os.geteuid()}").symlink_to(tmp_path / "elsewhere")

    with pytest.raises(SystemExit, match="leads elsewhere"), pilot._locked_devices(tmp_path):
        pass

    assert list((tmp_path / "elsewhere").iterdir()) == []


def test_a_signal_that_comes_before_there_is_an_agent_reaches_it(signals):
    one = pilot.Pilot()
    one.told.append(signal.SIGTERM)

    assert one.run(["sleep", "60"]) == -signal.SIGTERM


def test_a_signal_does_not_keep_what_an_agent_left_from_being_ended(signals, tmp_path):
    one = pilot.Pilot()
    kill = "import os; [os.kill(one, 15) for one in (os.getpid(), os.getppid())]"

    one.run_undisturbed([sys.executable, "-c", f"{kill}; open({str(tmp_path / 'done')!r}, 'w')"])

    assert (tmp_path / "done").exists()
