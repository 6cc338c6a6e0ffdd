"""Files by which DCGM's exporter labels metrics of GPUs with jobs (its option --hpc-job-mapping-dir).

The folder has a file per GPU that is held, named after its index, with a line per job. It is brought in line with what
runs again and again, so an agent that is killed and started again finds out by itself which files are still right:
those of its own GPUs, and only those, are its business.
"""

from __future__ import annotations

import logging
import stat
from collections.abc import Iterable, Mapping
from pathlib import Path

from rota.core import files
from rota.core.errors import ConfigError

log = logging.getLogger(__name__)

_EMULATED = "emulated-"


class JobMapping:
    """The files of one agent's GPUs."""

    def __init__(self, folder: Path, devices: Iterable[str]) -> None:
        """Raises ConfigError if the folder cannot be used."""
        self._folder = folder
        self._own = {device: _index(device) for device in devices}
        self._written: dict[str, str] | None = None
        """Content by file; None: nobody knows what an earlier agent left."""
        self._failed = False
        try:
            folder.mkdir(mode=0o755, parents=True, exist_ok=True)
            mode = folder.stat().st_mode
        except OSError as error:
            raise ConfigError(f"--dcgm-job-mapping {folder}: cannot be used ({error.strerror or error})") from error
        if mode & stat.S_IWOTH:
            raise ConfigError(f"--dcgm-job-mapping {folder}: every user may write there; run: chmod o-w {folder}")

    def bring_in_line(self, jobs: Mapping[str, Iterable[int]]) -> None:
        """Write which jobs hold which devices. What cannot be written is logged, and tried again the next time."""
        wanted = {
            self._own[device]: "".join(f"{job}\n" for job in sorted(set(held)))
            for device, held in jobs.items()
            if device in self._own
        }
        if wanted == self._written:
            return
        before = self._written
        try:
            for name in self._own.values():
                if name in wanted and (before is None or before.get(name) != wanted[name]):
                    files.write_text(self._folder / name, wanted[name], mode=0o644, durable=False)
                elif name not in wanted and (before is None or name in before):
                    (self._folder / name).unlink(missing_ok=True)
        except OSError as error:
            self._written = None
            if not self._failed:
                log.warning("jobs cannot be written to %s (%s); tried again", self._folder, error.strerror)
            self._failed = True
            return
        self._failed = False
        self._written = wanted


def _index(device: str) -> str:
    """The name of a file: the index of a GPU, also of an emulated one. ConfigError for other names of devices."""
    index = device.removeprefix(_EMULATED)
    if not (index.isascii() and index.replace(".", "", 1).isdecimal() and not index.startswith(".")):
        raise ConfigError(f"--dcgm-job-mapping: {device!r} is not the index of a GPU, by which DCGM finds its file")
    return index
