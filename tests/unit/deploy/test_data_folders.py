"""Folders in memory that an agent keeps for jobs: warm for a while, bounded, and never somebody else's."""

import fcntl
import os
from pathlib import Path

import pytest

from rota.data.staging import StagingArea
from rota.deploy.agent.data_folders import KEEP_S, DataFolders


class Clock:
    now = 1000.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    return Clock()


def folders(tmp_path, clock, agent="agent", memory_bytes=1_000_000):
    return DataFolders(tmp_path / agent, memory_bytes, separate=False, base=tmp_path, clock=clock)


def fill(kept, job, size):
    folder = kept.prepare(job, "tenant", None).environment["ROTA_DATA_FOLDER"]
    Path(folder, "cache-x").write_bytes(b"x" * size)
    return folder


def held(kept):
    kept._removing.submit(int).result()  # whatever was to be removed is
    return sorted(int(path.name) for path in kept._jobs.iterdir())


def test_a_job_finds_its_folder_again_until_it_is_over(tmp_path, clock):
    kept = folders(tmp_path, clock)
    first = fill(kept, 7, 100)
    kept.left(7, over=False)

    again = kept.prepare(7, "tenant", None)

    assert again.environment["ROTA_DATA_FOLDER"] == first
    assert [path.name for path in Path(first).iterdir()] == ["cache-x"]
    kept.left(7, over=True)
    assert held(kept) == []


def test_what_nobody_came_back_for_is_removed_after_a_while(tmp_path, clock):
    kept = folders(tmp_path, clock)
    for job in (1, 2):
        fill(kept, job, 100)
        kept.left(job, over=False)
        clock.now += 0.6 * KEEP_S

    kept.sweep({})

    assert held(kept) == [2]


def test_the_oldest_go_when_others_were_given_the_memory(tmp_path, clock):
    kept = folders(tmp_path, clock)
    for job in (1, 2, 3):
        fill(kept, job, 200_000)
        clock.now += 1
    for job in (2, 1):
        kept.left(job, over=False)
        clock.now += 1

    kept.sweep({3: 0.0005})
    assert held(kept) == [1, 2, 3]
    kept.sweep({3: 0.0007})
    assert held(kept) == [1, 3]
    kept.sweep({3: 0.0})  # without a limit: a tenth of the machine
    assert held(kept) == [3]  # which runs


def test_an_agent_that_starts_again_finds_what_was_kept_and_forgets_it_in_time(tmp_path, clock):
    before = folders(tmp_path, clock)
    fill(before, 1, 10)
    fill(before, 2, 10)
    os.close(before._lock)  # it was killed

    after = folders(tmp_path, clock)
    after.open(running=[2])
    clock.now += KEEP_S + 1
    after.sweep({2: 0.0})

    assert held(after) == [2]


def test_a_job_that_is_about_to_start_keeps_its_own(tmp_path, clock):
    kept = folders(tmp_path, clock)
    fill(kept, 1, 100)
    kept.left(1, over=False)

    kept.sweep({1: 0.001})

    assert held(kept) == [1]


def test_what_a_dead_agent_left_is_removed_by_the_next_one_but_not_what_is_in_use(tmp_path, clock):
    idle = folders(tmp_path, clock, "idle")
    fill(idle, 1, 10)
    os.close(idle._lock)
    used = folders(tmp_path, clock, "used")
    file = os.open(fill(used, 1, 10) + "/cache-x", os.O_RDWR)
    fcntl.flock(file, fcntl.LOCK_SH)  # a job that outlived its agent
    os.close(used._lock)
    living = folders(tmp_path, clock, "living")
    fill(living, 1, 10)

    folders(tmp_path, clock, "next").open([])

    os.close(file)
    assert not idle._root.exists()
    assert held(used) == held(living) == [1]


def test_an_agent_that_leaves_takes_along_what_nobody_uses(tmp_path, clock):
    kept = folders(tmp_path, clock)
    fill(kept, 1, 10)
    kept.left(1, over=False)
    fill(kept, 2, 10)  # it has ended, and nobody has said so

    kept.close(running=())

    assert list(tmp_path.iterdir()) == []


