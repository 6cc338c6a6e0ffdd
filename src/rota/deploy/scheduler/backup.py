"""One file with everything that a scheduler needs to go on: written while it runs, checked when it is restored.

| member of the tar archive | what |
|---|---|
| `state.db` | the state file, at one committed event |
| `secrets.db` | values of jobs' environments, of all jobs that are not over at that event |
| `forecasts.db` | estimates that were given |
| `logs/...` | output of jobs, as far as it was there |
| `certs/...` | the folder of certificates, if that was asked for |
| `manifest.json` | the last member: version, number of the last event, size and SHA-256 of all others |

A backup without its last member is cut off, and is refused.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import os
import shutil
import sqlite3
import tarfile
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import IO, Any

from rota._version import __version__
from rota.core.errors import ConfigError, OutputError
from rota.core.files import replacing, sync_folder
from rota.core.parsing import is_count, parse_json
from rota.deploy.clocks import wall_date
from rota.deploy.scheduler import archive, journal_layout, lost_events
from rota.deploy.scheduler.journal import beside, lock
from rota.deploy.scheduler.secrets import secrets_file

FORMAT = 1
_MANIFEST = "manifest.json"
_STATE = "state.db"
_SECRETS = "secrets.db"
_FORECASTS = "forecasts.db"
_FOLDERS = ("logs", "certs")
_LARGEST_MANIFEST = 256 << 20
_CHUNK = 1 << 20
_OWNER_ONLY = 0o600
_FULL = "disk is full"
"""In what SQLite says when there is no room."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Places:
    """Where the parts are on a machine."""

    state: Path
    logs: Path | None = None
    """None: without the output of jobs."""
    certs: Path | None = None
    """None: without certificates."""

    def of(self, member: str) -> Path | None:
        """Where a member of a backup belongs; None: nowhere here. Raises ConfigError for a name that none has."""
        state = self.state
        single = {_STATE: state, _SECRETS: secrets_file(state), _FORECASTS: _forecasts_file(state)}
        if member in single:
            return single[member]
        parts = PurePosixPath(member).parts
        if len(parts) < 2 or parts[0] not in _FOLDERS or ".." in parts or "\0" in member:
            raise ConfigError(f"there is a member {member!r}, which no backup of Rota has")
        root = self.logs if parts[0] == "logs" else self.certs
        return None if root is None else root.joinpath(*parts[1:])


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """What a backup says about itself."""

    version: str
    made: str
    """Date and time, UTC."""
    journal_id: str
    last_event: int
    members: dict[str, tuple[int, str]] = field(default_factory=dict)
    """(size, SHA-256) by name."""

    def fields(self) -> dict[str, Any]:
        """As plain values."""
        return {
            "format": FORMAT,
            "version": self.version,
            "made": self.made,
            "journal_id": self.journal_id,
            "last_event": self.last_event,
            "members": {name: list(known) for name, known in self.members.items()},
        }

    @property
    def size(self) -> int:
        """Bytes of all members."""
        return sum(size for size, _ in self.members.values())


def _forecasts_file(state: Path) -> Path:
    return state.with_name(f"{state.name}.forecasts")


# Writing


def write_backup(places: Places, target: Path) -> Manifest:
    """Write a backup of a scheduler that may run meanwhile. Raises ConfigError or OutputError."""
    if not places.state.is_file():
        raise ConfigError(f"there is no state file {places.state}; give that of the scheduler (--state)")
    if target.exists():
        raise ConfigError(f"{target} is there already; give another name, or remove it")
    try:
        with (
            tempfile.TemporaryDirectory(prefix=".rota-backup-", dir=target.absolute().parent) as folder,
            replacing(target, mode=_OWNER_ONLY) as file,
        ):
            copies = copy_databases(places.state, Path(folder))
            with tarfile.open(fileobj=file, mode="w") as tar:
                return _Writer(tar).write(places, copies)
    except sqlite3.Error as error:
        if _FULL in str(error):  # that of the copies: nothing is written to the state file
            raise OutputError(
                f"cannot write backup {target}: the disk of {target.absolute().parent} is full; nothing is left of it. "
                f"It needs about twice the size of {places.state} for a moment"
            ) from error
        raise ConfigError(f"cannot read {places.state}: {error}; see `rota journal check {places.state}`") from error
    except OSError as error:
        raise OutputError(f"cannot write backup {target}: {error.strerror or error}; nothing is left of it") from error


