"""Files for DCGM's exporter: which jobs hold which GPUs."""

import logging

import pytest

from rota.core.errors import ConfigError
from rota.deploy.agent.job_mapping import JobMapping


def files_of(folder):
    return {path.name: path.read_text() for path in folder.iterdir()}


def test_a_file_per_gpu_has_the_jobs_that_hold_it_and_goes_with_them(tmp_path):
    mapping = JobMapping(tmp_path / "map", ["0", "1", "2"])
    mapping.bring_in_line({"0": [17], "1": [17, 4]})
    assert files_of(tmp_path / "map") == {"0": "17\n", "1": "4\n17\n"}
    mapping.bring_in_line({"1": [4]})
    assert files_of(tmp_path / "map") == {"1": "4\n"}
    mapping.bring_in_line({})
    assert files_of(tmp_path / "map") == {}


def test_files_are_readable_by_the_exporter_and_whole(tmp_path):
    mapping = JobMapping(tmp_path, ["0"])
    mapping.bring_in_line({"0": [17]})
    first = (tmp_path / "0").stat()
    mapping.bring_in_line({"0": [18]})

    assert first.st_mode & 0o777 == 0o644
    assert (tmp_path / "0").stat().st_ino != first.st_ino  # replaced in one piece, never cut short


def test_what_an_agent_that_died_left_is_put_right_and_files_of_others_are_left_alone(tmp_path):
    JobMapping(tmp_path, ["0", "1"]).bring_in_line({"0": [1], "1": [2]})
    (tmp_path / "7").write_text("99\n")

    again = JobMapping(tmp_path, ["0", "1"])
    again.bring_in_line({"1": [2]})

    assert files_of(tmp_path) == {"1": "2\n", "7": "99\n"}


def test_emulated_gpus_have_their_numbers_and_unknown_devices_are_no_business(tmp_path):
    JobMapping(tmp_path, ["emulated-3"]).bring_in_line({"emulated-3": [5], "emulated-4": [6]})
    assert files_of(tmp_path) == {"3": "5\n"}


def test_a_folder_that_is_gone_is_said_once_and_written_again_when_it_is_back(tmp_path, caplog):
    caplog.set_level(logging.WARNING)
    folder = tmp_path / "map"
    mapping = JobMapping(folder, ["0"])
    folder.rmdir()
    for _ in range(3):
        mapping.bring_in_line({"0": [17]})
    folder.mkdir()
    mapping.bring_in_line({"0": [17]})

    assert files_of(folder) == {"0": "17\n"}
    assert caplog.text.count("tried again") == 1


@pytest.mark.parametrize("device", ["GPU-604ac76c", "../../etc/passwd", "", "emulated-", "1.2.3", ".5"])
def test_devices_without_a_number_are_refused(tmp_path, device):
    with pytest.raises(ConfigError, match="index of a GPU"):
        JobMapping(tmp_path, [device])


def test_a_part_of_a_gpu_has_a_number_too(tmp_path):
    JobMapping(tmp_path, ["0.7"]).bring_in_line({"0.7": [1]})
    assert files_of(tmp_path) == {"0.7": "1\n"}


def test_a_folder_that_cannot_be_used_is_refused(tmp_path):
    (tmp_path / "file").write_text("x")
    with pytest.raises(ConfigError, match="cannot be used"):
        JobMapping(tmp_path / "file", ["0"])
    (tmp_path / "open").mkdir()
    (tmp_path / "open").chmod(0o777)
    with pytest.raises(ConfigError, match="chmod o-w"):
        JobMapping(tmp_path / "open", ["0"])
