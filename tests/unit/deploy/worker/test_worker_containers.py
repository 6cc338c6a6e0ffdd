"""Container engines: what they are told, and what is said where they are missing."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from rota.core.errors import ConfigError, UnknownName
from rota.deploy.worker.container import EngineLauncher
from rota.deploy.worker.launcher import choose
from rota.deploy.worker.limits import RlimitBackend
from rota.deploy.worker.mps import Mps, unavailable
from rota.deploy.worker.process import ProcessLauncher
from rota.deploy.worker.runc import RuncLauncher
from rota.deploy.worker.spec import TaskId, TaskSpec
from rota.deploy.worker.users import JobUser


def a_spec(**change):
    return TaskSpec(**{"id": TaskId("j1"), "argv": ("train", "--fast"), "image": "ours/train:1", **change})


def launchers(tmp_path):
    found = (
        ProcessLauncher(RlimitBackend()),
        EngineLauncher("docker"),
        EngineLauncher("podman"),
        RuncLauncher(RlimitBackend(), tmp_path),
    )
    return {launcher.name: launcher for launcher in found}


def test_the_engine_is_told_limits_devices_and_where_variables_are():
    spec = a_spec(cpus=1.5, memory_gb=2, cpu_ids=(0, 3), devices=("0", "2"), checkpoints="/ckpt", mounts=("/data:ro",))

    argv = EngineLauncher("docker", "k-", gpus=True).arguments(spec, Path("/task/variables"))

    assert argv[:3] == ("docker", "run", "--name=rota-k-j1.0.0")
    assert argv[-3:] == ("ours/train:1", "train", "--fast")
    assert {"--cpuset-cpus=0,3", "--cpus=1.5", "--memory=2000000000b", '--gpus="device=0,2"'} <= set(argv)
    assert {"--volume=/data:/data:ro", "--volume=/ckpt:/ckpt:rw", "--env-file=/task/variables"} <= set(argv)
    assert {"--cap-drop=ALL", "--security-opt=no-new-privileges", "--pids-limit=16384"} <= set(argv)
    assert "--privileged" not in argv


def test_the_engine_runs_a_task_as_its_user():
    user = JobUser(name="vision", uid=1234, gid=1235, home="/home/vision")

    assert "--user=1234:1235" in EngineLauncher("docker").arguments(a_spec(user=user), Path("/variables"))


@pytest.mark.parametrize("folder", ["/data:/etc", "/data,src=/etc", '/a"b', "/a\nb"])
def test_a_folder_that_an_engine_could_take_for_something_else_is_refused(folder):
    with pytest.raises(ConfigError, match="cannot be used with a container"):
        EngineLauncher("docker").arguments(a_spec(cwd=folder), Path("/variables"))


@pytest.mark.parametrize("env", [{"A B": "x"}, {"A": "x\nPATH=/evil"}, {"A": "x\rB"}, {"": "x"}])
def test_variables_that_a_file_cannot_hold_are_refused(env, tmp_path):
    with pytest.raises(ConfigError, match=r"task j1\.0\.0"):
        EngineLauncher("docker").start(a_spec(env=env), tmp_path)


def test_the_engine_is_asked_to_change_limits_and_its_refusal_is_told(tmp_path, monkeypatch):
    program = tmp_path / "docker"
    program.write_text(
        f'#!/bin/sh\necho "$@" >> {tmp_path}/said\n'
        f"[ -e {tmp_path}/good ] || {{ echo no such container >&2; exit 1; }}\n"
    )
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    spec = a_spec(cpus=0.5, memory_gb=1, cpu_ids=(3,))

    with pytest.raises(ConfigError, match=r"docker cannot change the limits of task j1\.0\.0: no such container"):
        EngineLauncher("docker", "k-").resize(spec, tmp_path / "j1.0.0")

    (tmp_path / "good").touch()
    EngineLauncher("docker", "k-").resize(spec, tmp_path / "j1.0.0")
    assert (tmp_path / "said").read_text().splitlines()[-1] == (
        "update --cpuset-cpus=3 --cpus=0.5 --memory=1000000000b --memory-swap=1000000000b rota-k-j1.0.0"
    )


def test_emulated_devices_are_not_asked_of_the_engine():
    argv = EngineLauncher("docker").arguments(a_spec(devices=("0",)), Path("/variables"))

    assert not any(argument.startswith("--gpus") for argument in argv)


@pytest.mark.parametrize("engine", ["docker", "podman"])
def test_an_engine_that_does_not_answer_says_so(engine):
    why = EngineLauncher(engine).unavailable()

    if shutil.which(engine) is None:
        assert why == f"{engine} is not installed"
    elif subprocess.run([engine, "info"], check=False, capture_output=True).returncode:
        assert why.startswith(f"{engine} has no daemon here: ")
    else:
        assert why == ""


def test_a_task_without_an_image_is_a_process(tmp_path):
    assert choose(a_spec(image=""), launchers(tmp_path)).name == "process"


def test_the_launcher_a_task_names_is_taken(tmp_path):
    assert choose(a_spec(launcher="process"), launchers(tmp_path)).name == "process"
    with pytest.raises(UnknownName, match="did you mean 'docker'"):
        choose(a_spec(launcher="dokcer"), launchers(tmp_path))


def test_no_launcher_for_an_image_lists_the_reasons(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))

    with pytest.raises(ConfigError, match="docker is not installed; podman is not installed"):
        choose(a_spec(), launchers(tmp_path))
    with pytest.raises(ConfigError, match="runc is not installed"):
        choose(a_spec(image="host"), launchers(tmp_path))
    with pytest.raises(ConfigError, match="cannot use launcher 'runc': runc is not installed"):
        choose(a_spec(launcher="runc"), launchers(tmp_path))


def test_an_image_that_is_no_folder_is_refused_by_runc(tmp_path):
    with pytest.raises(ConfigError, match="not a folder with a root file system"):
        RuncLauncher(RlimitBackend(), tmp_path / "state").start(a_spec(image="/no/such/folder"), tmp_path)


def test_mps_without_a_gpu_is_refused(tmp_path):
    with pytest.raises(ConfigError, match="this machine has none; submit the job without space sharing"):
        Mps(tmp_path, 0).start("0")


def test_mps_without_its_program_is_refused(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))

    assert "nvidia-cuda-mps-control" in unavailable(1)


def test_one_mps_daemon_per_gpu_is_started_and_stopped(tmp_path, monkeypatch):
    """Against a stand-in program, as there is no GPU: it runs while a file is there."""
    program = tmp_path / "bin/nvidia-cuda-mps-control"
    program.parent.mkdir()
    program.write_text(
        "#!/bin/sh\n"
        'alive="$CUDA_MPS_PIPE_DIRECTORY/alive"\n'
        'log="$CUDA_MPS_LOG_DIRECTORY/calls"\n'
        'if [ "$1" = -d ]; then echo "start $CUDA_VISIBLE_DEVICES" >> "$log"; touch "$alive"; exit; fi\n'
        'read command; [ -e "$alive" ] || exit 1\n'
        'if [ "$command" = quit ]; then rm "$alive"; fi\n'
    )
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
    mps = Mps(tmp_path, 2)

    env = mps.start("1")
    mps.start("1")

    assert (Path(env["CUDA_MPS_LOG_DIRECTORY"]) / "calls").read_text() == "start 1\n"
    mps.stop("1")
    mps.stop("1")
    assert not (Path(env["CUDA_MPS_PIPE_DIRECTORY"]) / "alive").exists()
