"""The folder of a pool: what it was asked for, its pilots, their tickets and logs.

    DIR/pool.json       settings, and whether the pool was told to stop
    DIR/pilots.json     pilots that are not forgotten yet
    DIR/status.json     what the keeper saw and decided last, for `rota pilots`
    DIR/tickets/NAME/   join tickets: ca.pem, join.pem, join.key (0600)
    DIR/logs/NAME.*     batch scripts and output

Servers have to see it under the same name: it is on a shared file system. Only its owner can enter it.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import IO, Any

from rota.core.errors import ConfigError
from rota.deploy.locks import hold
from rota.deploy.providers.pool import PilotRecord
from rota.deploy.providers.slurm.settings import SlurmSettings, settings_from
from rota.deploy.security import secret_files
from rota.deploy.security.subjects import check_name


@dataclass(frozen=True, kw_only=True)
class PoolSettings:
    """What `rota pilots start` was asked for."""

    name: str
    least: int
    most: int
    slurm: SlurmSettings
    scheduler: str
    certs: str
    """Folder with the key of the authority."""
    token_file: str = ""
    replace_s: float = 600.0
    idle_s: float = 300.0
    emulate: bool = False
    work: str = ""
    agent: tuple[str, ...] = ()
    """More options of `rota agent`."""
    stopped: bool = False
    """Whether `rota pilots stop` was said: nothing is started any more."""


@dataclass(kw_only=True)
class PoolFolder:
    """Reads and writes the files of a pool."""

    path: Path
    _lock: IO[str] | None = field(default=None, repr=False)

    def make(self) -> None:
        """Make the folder, for its owner only. Raises ConfigError if batch jobs cannot have such a folder."""
        if not str(self.path).isprintable():  # squeue prints one line for each job, with its folder
            raise ConfigError(f"--folder {str(self.path)!r} has characters that cannot be printed; give another one")
        secret_files.make_private_folder(self.path)
        if self.path.stat().st_uid != os.geteuid():  # who could put another batch script in the place of ours
            raise ConfigError(f"{self.path} belongs to another user; give another --folder")
        for name in ("tickets", "logs"):
            secret_files.make_private_folder(self.path / name)
        if self.path.stat().st_mode & 0o077:
            self.path.chmod(0o700)

    def lock(self) -> bool:
        """Keep a second keeper away, for as long as this process lives. ConfigError if there is one already."""
        self._lock = hold(self.path / "keeper.lock", lambda owner: _taken(self.path, owner))
        return True

    def unlock(self) -> None:
        """Let the next one in."""
        if self._lock is not None:
            self._lock.close()

    def ticket(self, name: str) -> Path:
        """The folder of a pilot's join ticket."""
        return self.path / "tickets" / check_name("a pilot", name)

    @property
    def logs(self) -> Path:
        """Where batch scripts and output are, and batch jobs begin."""
        return self.path / "logs"

    def log(self, name: str) -> Path:
        """The output of a pilot."""
        return self.logs / f"{name}.log"

    # Settings

    def write_settings(self, settings: PoolSettings) -> None:
        """Keep what was asked for."""
        self._write("pool.json", {**asdict(settings), "slurm": settings.slurm.values()})

    def settings(self) -> PoolSettings:
        """What was asked for. Raises ConfigError."""
        kept = self._read("pool.json")
        if kept is None:
            raise ConfigError(f"there is no pool in {self.path}; `rota pilots start` makes one")
        known = {one.name for one in fields(PoolSettings)}
        given = {name: value for name, value in kept.items() if name in known}
        try:
            given["slurm"] = settings_from(given["slurm"])
            given["agent"] = tuple(given.get("agent", ()))
            return PoolSettings(**given)
        except (AttributeError, KeyError, TypeError) as error:
            raise ConfigError(f"{self.path}/pool.json cannot be used ({error!r}); move it away") from error

    # Pilots

    def write_pilots(self, pilots: Sequence[PilotRecord], last_number: int) -> None:
        """Keep them, on the disk before anything is asked of the place."""
        self._write("pilots.json", {"last": last_number, "pilots": [asdict(pilot) for pilot in pilots]})

    def pilots(self) -> tuple[list[PilotRecord], int]:
        """Pilots, and the last number that was given to one."""
        kept = self._read("pilots.json") or {"last": -1, "pilots": []}
        try:
            return [PilotRecord(**one) for one in kept["pilots"]], int(kept["last"])
        except (KeyError, TypeError, ValueError) as error:
            raise ConfigError(f"{self.path}/pilots.json cannot be used ({error}); move it away") from error

    def write_status(self, status: dict[str, Any]) -> None:
        """What the keeper saw last. It may be lost."""
        with contextlib.suppress(OSError):
            self._write("status.json", status)

    def status(self) -> dict[str, Any]:
        """What the keeper saw last; empty if there was none."""
        return self._read("status.json") or {}

    def _write(self, name: str, content: dict[str, Any]) -> None:
        text = json.dumps(content, indent=1) + "\n"
        secret_files.write_whole(self.path / name, text.encode(), secret_files.PRIVATE)

    def _read(self, name: str) -> dict[str, Any] | None:
        path = self.path / name
        try:
            found = json.loads(path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            return None
        except (OSError, ValueError) as error:
            raise ConfigError(f"{path} cannot be used ({error}); move it away") from error
        if not isinstance(found, dict):
            raise ConfigError(f"{path} cannot be used: it holds no table; move it away")
        return found


def pools_in(root: Path) -> list[PoolFolder]:
    """All pools below a folder."""
    return [PoolFolder(path=path.parent) for path in sorted(root.glob("*/pool.json"))]


def _taken(path: Path, owner: str) -> str:
    return f"the pool in {path} is kept by process {owner} already; stop that one, or give another --pool"