def test_an_agent_that_leaves_lets_jobs_that_still_run_keep_theirs(tmp_path, clock):
    kept = folders(tmp_path, clock)
    fill(kept, 1, 10)
    folder = fill(kept, 2, 10)

    kept.close(running=[2])

    assert [path.name for path in kept._jobs.iterdir()] == ["2"]
    assert list(Path(folder).iterdir())


def test_folders_are_for_their_user_alone_and_tenants_have_different_ones(tmp_path, clock):
    kept = folders(tmp_path, clock)

    first = kept.prepare(1, "a", None)
    second = kept.prepare(2, "b", None)

    assert first.environment["ROTA_DATA_SHARED"] != second.environment["ROTA_DATA_SHARED"]
    for path in (*first.mounts, *second.mounts):
        assert Path(path).stat().st_mode & 0o077 == 0


def test_what_jobs_prepared_together_goes_with_the_last_of_them(tmp_path, clock):
    kept = folders(tmp_path, clock)
    shared = Path(kept.prepare(1, "a", None).environment["ROTA_DATA_SHARED"])
    kept.prepare(2, "a", None)
    area = StagingArea.open("search", 4, 100, shared)
    file = shared / next(shared.iterdir()).name

    kept.left(1, over=True)
    assert file.exists()  # job 2 has it open
    del area
    kept.left(2, over=True)
    assert not file.exists()


def make_deep(folder, depth=1500):
    """A file below so many folders, as somebody may make them who wants to stay."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    for _ in range(depth):
        os.mkdir("d", dir_fd=handle)
        inner = os.open("d", os.O_RDONLY | os.O_DIRECTORY, dir_fd=handle)
        os.close(handle)
        handle = inner
    os.close(os.open("file", os.O_WRONLY | os.O_CREAT, dir_fd=handle))
    os.close(handle)


def test_a_job_that_nests_folders_leaves_nothing_behind(tmp_path, clock):
    kept = folders(tmp_path, clock)
    environment = kept.prepare(7, "tenant", None).environment
    shared = Path(environment["ROTA_DATA_SHARED"])
    make_deep(environment["ROTA_DATA_FOLDER"])
    make_deep(shared)
    (shared / "closed").write_bytes(b"x")
    (shared / "closed").chmod(0)
    (shared / "link").symlink_to(tmp_path)

    kept.left(7, over=False)

    kept._removing.submit(int).result()
    assert list(kept._jobs.iterdir()) == list(shared.iterdir()) == []


def test_folders_that_nest_keep_no_agent_from_starting(tmp_path, clock):
    dead = folders(tmp_path, clock, agent="dead")
    make_deep(dead.prepare(7, "tenant", None).environment["ROTA_DATA_FOLDER"])
    os.close(dead._lock)
    kept = folders(tmp_path, clock)

    kept.open(())

    assert not dead._root.exists()


def test_what_a_killed_agent_had_begun_to_remove_goes(tmp_path, clock):
    killed = folders(tmp_path, clock)
    Path(fill(killed, 7, 100)).rename(killed._jobs / "removed-0123")
    os.close(killed._lock)
    kept = folders(tmp_path, clock)

    kept.open(())

    kept._removing.submit(int).result()
    assert list(kept._jobs.iterdir()) == []


def test_without_memory_to_keep_things_in_jobs_are_told_of_none(tmp_path, clock):
    kept = DataFolders(tmp_path, 1, separate=False, base=tmp_path / "missing", clock=clock)
    kept.open([])

    assert kept.prepare(1, "a", None).environment == {}
    kept.left(1, over=False)
    kept.close(running=())


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a folder to another user")
def test_a_folder_that_somebody_else_made_under_our_name_is_not_used(tmp_path, clock, caplog):
    kept = folders(tmp_path, clock)
    kept._root.mkdir()
    os.chown(kept._root, 12345, 12345)

    assert kept.prepare(1, "a", None).environment == {}
    assert "belongs to another user" in caplog.text


def test_removal_does_not_follow_links_out_of_the_folder(tmp_path, clock):
    kept = folders(tmp_path, clock)
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "precious").write_text("x")
    folder = fill(kept, 1, 10)
    Path(folder, "link").symlink_to(outside)

    kept.left(1, over=True)

    assert held(kept) == []
    assert (outside / "precious").exists()
