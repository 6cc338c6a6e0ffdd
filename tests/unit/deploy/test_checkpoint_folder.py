"""A folder of checkpoints belongs to one state file, and nothing in it is removed that could be somebody else's."""

import json
import os

import pytest

from deployed import PlayedAgent, a_scheduler, jobs_of, submit, until
from rota.cli.main import main
from rota.core.errors import ConfigError
from rota.deploy.scheduler.checkpoint_folder import MARK, JobsOfFolder, job_folders, removable, remove
from rota.deploy.scheduler.options import Retention


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "checkpoints"


def old_checkpoints(folder, *numbers):
    for number in numbers:
        place = folder / str(number) / "1" / "step-000010"
        place.mkdir(parents=True)
        (place / "model.pt").write_text("weights")


def all_files(folder):
    return sorted(path for path in folder.rglob("*") if path.is_file() and path.name != MARK)


def opened(path, folder, **options):
    scheduler = a_scheduler(path, checkpoints=str(folder), **options)
    scheduler.start()
    return scheduler


def test_a_new_folder_gets_the_mark_of_its_state_file(tmp_path, folder):
    scheduler = opened(tmp_path / "s.db", folder)
    scheduler.stop()

    mark = json.loads((folder / MARK).read_text())
    assert mark["journal"] == scheduler.journal.id
    again = opened(tmp_path / "s.db", folder)
    again.stop()
    assert again.registry.checkpoints == str(folder)


def test_a_folder_of_another_state_file_is_refused_with_a_way_out(tmp_path, folder):
    opened(tmp_path / "first.db", folder).stop()

    with pytest.raises(ConfigError, match=r"belong to another state file \(.*first.db\).*--claim-checkpoints"):
        a_scheduler(tmp_path / "second.db", checkpoints=str(folder))

    opened(tmp_path / "first.db", folder).stop()  # it was not touched, and the lock of the second is free
    a_scheduler(tmp_path / "second.db").journal.close()


def test_a_new_state_file_with_an_old_folder_is_refused_and_deletes_nothing(tmp_path, folder):
    old_checkpoints(folder, 0, 1, 17)
    before = all_files(folder)

    with pytest.raises(ConfigError, match="holds checkpoints, and none of a job of"):
        a_scheduler(tmp_path / "s.db", checkpoints=str(folder))

    assert all_files(folder) == before
    assert not (folder / MARK).exists()


def test_a_folder_that_is_taken_over_keeps_what_is_in_it_and_numbers_go_on_behind_it(tmp_path, folder):
    old_checkpoints(folder, 0, 1, 17)
    before = all_files(folder)
    keep = Retention(keep_finished_s=0.0, keep_jobs_s=0.0, keep_checkpoints_s=0.0)

    scheduler = opened(tmp_path / "s.db", folder, claim_checkpoints=True, retention=keep)
    try:
        agents = [PlayedAgent(scheduler, "a")]
        (job,) = submit(scheduler, {"steps": 10})
        old_checkpoints(folder, job)
        until(lambda: job not in jobs_of(scheduler), scheduler, agents)
        until(lambda: not (folder / str(job)).exists(), scheduler, agents)
    finally:
        scheduler.stop()

    assert job == 18
    assert all_files(folder) == before
    again = opened(tmp_path / "s.db", folder)
    again.stop()
    assert again.registry.next_job == 19


def test_a_state_file_of_an_older_version_recognises_its_own_folder(tmp_path, folder):
    scheduler = a_scheduler(tmp_path / "s.db")
    scheduler.start()
    agents = [PlayedAgent(scheduler, "a")]
    (job,) = submit(scheduler, {"steps": 10**8})
    until(lambda: jobs_of(scheduler)[job].attempt, scheduler, agents)
    saved = {(job, 1): {"saved_step": 10, "saved_path": "0/1/step-000010"}}
    tasks, _ = agents[0].states(scheduler)
    key = next(iter(saved))
    from dataclasses import replace

    agents[0].report(scheduler, tasks={key: replace(tasks[key], step=20, **saved[key])})
    scheduler.stop()
    old_checkpoints(folder, 0, 5)

    again = opened(tmp_path / "s.db", folder)
    again.stop()

    assert json.loads((folder / MARK).read_text())["own_from"] == 6
    assert again.registry.next_job == 6  # a folder 5 is there, whoever made it