def copy_databases(state: Path, folder: Path) -> dict[str, Path]:
    """Copies at one committed event.

    Values of environments are written before their job is accepted, and deleted after it is over. So those that were
    there before, and those that are there after the moment at which the state file is read, are all that it names.
    """
    secrets = secrets_file(state)
    before = _rows_of_secrets(secrets)
    copies = {}
    with archive.reading(state) as db:
        journal_layout.check_ours(db, state)
        db.execute("BEGIN")
        db.execute("SELECT count(*) FROM meta").fetchone()  # from here on this connection sees one moment
        if secrets.is_file():
            _copy_secrets(secrets, folder / _SECRETS, before)
            copies[_SECRETS] = folder / _SECRETS
        _copy(db, folder / _STATE)
        copies[_STATE] = folder / _STATE
    if _forecasts_file(state).is_file():
        with archive.reading(_forecasts_file(state)) as db:
            _copy(db, folder / _FORECASTS)
        copies[_FORECASTS] = folder / _FORECASTS
    return copies


def _copy(db: sqlite3.Connection, target: Path) -> None:
    os.close(os.open(target, os.O_CREAT | os.O_EXCL | os.O_WRONLY, _OWNER_ONLY))
    with contextlib.closing(sqlite3.connect(target)) as copy:
        db.backup(copy)
        copy.execute("PRAGMA journal_mode = DELETE")  # one file, without a log beside it


def _rows_of_secrets(path: Path) -> list[tuple[Any, ...]]:
    if not path.is_file():
        return []
    with archive.reading(path) as db:
        return db.execute("SELECT name, job, body FROM environments").fetchall()


def _copy_secrets(path: Path, target: Path, before: list[tuple[Any, ...]]) -> None:
    with archive.reading(path) as db:
        _copy(db, target)
    with contextlib.closing(sqlite3.connect(target)) as copy, copy:
        copy.executemany("INSERT OR IGNORE INTO environments VALUES (?, ?, ?)", before)


class _Writer:
    """Adds members to an archive and remembers what they are."""

    def __init__(self, tar: tarfile.TarFile) -> None:
        self._tar = tar
        self._members: dict[str, tuple[int, str]] = {}

    def write(self, places: Places, copies: dict[str, Path]) -> Manifest:
        for name, path in copies.items():
            with path.open("rb") as file:
                self._add(name, file, path.stat().st_size)
        for name, folder in (("logs", places.logs), ("certs", places.certs)):
            for path in _files_in(folder):
                inside = path.relative_to(folder or "")
                self._add_small(f"{name}/{inside.as_posix()}", path)
        with archive.reading(copies[_STATE]) as db:
            facts = journal_layout.read_meta(db)
            (last,) = db.execute("SELECT coalesce(max(seq), 0) FROM events").fetchone()
        manifest = Manifest(
            version=__version__,
            made=wall_date().isoformat(timespec="seconds"),
            journal_id=facts[journal_layout.ID],
            last_event=int(last),
            members=self._members,
        )
        body = json.dumps(manifest.fields()).encode()
        self._add(_MANIFEST, io.BytesIO(body), len(body))
        del self._members[_MANIFEST]
        return manifest

    def _add_small(self, name: str, path: Path) -> None:
        """A file that may grow or go meanwhile: as it is now, or not at all."""
        try:
            content = path.read_bytes()
        except FileNotFoundError:
            return
        self._add(name, io.BytesIO(content), len(content))

    def _add(self, name: str, file: IO[bytes], size: int) -> None:
        info = tarfile.TarInfo(name)
        info.size = size
        info.mode = _OWNER_ONLY
        reader = _Hashing(file)
        self._tar.addfile(info, reader)
        self._members[name] = (size, reader.digest.hexdigest())


