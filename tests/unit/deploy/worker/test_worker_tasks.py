"""The agent's memory on disk."""

import subprocess
import sys

import pytest

from rota.core.errors import ConfigError
from rota.deploy.worker.spec import TaskId, TaskSpec
from rota.deploy.worker.tasks import TaskTable

ON_A_FULL_DISK = """
import pathlib, sys
from rota.core.errors import OutputError
from rota.deploy.worker.spec import TaskId, TaskSpec
from rota.deploy.worker.tasks import TaskTable
folder = pathlib.Path(sys.argv[1])
table = TaskTable(folder)
table.add(TaskSpec(TaskId("before"), ("true",)))
try:
    with (folder / "filler").open("wb", buffering=0) as file:
        while True:
            file.write(b"x" * 4096)
except OSError:
    pass
try:
    table.add(TaskSpec(TaskId("after"), ("true",), {"LONG": "x" * 20000}))
except OutputError as error:
    sys.stdout.write(f"{error}|{[str(t) for t in table.ids()]}|{sorted(p.name for p in table.tasks_folder.iterdir())}")
"""


@pytest.fixture
def table(tmp_path):
    table = TaskTable(tmp_path / "agent")
    yield table
    table.close()


def a_spec(job="j1", **change):
    return TaskSpec(TaskId(job), ("true",), **change)


def test_a_task_is_remembered_by_the_next_agent(table, tmp_path):
    table.add(a_spec(env={"A": "b"}))
    table.close()

    again = TaskTable(tmp_path / "agent")

    assert again.ids() == [TaskId("j1")]
    assert again.spec(TaskId("j1")) == a_spec(env={"A": "b"})
    again.close()


def test_two_agents_in_one_folder_are_refused(table, tmp_path):
    with pytest.raises(ConfigError, match="another agent uses"):
        TaskTable(tmp_path / "agent")


def test_a_task_is_added_once(table):
    table.add(a_spec())

    with pytest.raises(ConfigError, match="already here"):
        table.add(a_spec())


def test_forgetting_removes_the_folder_and_may_be_repeated(table):
    folder = table.add(a_spec())

    table.forget(TaskId("j1"))
    table.forget(TaskId("j1"))

    assert not folder.exists()
    assert table.ids() == []
    with pytest.raises(ConfigError, match="not on this machine"):
        table.spec(TaskId("j1"))


def test_what_a_dead_agent_was_just_writing_is_removed(table, tmp_path):
    table.close()
    (table.tasks_folder / ".j2.0.0.part/logs").mkdir(parents=True)

    again = TaskTable(tmp_path / "agent")

    assert again.ids() == []
    assert list(again.tasks_folder.iterdir()) == []
    again.close()


def test_a_damaged_description_is_named(table):
    folder = table.add(a_spec())
    (folder / "spec.json").write_text("{")

    with pytest.raises(ConfigError, match=r"spec\.json cannot be read"):
        table.spec(TaskId("j1"))


def test_descriptions_are_for_the_owner_only(table):
    folder = table.add(a_spec())

    assert folder.stat().st_mode & 0o077 == 0
    assert (folder / "spec.json").stat().st_mode & 0o077 == 0


def test_a_full_disk_leaves_no_half_task(tmp_path):
    mount = f"mount -t tmpfs -o size=128k tmpfs {tmp_path}"
    if subprocess.run(["unshare", "--mount", "sh", "-c", mount], check=False, capture_output=True).returncode:
        pytest.skip("no small file system can be mounted here")

    script = f'{mount} && exec "$0" -c "$1" {tmp_path}'
    done = subprocess.run(
        ["unshare", "--mount", "sh", "-c", script, sys.executable, ON_A_FULL_DISK],
        check=False,
        capture_output=True,
        text=True,
    )

    assert done.returncode == 0, done.stderr
    message, ids, files = done.stdout.split("|")
    assert "cannot write task after.0.0" in message
    assert "No space left" in message
    assert ids == files == "['before.0.0']"
