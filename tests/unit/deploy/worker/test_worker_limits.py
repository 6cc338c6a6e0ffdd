"""Control groups: version 1 for real where it may be written; version 2 on an imitation of its files."""

import os
import signal
import subprocess
import time
from pathlib import Path

import pytest

from rota.core.errors import ConfigError
from rota.deploy.worker import limits
from rota.deploy.worker.cgroups import ControlGroups, open_v1, open_v2
from rota.deploy.worker.limits import ResourceLimits, RlimitBackend, clear, pick
from rota.deploy.worker.storage import disk_of

PREFIX = f"test{os.getpid()}-"


@pytest.fixture
def v1():
    found = open_v1()
    if isinstance(found, str) or "memory" not in found.bases:
        pytest.skip(f"no control groups of version 1 to write: {found if isinstance(found, str) else 'no memory'}")
    yield found
    clear(found, PREFIX, set())


def imitation_of_v2(root, controllers="cpuset cpu io memory"):
    """Plain files: a kernel would make them itself and forbid more."""
    (root / "cgroup.controllers").write_text(controllers)
    (root / "cgroup.subtree_control").write_text("")
    return root


def test_without_control_groups_it_is_said_why(tmp_path):
    backend = pick(tmp_path / "nothing")

    assert isinstance(backend, RlimitBackend)
    assert "RLIMIT_DATA" in backend.describe()
    assert "cgroup v2: not mounted" in backend.describe()
    assert backend.enclose("t", ResourceLimits((0,), 100)).data_limit == 100


def test_groups_that_may_not_be_written_are_named(tmp_path):
    (tmp_path / "memory").mkdir()
    (tmp_path / "memory/rota").write_text("not a folder")

    assert str(tmp_path / "memory/rota") in open_v1(tmp_path)


def test_version_2_without_our_controllers_is_not_taken(tmp_path):
    assert "only hugetlb" in open_v2(imitation_of_v2(tmp_path, "hugetlb"))


def test_version_2_is_told_cpus_quota_and_memory(tmp_path):
    backend = open_v2(imitation_of_v2(tmp_path))

    made = backend.enclose("t", ResourceLimits((0, 2), 1000, 1.5))

    group = tmp_path / "rota/t"
    assert made.folders == (group,)
    assert (tmp_path / "cgroup.subtree_control").read_text() == "+cpu +cpuset +io +memory"
    assert (group / "cpuset.cpus").read_text() == "0,2"
    assert (group / "cpu.max").read_text() == "30000 20000"
    assert (group / "memory.max").read_text() == "1000"
    assert "cgroup v2" in backend.describe()
    assert backend.names() == ["t"]


def test_version_2_is_told_other_limits_of_a_task_that_runs(tmp_path):
    backend = open_v2(imitation_of_v2(tmp_path))
    backend.enclose("t", ResourceLimits((0, 2), 1000, 1.5))
    group = tmp_path / "rota/t"

    (group / "memory.current").write_text("600")

    backend.resize("t", ResourceLimits((1,), 2000, None))
    assert [(group / name).read_text() for name in ("cpuset.cpus", "cpu.max", "memory.max")] == [
        "1", "max 20000", "2000",
    ]  # fmt: skip

    backend.resize("t", ResourceLimits((1,), 500, 0.5))
    assert (group / "cpu.max").read_text() == "10000 20000"
    assert (group / "memory.max").read_text() == "2000", "600 bytes are in use"


def test_a_controller_that_is_missing_is_replaced_and_said(tmp_path):
    backend = open_v2(imitation_of_v2(tmp_path, "memory"))

    made = backend.enclose("t", ResourceLimits((0, 2), 1000, 1.5))

    assert made.affinity == (0, 2)
    assert made.data_limit is None
    assert "CPUs pinned by affinity" in backend.describe()
    assert "not limited" in backend.describe()


