"""Environment variables of a job from where a user has them. No message ever shows a value.

A file has a KEY=VALUE line for each. Empty lines and lines that begin with # are left out, `export` in front is fine,
and quotes around the whole value are taken off.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path

from rota.core.errors import ConfigError

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_LARGEST_BYTES = 128 * 1024
"""Of a value: the kernel starts no program with a longer one."""


def read_env_file(path: str | Path) -> dict[str, str]:
    """The variables of a file. Raises ConfigError with the number of the line."""
    variables: dict[str, str] = {}
    line_of: dict[str, int] = {}
    for number, line in enumerate(_text(path).splitlines(), 1):
        text = line.strip().removeprefix("export ").lstrip()
        if not text or text.startswith("#"):
            continue
        name, equals, value = text.partition("=")
        name = name.rstrip()
        if not equals:
            raise ConfigError(f"{path}:{number}: there is no = in this line; write KEY=VALUE, or # before a comment")
        _check_name(name, f"{path}:{number}")
        if name in variables:
            raise ConfigError(f"{path}:{number}: {name} is in line {line_of[name]} already; leave one of them out")
        variables[name] = _unquoted(value.strip(), f"{path}:{number}")
        line_of[name] = number
    return variables


def given_secret(word: str, own: Mapping[str, str]) -> dict[str, str]:
    """The variable of `NAME=VALUE`, or of `NAME` with the value that it has in the user's own environment."""
    name, equals, value = word.partition("=")
    _check_name(name, "--secret")
    if equals:
        return {name: value}
    if name not in own:
        raise ConfigError(f"secret {name}: there is no {name} in your environment; export it, or give a --secret-file")
    return {name: own[name]}


def secret_from_file(word: str) -> dict[str, str]:
    """The variable of `NAME=PATH`: what the file holds, without the end of its last line."""
    name, equals, path = word.partition("=")
    _check_name(name, "--secret-file")
    if not equals or not path:
        raise ConfigError(f"--secret-file {name}: there is no file; write {name}=PATH")
    return {name: _text(path).removesuffix("\n").removesuffix("\r")}


def merged(sources: Iterable[tuple[str, Mapping[str, str]]]) -> dict[str, str]:
    """All variables together; ConfigError if two sources, which are named for the message, have the same one."""
    together: dict[str, str] = {}
    source_of: dict[str, str] = {}
    for source, variables in sources:
        for name, value in variables.items():
            if name in together:
                raise ConfigError(f"{name} is given twice, by {source_of[name]} and by {source}; leave one of them out")
            together[name] = value
            source_of[name] = source
    return together


def _check_name(name: str, where: str) -> None:
    if not _NAME.fullmatch(name):
        shown = repr(name[:40])
        raise ConfigError(f"{where}: {shown} is no name of a variable; use letters, digits and _, no digit first")


def _unquoted(value: str, where: str) -> str:
    if value[:1] not in ('"', "'"):
        return value
    if len(value) < 2 or value[-1] != value[0]:
        raise ConfigError(f"{where}: the value begins with {value[0]} and does not end with it; close the quotes")
    return value[1:-1]


def _text(path: str | Path) -> str:
    try:
        content = Path(path).read_bytes()
        text = content.decode("utf-8")
    except OSError as error:
        raise ConfigError(f"cannot read {path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path} is not a text in UTF-8 (byte {error.start})") from error
    if len(content) > _LARGEST_BYTES:
        raise ConfigError(f"{path} has {len(content):,} bytes; variables have at most {_LARGEST_BYTES:,}")
    return text
