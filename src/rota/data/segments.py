"""Memory that several processes share, and that nobody has to remove.

Three kinds. Private: a memfd, which forked and spawned workers of one process share; the kernel
frees it with the last of them, however they end. Published: a memfd that processes of the same user
find by a name, through a small list of who has it open; what a list says of dead processes is
passed over and removed. File: in a folder that somebody else looks after, such as the agent, who
keeps it between two attempts of a job.
"""

from __future__ import annotations

import contextlib
import fcntl
import mmap
import os
import stat
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

from rota.core.errors import ConfigError

LONGEST_LIST = 64 * 1024


class Segment:
    """Bytes shared with other processes. Pickled, it is the same bytes in the other process."""

    def __init__(self, handle: int, path: str, *, mapped: int) -> None:
        """`handle` is open for reading and writing; `path` is empty for a memfd."""
        self.handle = handle
        self.path = path
        self.view = mmap.mmap(handle, mapped)
        self._pid = os.getpid()
        self._guard = threading.Lock()

    def __reduce__(self) -> tuple[object, ...]:
        return _reopen, (self.path or f"/proc/{os.getpid()}/fd/{self.handle}", len(self.view))

    def __del__(self) -> None:
        os.close(self.handle)

    def write(self, data: bytes | bytearray | memoryview, at: int) -> None:
        """Write all of it. OSError if there is no memory left, where a mapping would be a SIGBUS."""
        rest = memoryview(data)
        while rest:
            done = os.pwrite(self.handle, rest, at)
            at += done
            rest = rest[done:]

    @contextlib.contextmanager
    def locked(self, *, shared: bool = False, byte: int = 0) -> Iterator[None]:
        """Keep other processes and threads out; the kernel lets go for a process that dies."""
        if self._pid != os.getpid():  # forked while another thread was inside
            self._guard = threading.Lock()
            self._pid = os.getpid()
        with self._guard:
            fcntl.lockf(self.handle, fcntl.LOCK_SH if shared else fcntl.LOCK_EX, 1, byte)
            try:
                yield
            finally:
                fcntl.lockf(self.handle, fcntl.LOCK_UN, 1, byte)


def private(name: str, size: int, *, mapped: int | None = None) -> Segment:
    """A segment for this process and its children. It holds memory only where it was written."""
    handle = os.memfd_create(f"rota-{name}", os.MFD_CLOEXEC)
    os.ftruncate(handle, size)
    return Segment(handle, "", mapped=size if mapped is None else mapped)


def in_file(path: Path, size: int, *, mapped: int | None = None, reserved: int = 0) -> Segment:
    """A segment in a file of a folder of ours, made if it is not there.

    The first `reserved` bytes have memory from now on. OSError if there is none, where looking at
    them would be a SIGBUS.
    """
    while True:
        handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        fcntl.flock(handle, fcntl.LOCK_SH)  # until the last process has closed it: it is in use
        if _same_file(handle, path):
            break
        os.close(handle)  # it was removed as unused while we waited
    try:
        if os.fstat(handle).st_size < size:
            os.ftruncate(handle, size)
        if reserved:
            os.posix_fallocate(handle, 0, reserved)
    except OSError:
        os.close(handle)
        raise
    return Segment(handle, str(path), mapped=size if mapped is None else mapped)


def published(folder: Path, name: str, size: int, *, mapped: int | None = None) -> Segment:
    """A segment that processes of this user find under `name`; the first one makes it.

    `folder` holds the lists of who has which open: a few bytes each.
    """
    own_folder(folder)
    remove_dead_lists(folder)
    with _list_of(folder, name) as handle:
        members = _read_members(handle)
        segment = next(filter(None, (_join(entry, name, size, mapped) for entry in members)), None)
        if segment is None:
            segment = private(name, size, mapped=mapped)
        alive = [entry for entry in members if _open_member(entry, name, probe=True) is not None]
        entries = "".join(f"{line}\n" for line in [*alive, f"{os.getpid()} {segment.handle}"])
        os.ftruncate(handle, 0)
        os.pwrite(handle, entries.encode("ascii"), 0)
    return segment


def remove_dead_lists(folder: Path) -> None:
    """Remove the lists of segments that no living process has open."""
    for path in folder.glob("*.members"):
        with contextlib.suppress(OSError), _list_of(folder, path.stem) as handle:
            name = path.stem
            if not any(_open_member(entry, name, probe=True) is not None for entry in _read_members(handle)):
                path.unlink()


def remove_if_unused(path: Path) -> bool:
    """Remove the file of a segment unless a process has it open; whether it is gone."""
    try:
        handle = os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
    except FileNotFoundError:
        return True
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        path.unlink(missing_ok=True)
    except BlockingIOError:
        return False
    finally:
        os.close(handle)
    return True


def own_folder(folder: Path) -> None:
    """Make a folder that only this user can use. ConfigError if it is somebody else's."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    found = folder.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid() or found.st_mode & 0o077:
        raise ConfigError(
            f"{folder} is not a folder that only user {os.geteuid()} can use; remove it, or name "
            "another one with TMPDIR."
        )


def user_folder() -> Path:
    """Where lists of published segments are, outside a cluster."""
    base = os.environ.get("XDG_RUNTIME_DIR") or tempfile.gettempdir()
    return Path(base) / f"rota-data-{os.geteuid()}"


def _reopen(path: str, mapped: int) -> Segment:
    """The segment in another process, which was given its path."""
    try:
        handle = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    except OSError as error:
        raise ConfigError(
            f"shared memory {path} cannot be opened ({error.strerror}): the process that made the "
            "data set has ended, or is another user's. Make the data set anew."
        ) from None
    memfd = path.startswith("/proc/")
    if not memfd:
        fcntl.flock(handle, fcntl.LOCK_SH)
    return Segment(handle, "" if memfd else path, mapped=mapped)


@contextlib.contextmanager
def _list_of(folder: Path, name: str) -> Iterator[int]:
    """The list of who has a segment open, locked. It may be removed while we wait for it."""
    path = folder / f"{name}.members"
    while True:
        handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX)
            if _same_file(handle, path):
                yield handle
                return
        finally:
            os.close(handle)


def _same_file(handle: int, path: Path) -> bool:
    try:
        return os.fstat(handle).st_ino == path.stat().st_ino
    except FileNotFoundError:
        return False


def _read_members(handle: int) -> list[str]:
    text = os.pread(handle, LONGEST_LIST, 0).decode("ascii", "replace")
    entries = (line.split() for line in text.splitlines())
    return [" ".join(words) for words in entries if len(words) == 2 and all(word.isdecimal() for word in words)]


def _open_member(entry: str, name: str, *, probe: bool = False) -> int | None:
    """A handle of the segment that a process has open; None if that is gone or another.

    Probing opens nothing, and says 0.
    """
    pid, handle = entry.split()
    path = f"/proc/{pid}/fd/{handle}"
    try:
        if str(Path(path).readlink()) != f"/memfd:rota-{name} (deleted)":
            return None
        return 0 if probe else os.open(path, os.O_RDWR | os.O_CLOEXEC)
    except OSError:
        return None


def _join(entry: str, name: str, size: int, mapped: int | None) -> Segment | None:
    handle = _open_member(entry, name)
    if handle is None:
        return None
    if os.fstat(handle).st_size < size:
        os.close(handle)
        return None
    return Segment(handle, "", mapped=size if mapped is None else mapped)