def test_version_1_really_holds_the_limits(v1):
    made = v1.enclose(PREFIX + "a", ResourceLimits((0,), 64 << 20, 0.5))

    assert (made.groups["memory"] / "memory.limit_in_bytes").read_text().strip() == str(64 << 20)
    if "cpuset" in made.groups:
        assert (made.groups["cpuset"] / "cpuset.cpus").read_text().strip() == "0"
    if "cpu" in made.groups:
        assert (made.groups["cpu"] / "cpu.cfs_quota_us").read_text().strip() == "10000"
    assert made.remove()
    assert not made.groups["memory"].exists()


def test_a_limit_the_kernel_refuses_leaves_nothing_behind(v1):
    if "cpuset" not in v1.bases:
        pytest.skip("no cpuset here")

    with pytest.raises(ConfigError, match=r"cannot limit task .*CPUs \[4095\]"):
        v1.enclose(PREFIX + "b", ResourceLimits((4095,)))

    assert PREFIX + "b" not in v1.names()


def test_groups_of_a_dead_agent_are_emptied_and_removed_those_of_others_are_not(v1):
    mine, other = v1.enclose(PREFIX + "c", ResourceLimits()), v1.enclose(PREFIX + "d", ResourceLimits())
    child = subprocess.Popen(["sleep", "60"])
    for folder in mine.folders:
        (folder / "cgroup.procs").write_text(str(child.pid))

    gone = clear(v1, PREFIX, {PREFIX + "d"})

    assert gone == [PREFIX + "c"]
    assert child.wait(5) == -signal.SIGKILL
    assert not any(folder.exists() for folder in mine.folders)
    assert all(folder.exists() for folder in other.folders)


def test_usage_counts_what_is_inside(v1):
    made = v1.enclose(PREFIX + "e", ResourceLimits())
    child = subprocess.Popen(["sh", "-c", "read _; i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done; read _"], stdin=-1)
    for folder in made.folders:
        (folder / "cgroup.procs").write_text(str(child.pid))

    used = made.usage()

    assert used.rss_bytes > 0
    assert [p.pid for p in made.members()] == [child.pid]
    made.kill_all()
    child.communicate()


def test_a_group_made_while_its_parent_is_taken_away_is_made_all_the_same(tmp_path, monkeypatch):
    backend, first = ControlGroups(1, {"memory": tmp_path}), []
    mkdir = Path.mkdir

    def as_if_somebody_removed_the_parent(self, *arguments, **options):
        mkdir(self, *arguments, **options)
        if self.name == "rota" and not first:
            first.append(self)
            self.rmdir()

    monkeypatch.setattr(Path, "mkdir", as_if_somebody_removed_the_parent)

    assert backend.enclose("t", ResourceLimits()).groups["memory"].is_dir()
    assert limits.Enclosure("t").members() == []


def test_version_2_is_told_how_fast_a_task_may_read_and_that_it_goes_first(tmp_path):
    backend = open_v2(imitation_of_v2(tmp_path), "rota-profile")

    backend.enclose("t", ResourceLimits((0,), read_bytes_per_s=5_000_000, read_disks=("254:0",), first=True))

    group = tmp_path / "rota-profile/t"
    assert (group / "io.max").read_text() == "254:0 rbps=5000000"
    assert (group / "cpu.weight").read_text() == "10000"
    assert (group.parent / "cpu.weight").read_text() == "10000"


def test_reads_past_the_page_cache_are_really_held_to_their_limit(v1, tmp_path):
    disk = disk_of(tmp_path)
    if "blkio" not in v1.bases or not disk:
        pytest.skip(f"no blkio controller, or {tmp_path} is on no disk")
    file = tmp_path / "data"
    file.write_bytes(os.urandom(8 << 20))
    os.sync()
    made = v1.enclose(PREFIX + "r", ResourceLimits(read_bytes_per_s=8_000_000, read_disks=(disk,)))
    enter = f"echo $$ > {made.groups['blkio']}/cgroup.procs"

    begun = time.monotonic()
    subprocess.run(["sh", "-c", f"{enter}; exec dd if={file} of=/dev/null bs=1M iflag=direct"], check=True)

    assert 0.7 < time.monotonic() - begun < 4.0
    assert made.remove()
