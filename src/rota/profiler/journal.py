"""Every run of a profile, one JSON line each, beside the profile: to resume, and to look at blocks later.

The first line says what was profiled. A line is on the disk before the next run begins; a line that
was cut off by a crash is left out.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from rota.core import files
from rota.core.errors import ConfigError, OutputError
from rota.core.parsing import parse_json_line
from rota.profiler.blocks import MOST_SLOWED
from rota.profiler.cell import CONTAMINATED, JobToProfile, RunRecord

FORMAT = 1
_NOT_COMPARED = ("env",)


@dataclass(slots=True)
class Journal:
    """Runs that are over."""

    path: Path
    job: Mapping[str, Any]
    records: list[RunRecord] = field(default_factory=list)
    resumed: int = 0
    """Runs that were there already."""

    @classmethod
    def open(cls, path: Path, job: JobToProfile, *, again: bool) -> Journal:
        """The journal of a job: a new one, or the one that is there if it is of the same job."""
        wanted = _description(job)
        if again or not path.exists():
            journal = cls(path, wanted)
            journal._begin()
            return journal
        lines = _lines(path)
        if not lines or lines[0].get("format") != FORMAT:
            fix = "give --again to begin anew"
            raise ConfigError(f"{path} is not a file of runs of this version of Rota; {fix}")
        if len(lines) == 1:  # no run was over, so there is nothing to go on from
            return cls.open(path, job, again=True)
        before = lines[0].get("job", {})
        if before != wanted:
            differing = sorted(key for key in wanted if before.get(key) != wanted[key])
            fix = "give the same options to go on, or --again to begin anew"
            raise ConfigError(f"{path} has runs with another {', '.join(differing) or 'job'}; {fix}")
        records = [RunRecord.from_json(line, f"{path}:{number}") for number, line in enumerate(lines[1:], 2)]
        return cls(path, wanted, records, len(records))

    @property
    def believed(self) -> list[RunRecord]:
        """All runs, of which those are contaminated whose CPU turned out to have been slow when it was faster later."""
        fastest = self.fastest
        return [_slowed(record, fastest) if record.usable else record for record in self.records]

    @property
    def fastest(self) -> float:
        """The pace of a single CPU at its best."""
        return max((record.pace for record in self.records), default=0.0)

    def _begin(self) -> None:
        line = json.dumps({"format": FORMAT, "job": self.job}) + "\n"
        try:
            files.write_text(self.path, line)
        except OSError as error:
            raise OutputError(f"cannot write {self.path}: {error.strerror}; name another place with -o") from None

    def add(self, record: RunRecord) -> None:
        """Write a run down, all of it or nothing."""
        self.records.append(record)
        data = (json.dumps(record.to_json()) + "\n").encode()
        try:
            handle = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC)
            try:
                before = os.fstat(handle).st_size
                if os.write(handle, data) != len(data):
                    os.ftruncate(handle, before)
                    raise OutputError(f"cannot write all of a run to {self.path}: no room; make room, then go on")
                os.fsync(handle)
            finally:
                os.close(handle)
        except OSError as error:
            fix = "make room and give the same command to go on"
            raise OutputError(f"cannot write {self.path}: {error.strerror}; {fix}") from None


def _slowed(record: RunRecord, fastest: float) -> RunRecord:
    slowed = 1 - record.pace / fastest if 0 < record.pace < fastest else 0.0
    if slowed <= MOST_SLOWED:
        return record
    why = f"its CPU was {100 * slowed:.0f} % slower than in a later run; measure when the machine is idle"
    return replace(record, outcome=CONTAMINATED, reason=why)


def _description(job: JobToProfile) -> dict[str, Any]:
    values = asdict(job)
    kept = {name: value for name, value in values.items() if name not in _NOT_COMPARED}
    plain: dict[str, Any] = json.loads(json.dumps(kept))
    return plain


def _lines(path: Path) -> list[dict[str, Any]]:
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"cannot read {path}: {error}; give --again to begin anew") from None
    lines = []
    for line in text.splitlines():
        try:
            value = parse_json_line(line)
        except ValueError:
            continue
        if isinstance(value, dict):
            lines.append(value)
    return lines
