"""A scheduler was killed, so that most of its journal is in the write-ahead log, and a bit of that is wrong."""

import shutil

import pytest

from deployed import PlayedAgent, a_scheduler, jobs_of, submit
from rota.core.errors import ConfigError
from rota.deploy.scheduler.journal_repair import check, repair
from rota.deploy.scheduler.write_ahead_log import damage


@pytest.fixture(scope="module")
def killed(tmp_path_factory):
    """The files of a scheduler that was not closed, with twelve jobs."""
    folder = tmp_path_factory.mktemp("killed")
    scheduler = a_scheduler(folder / "live.db")
    scheduler.start()
    try:
        PlayedAgent(scheduler, "a")
        for _ in range(12):
            submit(scheduler, {"steps": 10**8})
        for suffix in ("", "-wal"):
            shutil.copy(folder / f"live.db{suffix}", folder / f"s.db{suffix}")
    finally:
        scheduler.stop()
    return folder


@pytest.fixture
def path(killed, tmp_path):
    for suffix in ("", "-wal"):
        shutil.copy(killed / f"s.db{suffix}", tmp_path / f"s.db{suffix}")
    return tmp_path / "s.db"


def flip(path, position):
    content = bytearray(path.read_bytes())
    content[position] ^= 1
    path.write_bytes(content)


def test_a_log_that_is_whole_or_was_cut_off_is_no_damage(path):
    log = path.with_name("s.db-wal")
    whole = log.read_bytes()

    assert damage(path) == ""
    assert check(path).healthy
    for length in (0, 10, 32, 1000, len(whole) - 1, len(whole) - 5000):
        log.write_bytes(whole[:length])
        assert damage(path) == ""


@pytest.mark.parametrize("part", [0.0, 0.2, 0.5, 0.7])
def test_a_wrong_bit_before_other_commits_is_found_by_start_and_check_and_repaired(path, part):
    log = path.with_name("s.db-wal")
    flip(log, max(20, int(part * log.stat().st_size)))

    report = check(path)
    with pytest.raises(ConfigError, match=r"s.db-wal: .* damaged.*rota journal repair"):
        a_scheduler(path)
    again = check(path)

    assert not report.healthy
    assert "s.db-wal" in report.problems[0]
    assert again.problems == report.problems, "looking changed it"
    if part:  # with its header all of the log is lost, and there is nothing to start from
        repair(path)
        assert check(path).healthy
        scheduler = a_scheduler(path)
        scheduler.start()
        try:
            assert len(jobs_of(scheduler)) < 12
        finally:
            scheduler.stop()


def test_the_last_commit_may_have_been_cut_off_by_a_power_cut(path):
    log = path.with_name("s.db-wal")
    flip(log, log.stat().st_size - 10)

    assert damage(path) == ""
