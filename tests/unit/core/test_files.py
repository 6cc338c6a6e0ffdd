"""Files that are whole or not there."""

import stat

import pytest

from rota.core.files import replacing, write_bytes, write_text


def test_a_file_is_replaced_in_one_piece(tmp_path):
    place = tmp_path / "result.json"
    place.write_text("old")

    write_text(place, "new")

    assert place.read_text() == "new"
    assert [path.name for path in tmp_path.iterdir()] == ["result.json"]


def test_a_failure_in_the_middle_leaves_what_was_there(tmp_path):
    place = tmp_path / "result.json"
    place.write_text("old")

    def fail():
        with replacing(place) as file:
            file.write(b"half")
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail()

    assert place.read_text() == "old"
    assert [path.name for path in tmp_path.iterdir()] == ["result.json"]


def test_the_permission_bits_are_those_that_were_asked_for(tmp_path):
    write_bytes(tmp_path / "key", b"secret", mode=0o600)

    assert stat.S_IMODE((tmp_path / "key").stat().st_mode) == 0o600


def test_without_a_wish_the_permission_bits_are_those_of_any_new_file(tmp_path):
    (tmp_path / "plain").write_text("")
    write_text(tmp_path / "ours", "")

    assert (tmp_path / "ours").stat().st_mode == (tmp_path / "plain").stat().st_mode


def test_text_keeps_its_line_ends(tmp_path):
    with replacing(tmp_path / "t.csv", text=True) as file:
        file.write("a\r\nb\n")

    assert (tmp_path / "t.csv").read_bytes() == b"a\r\nb\n"


def test_a_folder_that_is_not_there_is_an_error_of_the_system(tmp_path):
    with pytest.raises(FileNotFoundError):
        write_text(tmp_path / "no" / "file", "x")
