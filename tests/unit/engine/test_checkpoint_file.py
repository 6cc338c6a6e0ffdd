"""A run in the middle, as a file."""

import pickle

import numpy as np
import pytest

from rota._version import __version__
from rota.core.errors import ConfigError, OutputError
from rota.engine import checkpoint
from rota.engine.checkpoint import Checkpoint, load, save

CONFIG = {"seed": 1, "policy": "fifo", "cluster": {"servers": [["a", 1]]}}


def saved(path, **parts):
    save(path, Checkpoint(config=CONFIG, parts=parts or {"numbers": np.arange(3.0)}))
    return path


def test_what_was_saved_is_loaded(tmp_path):
    back = load(saved(tmp_path / "c", numbers=np.arange(3.0), text={"a": [1, (2, None)]}), CONFIG)

    assert back.config == CONFIG
    assert back.parts["numbers"].tolist() == [0.0, 1.0, 2.0]
    assert back.parts["text"] == {"a": [1, (2, None)]}


def test_nothing_is_left_beside_the_file(tmp_path):
    saved(tmp_path / "c")

    assert [p.name for p in tmp_path.iterdir()] == ["c"]


def test_a_checkpoint_replaces_the_one_before(tmp_path):
    saved(tmp_path / "c", numbers=1)

    assert load(saved(tmp_path / "c", numbers=2), CONFIG).parts == {"numbers": 2}


def test_a_checkpoint_that_cannot_be_written_leaves_the_last_one(tmp_path, monkeypatch):
    path = saved(tmp_path / "c", numbers=1)
    monkeypatch.setattr("os.fsync", lambda _fd: (_ for _ in ()).throw(OSError(28, "No space left on device")))

    with pytest.raises(OutputError, match=r"cannot write checkpoint .*c: No space left"):
        saved(path, numbers=2)

    assert load(path, CONFIG).parts == {"numbers": 1}
    assert [p.name for p in tmp_path.iterdir()] == ["c"]


def test_a_folder_that_is_not_there_is_an_error_of_output(tmp_path):
    with pytest.raises(OutputError, match="nowhere"):
        saved(tmp_path / "nowhere" / "c")


def test_a_checkpoint_of_another_run_says_what_differs(tmp_path):
    with pytest.raises(ConfigError, match=r"belongs to another run: seed was 1, now 2"):
        load(saved(tmp_path / "c"), {**CONFIG, "seed": 2})


def test_a_checkpoint_of_another_version_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr("rota.engine.checkpoint.__version__", "0.0.1")
    path = saved(tmp_path / "c")
    monkeypatch.undo()

    with pytest.raises(ConfigError, match=rf"written by version 0\.0\.1; this is {__version__}"):
        load(path, CONFIG)


@pytest.mark.parametrize("content", [b"", b"hello", pickle.dumps([1, 2]), pickle.dumps(("x",) * 4)[:-3]])
def test_a_file_that_is_no_checkpoint_is_refused(tmp_path, content):
    (tmp_path / "c").write_bytes(content)

    with pytest.raises(ConfigError, match="is not a checkpoint of Rota, or it is damaged"):
        load(tmp_path / "c", CONFIG)


def test_a_checkpoint_that_is_cut_off_is_refused(tmp_path):
    path = saved(tmp_path / "c", numbers=np.arange(1000.0))
    path.write_bytes(path.read_bytes()[:-100])

    with pytest.raises(ConfigError, match="damaged"):
        load(path, CONFIG)


def test_a_file_that_is_not_there_is_an_error_of_input(tmp_path):
    with pytest.raises(ConfigError, match="cannot read checkpoint"):
        load(tmp_path / "c", CONFIG)


class Trap:
    """Something that would be called when it is loaded."""

    def __init__(self, function, *arguments):
        self.call = (function, arguments)

    def __reduce__(self):
        return self.call


@pytest.mark.parametrize("function", [eval, exec, print, __import__, pickle.loads])
def test_foreign_functions_are_not_called_while_reading(tmp_path, function):
    body = pickle.dumps(("rota-checkpoint-1", __version__, CONFIG, Trap(function, "1")))
    (tmp_path / "c").write_bytes(checkpoint._head(body) + body)

    with pytest.raises(ConfigError, match="UnpicklingError"):
        load(tmp_path / "c", CONFIG)


def test_modules_that_we_import_are_no_way_around_it(tmp_path):
    """GLOBAL 'rota.engine.checkpoint' 'os.system' by hand: what a dotted name finds is not ours."""
    proof = tmp_path / "proof"
    command = f"touch {proof}".encode()
    body = (
        b"\x80\x04"
         b"\x8c\x16rota.engine.checkpoint"
         b"\x8c\x09os.system"
         b"\x93"
         b"\x8c" + bytes([len(command)]) + command
        + b"\x85R."
    )  # fmt: skip
    (tmp_path / "c").write_bytes(body)

    with pytest.raises(ConfigError):
        load(tmp_path / "c", CONFIG)

    assert not proof.exists()
