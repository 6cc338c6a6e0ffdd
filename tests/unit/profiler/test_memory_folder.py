"""The folder in memory of a profiler: its own, whatever others put in its place."""

import os

import pytest

from rota.core.errors import ConfigError
from rota.profiler import session


def test_a_link_under_our_name_is_not_followed(tmp_path):
    base = tmp_path / "shm"
    elsewhere = tmp_path / "elsewhere"
    base.mkdir()
    elsewhere.mkdir()
    (base / f"rota-profile-{os.geteuid()}-link").symlink_to(elsewhere)

    session._remove_abandoned(base)

    assert list(elsewhere.iterdir()) == []


def test_a_lock_that_is_a_link_makes_no_file_elsewhere(tmp_path):
    base = tmp_path / "shm"
    folder = base / f"rota-profile-{os.geteuid()}-folder"
    folder.mkdir(parents=True)
    (folder / "lock").symlink_to(tmp_path / "made")

    session._remove_abandoned(base)

    assert not (tmp_path / "made").exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="makes a folder of another user")
def test_the_folder_of_another_user_is_left_alone(tmp_path):
    folder = tmp_path / "rota-profile-0-other"
    folder.mkdir()
    os.chown(folder, 65534, 65534)

    session._remove_abandoned(tmp_path)

    assert list(folder.iterdir()) == []


def test_the_folder_of_runs_is_no_link(tmp_path):
    (tmp_path / "runs").symlink_to(tmp_path)

    with pytest.raises(ConfigError, match="belongs to somebody else"):
        session.make_own_folder(tmp_path / "runs")
