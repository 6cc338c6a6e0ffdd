import stat
import threading
from pathlib import Path

import pytest

from rota.core.unix_sockets import LONGEST_PATH_BYTES, bind, connect, short_path


def open_files():
    return sorted(path.name for path in Path("/proc/self/fd").iterdir())


def echo_once(listener):
    connection, _ = listener.accept()
    with connection:
        connection.sendall(connection.recv(16).upper())


@pytest.mark.parametrize("depth", [0, 30])
def test_a_socket_is_reached_at_a_path_of_any_length(tmp_path, depth):
    folder = tmp_path.joinpath(*["deeper"] * depth)
    folder.mkdir(parents=True, exist_ok=True)
    path = str(folder / "socket")

    with bind(path) as listener:
        listener.listen()
        thread = threading.Thread(target=echo_once, args=(listener,))
        thread.start()
        with connect(path) as connection:
            connection.sendall(b"hello")
            answer = connection.recv(16)
        thread.join()

    assert answer == b"HELLO"


def test_only_the_own_user_may_connect(tmp_path):
    path = tmp_path / "socket"

    with bind(str(path)):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_long_path_gets_a_short_name_and_leaves_nothing_open(tmp_path):
    path = str(tmp_path / ("x" * LONGEST_PATH_BYTES))
    before = open_files()

    with short_path(path) as short:
        assert len(short) <= LONGEST_PATH_BYTES + len("/proc/self/fd/000/")
        assert Path(short).parent.samefile(tmp_path)

    assert open_files() == before


def test_nobody_there_is_an_error_and_leaves_nothing_open(tmp_path):
    before = open_files()

    with pytest.raises(FileNotFoundError):
        connect(str(tmp_path / "nobody"))
    with pytest.raises(FileNotFoundError):
        bind(str(tmp_path / "missing" / "socket"))

    assert open_files() == before