def test_a_mark_that_is_damaged_is_another_ones(tmp_path, folder):
    opened(tmp_path / "s.db", folder).stop()
    (folder / MARK).write_text("{")

    with pytest.raises(ConfigError, match="the mark is damaged"):
        a_scheduler(tmp_path / "s.db", checkpoints=str(folder))


def test_a_folder_that_cannot_be_made_is_no_reason_not_to_start(tmp_path):
    (tmp_path / "file").write_text("")
    scheduler = opened(tmp_path / "s.db", tmp_path / "file" / "below")
    scheduler.stop()

    assert scheduler.failure is None


def test_only_jobs_that_are_over_for_long_or_were_ours_go():
    jobs = JobsOfFolder(next_job=20, own_from=10, not_over=frozenset({11}), ended={3: 50.0, 12: 50.0, 13: 99.0})

    assert removable([2, 3, 11, 12, 13, 14, 20, 25], jobs, ended_before=60.0) == [3, 12, 14]


def test_links_and_odd_names_are_left_alone(folder, tmp_path):
    old_checkpoints(folder, 1)
    (tmp_path / "precious").mkdir()
    (tmp_path / "precious" / "data").write_text("mine")
    (folder / "2").symlink_to(tmp_path / "precious")
    (folder / "03").mkdir()
    (folder / "notes").mkdir()
    (folder / "1" / "1" / "out").symlink_to(tmp_path / "precious")

    assert job_folders(folder) == [1]
    assert remove(folder, [1, 2]) == 1
    assert (tmp_path / "precious" / "data").read_text() == "mine"
    assert {path.name for path in folder.iterdir()} == {"2", "03", "notes"}


def test_a_job_with_very_deep_folders_keeps_nothing_of_others_from_being_removed(folder, tmp_path):
    """`shutil.rmtree` gives up at a depth of some hundred, and what came after it stayed for ever."""
    old_checkpoints(folder, 1, 2, 3)
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "file").write_text("mine")
    (folder / "2" / "link").symlink_to(tmp_path / "other")
    deep = os.open(folder / "2", os.O_RDONLY)
    for _ in range(3000):
        os.mkdir("d", dir_fd=deep)
        above, deep = deep, os.open("d", os.O_RDONLY, dir_fd=deep)
        os.close(above)
    os.close(deep)

    assert remove(folder, [1, 2, 3]) == 3

    assert list(folder.iterdir()) == []
    assert (tmp_path / "other" / "file").read_text() == "mine"


def test_checkpoints_of_jobs_that_are_over_go_and_those_of_others_stay(tmp_path, folder):
    scheduler = opened(tmp_path / "s.db", folder, retention=Retention(keep_checkpoints_s=0.5))
    try:
        agents = [PlayedAgent(scheduler, "a")]
        short, long = submit(scheduler, {"steps": 10}, {"steps": 10**8})
        old_checkpoints(folder, short, long, 99)
        until(lambda: not (folder / str(short)).exists(), scheduler, agents)
    finally:
        scheduler.stop()

    assert job_folders(folder) == [long, 99]


def test_a_folder_that_lost_its_mark_is_left_alone(tmp_path, folder):
    scheduler = opened(tmp_path / "s.db", folder, retention=Retention(keep_checkpoints_s=0.0))
    try:
        agents = [PlayedAgent(scheduler, "a")]
        (folder / MARK).unlink()
        (job,) = submit(scheduler, {"steps": 10})
        old_checkpoints(folder, job)
        until(lambda: jobs_of(scheduler)[job].over, scheduler, agents)
        assert scheduler._removal.sweep() == 0
    finally:
        scheduler.stop()

    assert job_folders(folder) == [job]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--keep-events", "soon"], "is not a time; write it as 30d"),
        (["--keep-events=-1d"], "is not a time"),
        (["--keep-size", "10KB"], "is not a size from 1e+06 on"),
        (["--keep-jobs", "1d", "--keep-checkpoints", "2d"], "must not be above --keep-jobs"),
    ],
)
def test_times_and_sizes_that_make_no_sense_are_refused(tmp_path, capsys, words, message):
    assert main(["serve", "--state", str(tmp_path / "s.db"), "--insecure", *words]) == 2
    assert message in capsys.readouterr().err
