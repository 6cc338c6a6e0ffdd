"""What is asked of Slurm where each attempt has a batch job of its own."""

import os
import signal
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from live import until
from real_slurm import as_user
from rota.client.termination import leave_term_to_the_agent
from rota.core.errors import ConfigError
from rota.deploy.agent.process_runner import _outcome_of_failed_start
from rota.deploy.providers.beside import pilots_arguments
from rota.deploy.providers.orders import pilot_command
from rota.deploy.providers.pool_folder import PoolSettings
from rota.deploy.providers.slurm import attempt_ending
from rota.deploy.providers.slurm.allocation import allocation
from rota.deploy.providers.slurm.attempt_batch import attempt_script, batch_of, step_words
from rota.deploy.providers.slurm.attempt_launcher import launcher_of_pool
from rota.deploy.providers.slurm.hosts import hosts_taken, hosts_that_fit
from rota.deploy.providers.slurm.settings import SlurmSettings, settings_from
from rota.deploy.worker.launcher import LaunchPostponed
from rota.deploy.worker.spec import TaskId, TaskSpec
from rota.deploy.worker.users import JobUser

SETTINGS = SlurmSettings(partition="gpu", gres="gpu:v100:4", time_s=14_400.0, per_attempt=True)
NODE = {"NodeName": "n1", "Gres": "gpu:v100:4", "CPUTot": "48", "RealMemory": "256000", "State": "IDLE"}
NOBODY = 65534
ON_NODE = {"SLURM_JOB_ID": "12", "SLURMD_NODENAME": "n1"}


def a_rank(rank=0, ranks=1, devices=("0", "1"), **more):
    env = {"LOCAL_RANK": str(rank), "LOCAL_WORLD_SIZE": str(ranks), "SECRET": "hunter2"}
    return TaskSpec(id=TaskId("17", 3, rank), argv=("train", "me"), env=env, devices=devices, **more)


def test_a_batch_job_has_the_resources_of_its_attempt_and_names_nothing_but_its_number():
    user = JobUser(name="ada", uid=1001, gid=100, home="/home/ada")

    words = batch_of(a_rank(cpus=3.75, memory_gb=1.048576, user=user), "n1", "v100").words(SETTINGS, Path("/x/a.sh"))

    assert {
        "--no-requeue", "--nodelist=n1", "--gres=gpu:v100:2", "--cpus-per-task=3", "--mem=1000M", "--time=04:00:00",
        "--signal=B:USR1@120", "--job-name=rota-job-17", "--comment=rota-attempt=17.3", "--uid=1001", "--gid=100",
        "--partition=gpu", "--export=PATH",
    } <= set(words)  # fmt: skip
    assert "train" not in " ".join(words)
    assert "hunter2" not in " ".join(words)


def test_one_batch_job_has_room_for_all_ranks_of_an_attempt_on_a_server():
    batch = batch_of(a_rank(rank=1, ranks=4, devices=("2",), cpus=1.5, memory_gb=1.0), "n1", "v100")

    assert (batch.gpus, batch.cpus, batch.memory_mib) == (4, 6, 3814)


def test_an_attempt_always_has_a_cpu_and_without_a_limit_the_memory_of_the_site():
    batch = batch_of(a_rank(cpus=0.01), "n1", "v100")

    assert batch.cpus == 1
    assert not [word for word in batch.words(SETTINGS, Path("/x")) if word.startswith("--mem")]


def test_the_step_of_a_rank_uses_what_slurm_gave_and_no_other_device():
    alone = step_words("/usr/bin/srun", "71", a_rank(), emulated=True)
    second = step_words("/usr/bin/srun", "71", a_rank(rank=1, ranks=2, devices=("1",)), emulated=False)

    assert alone[0] == "/usr/bin/srun"
    assert "--jobid=71" in alone
    assert alone[-2:] == ("train", "me")
    assert second[-4:] == ("2", "", "train", "me")  # the second device of the batch job