class _Hashing:
    """A file that is read once, and its SHA-256."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self.digest = hashlib.sha256()

    def read(self, size: int = -1) -> bytes:
        """The next bytes."""
        data = self._file.read(size)
        self.digest.update(data)
        return data


def _files_in(folder: Path | None) -> list[Path]:
    """Regular files below a folder; links are left out."""
    if folder is None or not folder.is_dir():
        return []
    return sorted(path for path in folder.rglob("*") if path.is_file() and not path.is_symlink())


# Reading


def check_backup(source: Path) -> Manifest:
    """Read a whole backup and compare all checksums. Raises ConfigError."""
    with _explained(source), tarfile.open(source, mode="r:") as tar:
        return _read(tar, lambda _: None)


def restore_backup(source: Path, places: Places) -> Manifest:
    """Put everything in its place, where nothing may be yet. Raises ConfigError or OutputError."""
    _refuse_to_overwrite(places)
    own_lock = not beside(places.state).exists()
    with lock(places.state):
        try:
            return _restore(source, places)
        except BaseException:
            if own_lock:
                beside(places.state).unlink(missing_ok=True)
            raise


def _restore(source: Path, places: Places) -> Manifest:
    targets: dict[Path, Path] = {}

    def place(member: str) -> Path | None:
        target = places.of(member)
        if target is None:
            return None
        part = folder / str(len(targets))
        targets[part] = target
        return part

    try:
        with tempfile.TemporaryDirectory(prefix=".rota-restore-", dir=places.state.absolute().parent) as name:
            folder = Path(name)
            with _explained(source), tarfile.open(source, mode="r:") as tar:
                manifest = _read(tar, place)
            lost_events.mark(places.state, f"restored from a backup of {manifest.made}")
            # The state file last: as long as it is not there, nothing starts from a part.
            for part, target in sorted(targets.items(), key=lambda pair: pair[1] == places.state):
                target.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
                _move(part, target)
    except OSError as error:
        lost_events.forget(places.state)
        raise OutputError(f"cannot restore {source}: {error.strerror or error}; {places.state} was not made") from error
    return manifest


def _move(part: Path, target: Path) -> None:
    try:
        os.link(part, target)  # unlike a rename it never replaces what is there
    except FileExistsError:
        raise ConfigError(f"{target} came while the backup was being restored; nothing is overwritten") from None
    except OSError:
        shutil.copyfile(part, target)  # another file system
        target.chmod(_OWNER_ONLY)
    sync_folder(target.parent)


def _refuse_to_overwrite(places: Places) -> None:
    there = [
        path for path in (places.state, secrets_file(places.state), _forecasts_file(places.state)) if path.exists()
    ]
    there += [folder for folder in (places.logs, places.certs) if folder is not None and _files_in(folder)]
    if there:
        raise ConfigError(
            f"{there[0]} is there already, and nothing is overwritten; move it away, or give another place"
        )


def _read(tar: tarfile.TarFile, place: Callable[[str], Path | None]) -> Manifest:
    """Write each member where `place` says, and compare it with the manifest at the end."""
    found: dict[str, tuple[int, str]] = {}
    manifest: Manifest | None = None
    for info in tar:
        if manifest is not None or not info.isreg() or info.name in found:
            raise ConfigError(f"its member {info.name!r} is not as a backup of Rota has it")
        file = tar.extractfile(info)
        assert file is not None  # it is a regular file
        if info.name == _MANIFEST:
            manifest = _manifest(file.read(_LARGEST_MANIFEST))
        else:
            Places(state=Path("x")).of(info.name)
            found[info.name] = _extract(file, place(info.name))
    if manifest is None:
        raise ConfigError("its end is missing: it is cut off, or was still being written")
    for name in sorted(found.keys() | manifest.members.keys()):
        if found.get(name) != manifest.members.get(name):
            raise ConfigError(f"its member {name} is damaged or missing")
    if _STATE not in found:
        raise ConfigError("there is no state file in it")
    return manifest


def _extract(file: IO[bytes], target: Path | None) -> tuple[int, str]:
    reader = _Hashing(file)
    size = 0
    with contextlib.ExitStack() as stack:
        out: IO[bytes] | None = None
        if target is not None:
            handle = os.open(target, os.O_CREAT | os.O_EXCL | os.O_WRONLY, _OWNER_ONLY)
            out = stack.enter_context(os.fdopen(handle, "wb"))
        while data := reader.read(_CHUNK):
            size += len(data)
            if out is not None:
                out.write(data)
        if out is not None:
            out.flush()
            os.fsync(out.fileno())
    return size, reader.digest.hexdigest()


def _manifest(body: bytes) -> Manifest:
    try:
        fields = parse_json(body)
        if not is_count(str(fields["format"])) or int(fields["format"]) > FORMAT:
            raise ConfigError(f"it has format {fields['format']!r}; this version of Rota reads format {FORMAT}")
        return Manifest(
            version=str(fields["version"]),
            made=str(fields["made"]),
            journal_id=str(fields["journal_id"]),
            last_event=int(fields["last_event"]),
            members={str(name): (int(size), str(digest)) for name, (size, digest) in fields["members"].items()},
        )
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError) as error:
        raise ConfigError(f"its manifest cannot be read ({type(error).__name__}: {error})") from error


@contextlib.contextmanager
def _explained(source: Path) -> Iterator[None]:
    try:
        yield
    except ConfigError as error:
        raise ConfigError(f"{source} cannot be restored: {error}") from error
    except (tarfile.TarError, EOFError) as error:
        raise ConfigError(f"{source} is no backup of Rota, or it is damaged ({error})") from error
    except FileNotFoundError as error:
        if error.filename == str(source) or not source.exists():
            raise ConfigError(f"there is no file {source}") from error
        raise
