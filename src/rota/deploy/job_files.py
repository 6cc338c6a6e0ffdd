"""Jobs from a TOML file: a `[[job]]` table for each, or for `count` alike."""

from __future__ import annotations

import difflib
import os
import re
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rota.core.duration_text import duration_s
from rota.core.errors import ConfigError
from rota.core.job_arrays import array_size
from rota.core.job_spec import JobSpec, spec_from
from rota.core.parsing import parse_toml
from rota.deploy.job_order import KEYS as ORDER
from rota.deploy.job_order import JobTable, in_order, predecessors_from
from rota.deploy.variables import given_secret, merged, read_env_file

_NUMBER = (int, float)
_KEYS: dict[str, tuple[str, Any]] = {
    "name": ("name", str),
    "tenant": ("tenant", str),
    "profile": ("profile", str),
    "gpus": ("gpus", int),
    "steps": ("steps", int),
    "weight": ("weight", _NUMBER),
    "deadline": ("deadline_s", _NUMBER),
    "cpus": ("cpus", _NUMBER),
    "memory_gb": ("memory_gb", _NUMBER),
    "image": ("image", str),
    "cwd": ("cwd", str),
    "ranks": ("ranks", str),
    "max_restarts": ("max_restarts", int),
    "checkpoint_every": ("checkpoint_every_s", _NUMBER),
    "hung_after": ("hung_after_s", _NUMBER),
    "preemptible": ("preemptible", str),
    "least_turn": ("least_turn_s", _NUMBER),
    "save_grace": ("save_grace_s", _NUMBER),
    "array": ("array", str),
    "after": ("after", (str, int, list)),
    "after_any": ("after_any", (str, int, list)),
    "hold": ("hold", bool),
    "time_limit": ("time_limit_s", (str, int, float)),
    "emulated": ("emulated", bool),
    "model": ("model", str),
    "batch": ("batch", int),
    "mps": ("mps", bool),
    "env": ("env", dict),
    "command": ("argv", (str, list)),
    "count": ("count", int),
    "env_file": ("env_file", str),
    "secrets": ("secrets", list),
}
"""Key in the file to field of a job and its type."""
KEYS = tuple(_KEYS)
MOST_JOBS = 1_000_000
"""In a file: more is a slip of the keyboard."""
_SECRET = frozenset({"env", "secrets"})
"""Keys whose values are not shown."""


def read_jobs(path: str | Path) -> list[JobSpec]:
    """The jobs of a file, ready for `Client.submit`. Raises ConfigError with file, line and key."""
    try:
        text = Path(path).read_text(encoding="utf-8")
        document = parse_toml(text)
    except OSError as error:
        raise ConfigError(f"cannot read {path}: {error.strerror}") from error
    except ValueError as error:
        raise ConfigError(f"{path} is not a TOML file: {error}") from error
    other = sorted(set(document) - {"job"})
    tables = document.get("job")
    if other or not isinstance(tables, list) or not tables:
        what = f"{other[0]!r} is not known" if other else "there is no job in it"
        raise ConfigError(f"{path}: {what}; give [[job]] tables, each with gpus and a command or emulated = true")
    read: list[JobTable] = []
    jobs = 0
    for number, table in enumerate(tables):
        place = _Place(str(path), text, number)
        read.append(_table(table, place))
        jobs += read[-1].count * array_size(read[-1].spec.array)
        if jobs > MOST_JOBS:
            raise ConfigError(f"{place.of('count')}: these are more than {MOST_JOBS:,} jobs; give several files")
    return in_order(read)


class _Place:
    """Where a table is, for messages: the reader of TOML does not say."""

    def __init__(self, path: str, text: str, number: int) -> None:
        self.path = path
        lines = text.splitlines()
        heads = [i for i, line in enumerate(lines) if re.match(r"\s*\[\[\s*job\s*\]\]", line)]
        self._first = heads[number] if number < len(heads) else 0
        last = heads[number + 1] if number + 1 < len(heads) else len(lines)
        self._lines = lines[self._first : last]

    def of(self, key: str) -> str:
        """File and line of a key."""
        for i, line in enumerate(self._lines):
            if re.match(rf"\s*[\"']?{re.escape(key)}[\"']?\s*=", line):
                return f"{self.path}:{self._first + i + 1}"
        return f"{self.path}:{self._first + 1}"


def _table(table: Mapping[str, Any], place: _Place) -> JobTable:
    job: dict[str, Any] = {}
    for key, value in table.items():
        if key not in _KEYS:
            near = difflib.get_close_matches(key, KEYS, n=1)
            hint = f"did you mean {near[0]!r}?" if near else f"known are {', '.join(KEYS)}"
            raise ConfigError(f"{place.of(key)}: a job has no {key!r}; {hint}")
        field, wanted = _KEYS[key]
        if not isinstance(value, wanted) or (isinstance(value, bool) and wanted is not bool):
            shown = key if key in _SECRET else f"{key} = {value!r}"
            raise ConfigError(f"{place.of(key)}: {shown} is not {_type_name(wanted)}")
        job[field] = value
    if "argv" in job:
        job["argv"] = _command(job["argv"], place)
    if "env" in job and not all(isinstance(v, str) for v in job["env"].values()):
        raise ConfigError(f'{place.of("env")}: values of env are texts; write them in quotes, e.g. {{ SEED = "1" }}')
    _add_variables(job, place)
    count = job.pop("count", 1)
    if not 1 <= count <= MOST_JOBS:
        raise ConfigError(f"{place.of('count')}: count = {count}; give a number from 1 to {MOST_JOBS:,}")
    if isinstance(job.get("time_limit_s"), str):
        job["time_limit_s"] = _duration(job["time_limit_s"], place)
    after = {key: predecessors_from(job.pop(key), key, place.of) for key in ORDER if key in job}
    try:
        return JobTable(spec=spec_from(job), count=count, after=after, place=place.of)
    except ConfigError as error:
        raise ConfigError(f"{place.of('')}: {error}") from error


def _add_variables(job: dict[str, Any], place: _Place) -> None:
    """Put what `env_file` and `secrets` stand for into the environment of the job."""
    sources = [("env", job.get("env", {}))]
    try:
        if "env_file" in job:
            sources.append(("env_file", read_env_file(Path(place.path).parent / job.pop("env_file"))))
        sources += [("secrets", given_secret(str(word), os.environ)) for word in job.pop("secrets", ())]
        together = merged(sources)
    except ConfigError as error:
        raise ConfigError(f"{place.of('env')}: {error}") from error
    if together:
        job["env"] = together


def _duration(text: str, place: _Place) -> float:
    try:
        return duration_s(text)
    except ConfigError as error:
        raise ConfigError(f"{place.of('time_limit')}: time_limit = {error}") from error


def _command(given: str | list[Any], place: _Place) -> list[str]:
    try:
        words = shlex.split(given) if isinstance(given, str) else given
    except ValueError as error:
        raise ConfigError(f"{place.of('command')}: {error}; check the quotes, or give a list of words") from error
    if not words or not all(isinstance(word, str) for word in words):
        raise ConfigError(f"{place.of('command')}: give a text or a list of texts with at least the program")
    return list(words)


def _type_name(wanted: Any) -> str:
    names = {
        str: "a text",
        int: "a whole number",
        bool: "true or false",
        dict: "a table of texts",
        list: "a list of texts",
    }
    if wanted == (str, int, float):
        return "a duration such as 4h, or a number of seconds"
    if wanted == (str, int, list):
        return "the name of a job of this file, the number of a job, or a list of them"
    return names.get(wanted, "a number") if wanted != (str, list) else "a text or a list of texts"