def test_the_script_of_an_attempt_quotes_its_words():
    assert attempt_script("17.3", ["python", "/a b/holder.py"]).splitlines()[-1] == "exec python '/a b/holder.py'"


def test_a_pilot_whose_attempts_have_batch_jobs_takes_no_gpu_itself():
    options = SETTINGS.options("n7")

    assert {"--nodelist=n7", "--cpus-per-task=1", "--mem=1024M"} <= set(options)
    assert not [option for option in options if option.startswith(("--gres", "--exclusive"))]
    assert settings_from(SETTINGS.values()) == SETTINGS


def test_its_agent_offers_what_the_pilot_and_its_successor_leave_of_the_node():
    whole = allocation("slurm-node::", ON_NODE, lambda *_: NODE)
    half = allocation("slurm-node:v100:2", ON_NODE, lambda *_: NODE)

    assert (whole.gpu_type, whole.devices, whole.cpus) == ("v100", ("0", "1", "2", "3"), 46.0)
    assert whole.memory_gb == pytest.approx((256_000 - 2 * 1024) * 1.048576e-3)
    assert (half.devices, half.cpus) == (("0", "1"), 23.0)


@pytest.mark.parametrize(
    ("gpus", "node", "word"),
    [
        ("slurm-node:v100:8", NODE, "has 4 GPUs"),
        ("slurm-node:a100:1", NODE, "name one type"),
        ("slurm-node::", {**NODE, "Gres": "gpu:4"}, "name one type"),
        ("slurm-node::", {**NODE, "Gres": "gpu:v100:2,gpu:k80:2"}, "name one type"),
        ("slurm-node::", {}, "name one type"),
    ],
)
def test_a_node_that_has_not_what_was_asked_for_is_said(gpus, node, word):
    with pytest.raises(ConfigError, match=word):
        allocation(gpus, ON_NODE, lambda *_: node)


def test_outside_of_slurm_there_is_one_clear_message(monkeypatch, tmp_path):
    monkeypatch.delenv("SLURMD_NODENAME", raising=False)

    with pytest.raises(ConfigError, match="SLURMD_NODENAME is not set"):
        allocation("slurm-node::", {}, lambda *_: NODE)
    with pytest.raises(ConfigError, match="SLURMD_NODENAME is not set"):
        launcher_of_pool(str(tmp_path), "v100", emulated=False)


def test_a_node_has_one_such_pilot_until_its_time_is_nearly_over():
    other = {**NODE, "NodeName": "n2", "Partitions": "gpu"}
    nodes = [{**NODE, "Partitions": "gpu"}, other, {**other, "NodeName": "n3", "State": "IDLE+DRAIN"}]

    assert hosts_that_fit(nodes, SETTINGS) == ["n1", "n2"]
    assert hosts_that_fit(nodes, SETTINGS, allowed=["n2"]) == ["n2"]
    assert hosts_that_fit(nodes, replace(SETTINGS, partition="cpu,gpu")) == ["n1", "n2"]
    assert hosts_that_fit(nodes, replace(SETTINGS, partition="cpu")) == []
    assert hosts_that_fit([*nodes, {"Gres": "gpu:v100:4", "Partitions": "gpu"}], SETTINGS) == ["n1", "n2"]
    assert hosts_that_fit(nodes, replace(SETTINGS, gres="gpu:a100:1")) == []


