"""Descriptions of tasks, the environment they get, and what an end means."""

import json
from pathlib import Path

import pytest

from rota.core.errors import ConfigError
from rota.deploy.worker.spec import TaskId, TaskSpec, environment
from rota.deploy.worker.status import ExitReason, judge

FOLDER = Path("/somewhere/tasks/j1.0.0")


def ended(code=None, signal=None, oom_kills=0, error=""):
    return {"code": code, "signal": signal, "oom_kills": oom_kills, "error": error}


@pytest.mark.parametrize("job", ["", "a/b", "..", "a.b", "x" * 81, "a b"])
def test_a_job_that_cannot_name_a_folder_is_refused(job):
    with pytest.raises(ConfigError, match="names a folder"):
        TaskId(job)


def test_ids_read_back():
    assert TaskId.parse(str(TaskId("j-1", 2, 3))) == TaskId("j-1", 2, 3)
    with pytest.raises(ConfigError, match=r"JOB\.EPOCH\.RANK"):
        TaskId.parse("j-1.2")


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"argv": ()}, "argv is empty"),
        ({"cpus": 0}, "cpus is 0"),
        ({"cpus": float("nan")}, "cpus is nan"),
        ({"memory_gb": -1}, "memory_gb is -1"),
        ({"log_mb": 0}, "log_mb is 0"),
        ({"cwd": "here"}, "not an absolute folder"),
        ({"env": {"A=B": ""}}, "name of an environment variable"),
        ({"env": {"A": "x\0y"}}, "NUL"),
    ],
)
def test_a_task_that_cannot_start_is_refused_with_its_name(change, says):
    with pytest.raises(ConfigError, match=rf"task j1\.0\.0: .*{says}"):
        TaskSpec(**{"id": TaskId("j1"), "argv": ("true",), **change})


def test_a_description_reads_back_from_json():
    spec = TaskSpec(TaskId("j1", 1, 2), ("a", "b"), {"K": "v"}, devices=("0", "1"), cpus=1.5, cpu_ids=(3, 4))

    assert TaskSpec.from_json(json.loads(json.dumps(spec.to_json()))) == spec
    with pytest.raises(ConfigError, match="unknown fields: sise"):
        TaskSpec.from_json({**spec.to_json(), "sise": 1})
    with pytest.raises(ConfigError, match="lacks argv"):
        TaskSpec.from_json({"id": "a.0.0"})


def test_only_harmless_variables_of_the_agent_pass():
    own = {"PATH": "/bin", "AWS_SECRET_ACCESS_KEY": "s", "ROTA_TOKEN": "t", "PYTHONPATH": "/x", "HOME": "/h"}

    env = environment(TaskSpec(TaskId("j1"), ("x",), {"MINE": "1"}), FOLDER, own)

    assert set(own) & set(env) == {"PATH", "HOME"}
    assert env["MINE"] == "1"


def test_a_task_cannot_pretend_to_be_another_or_take_other_devices():
    mine = {"ROTA_TASK": "other", "CUDA_VISIBLE_DEVICES": "7", "ROTA_TASK_FOLDER": "/elsewhere"}

    env = environment(TaskSpec(TaskId("j1"), ("x",), mine, devices=("0", "2")), FOLDER, {})

    assert env["ROTA_TASK"] == "j1.0.0"
    assert env["CUDA_VISIBLE_DEVICES"] == env["ROTA_DEVICES"] == "0,2"
    assert env["ROTA_TASK_FOLDER"] == str(FOLDER)


def test_a_task_without_devices_sees_none():
    assert environment(TaskSpec(TaskId("j1"), ("x",)), FOLDER, {})["CUDA_VISIBLE_DEVICES"] == ""


@pytest.mark.parametrize(
    ("values", "stopping", "reason"),
    [
        (ended(code=0), False, ExitReason.COMPLETED),
        (ended(code=0), True, ExitReason.COMPLETED),
        (ended(code=3), False, ExitReason.FAILED),
        (ended(code=3), True, ExitReason.KILLED),
        (ended(signal=9), False, ExitReason.KILLED),
        (ended(signal=11), False, ExitReason.FAILED),
        (ended(code=137), False, ExitReason.KILLED),
        (ended(signal=9, oom_kills=1), False, ExitReason.OUT_OF_MEMORY),
        (ended(code=1, oom_kills=1), False, ExitReason.OUT_OF_MEMORY),
        (ended(code=0, oom_kills=1), False, ExitReason.COMPLETED),
        (ended(code=127, error="cannot run"), False, ExitReason.FAILED),
    ],
)
def test_every_end_has_its_reason_and_keeps_code_and_signal(values, stopping, reason):
    exit_ = judge(values, stopping)

    assert exit_.reason is reason
    assert (exit_.code, exit_.signal) == (values["code"], values["signal"])