@pytest.mark.parametrize(
    ("state", "fits"),
    [
        ("MIXED+PLANNED", True),
        ("IDLE+CLOUD+POWERED_DOWN", True),
        ("ALLOCATED+RESERVED", True),
        ("IDLE+POWERING_DOWN", False),
        ("IDLE*", False),
        ("DOWN*+DRAIN", False),
        ("MIXED+NOT_RESPONDING", False),
        ("DOWN+INVALID_REG", False),
    ],
)
def test_nodes_that_are_gone_get_no_pilot_and_those_asleep_only_after_those_awake(state, fits):
    nodes = [{**NODE, "Partitions": "gpu", "State": state}, {**NODE, "NodeName": "n2", "Partitions": "gpu"}]

    found = hosts_that_fit(nodes, SETTINGS)

    assert found == ((["n2", "n1"] if "POWERED" in state else ["n1", "n2"]) if fits else ["n2"])
    rows = [["n1", "n1", "1:00:00"], ["n2", "", "INVALID"], ["n4", "n4", "0:30"]]
    assert hosts_taken(rows, 60.0) == {"n1", "n2"}


def test_the_command_of_such_a_pilot_names_the_pool_and_what_attempts_may_have(tmp_path):
    settings = PoolSettings(
        name="gpu", least=1, most=1, slurm=replace(SETTINGS, cpus=16, mem="100G"), scheduler="h:1", certs="/c"
    )

    words = pilot_command(settings, "gpu-0", tmp_path / "tickets" / "gpu-0", 7.0)

    assert words[words.index("--per-attempt") + 1] == str(tmp_path)
    assert words[words.index("--gpus") + 1] == "slurm-node:v100:4"
    assert words[words.index("--cpus") + 1] == "16"
    assert words[words.index("--memory-gb") + 1] == "107.374"
    assert "--whole-node" in words


@pytest.mark.parametrize(
    ("fields", "word"),
    [
        ({"per_attempt": True, "exclusive": True}, "leave --exclusive out"),
        ({"more": ("--requeue",)}, "not requeued but replaced"),
    ],
)
def test_settings_that_contradict_each_other_are_refused(fields, word):
    with pytest.raises(ConfigError, match=word):
        SlurmSettings(**fields)


def test_a_scheduler_can_be_told_so_too():
    assert pilots_arguments("slurm:partition=gpu,per-attempt,agent-config=/a.toml") == [
        "--slurm", "--partition", "gpu", "--per-attempt", "--agent-config", "/a.toml",
    ]  # fmt: skip


def test_a_batch_system_without_room_is_no_failure_of_the_job():
    assert _outcome_of_failed_start(LaunchPostponed("later")).value == "stopped"
    assert _outcome_of_failed_start(OSError("full")).value == "lost"
    assert _outcome_of_failed_start(ConfigError("wrong")).value == "failed"


@pytest.fixture
def term_as_before():
    kept = signal.getsignal(signal.SIGTERM)
    yield
    signal.signal(signal.SIGTERM, kept)


def test_training_code_leaves_term_to_the_agent_unless_it_does_something_about_it(term_as_before):
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    leave_term_to_the_agent()
    signal.raise_signal(signal.SIGTERM)  # or this test has ended here

    def own(*_):
        pass

    signal.signal(signal.SIGTERM, own)
    leave_term_to_the_agent()
    assert signal.getsignal(signal.SIGTERM) is own


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can start processes of others")
def test_processes_of_another_user_do_not_pass_for_those_of_a_batch_job(tmp_path):
    (tmp_path / "notice").mkdir()
    os.chown(tmp_path / "notice", NOBODY, NOBODY)
    nobody = attempt_ending.user_of(tmp_path)
    number = f"99{os.getpid()}"
    command = [*as_user(NOBODY), "sleep", "60"]

    with subprocess.Popen(command, env={"PATH": os.environ["PATH"], "SLURM_JOB_ID": number}) as decoy:
        until(lambda: attempt_ending.processes_of(number, nobody) == [decoy.pid], 10)
        until(lambda: attempt_ending.processes_of(number, NOBODY - 1) == [], 10)  # it begins as a process of ours
        assert attempt_ending.wait_for_end(number, 5.0, NOBODY - 1)
        assert not attempt_ending.wait_for_end(number, 0.0, nobody)
        assert attempt_ending.processes_of(number, attempt_ending.user_of(tmp_path / "gone")) == [decoy.pid]
        decoy.kill()
