"""The file of `rota serve --notify`: whom to tell what.

[[webhook]]
name = "on-call"                             # a name of your choice, kept with what was delivered
url = "https://alerts.example.org/rota"
events = ["job-failed", "node-lost"]         # kinds, or ["*"]
tenants = ["vision"]                         # only about jobs of these tenants (default: about everything)
secret_file = "/etc/rota/webhook.key"        # signs every request (HMAC-SHA256); readable by its owner only
timeout_s = 10                               # of one try
retry_for_s = 86400                          # age of an event from which on it is not tried again

[[command]]
name = "page"
argv = ["/usr/local/bin/page", "--team", "ml"]   # no shell; the event is on standard input, as JSON
events = ["node-lost"]
timeout_s = 30
retry_for_s = 600
"""

from __future__ import annotations

import difflib
import math
import os
import shutil
import ssl
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from rota.core.errors import ConfigError
from rota.core.parsing import parse_toml
from rota.deploy.notifications.kinds import KINDS
from rota.deploy.security.addresses import is_loopback
from rota.deploy.security.secret_files import read_secret
from rota.deploy.security.subjects import check_name

_MOST_TARGETS = 32
_MOST_BYTES = 1_000_000
_LONGEST_WAIT_S = 600.0
_LONGEST_RETRY_S = 30 * 86400.0
_LEAST_SECRET = 16
"""Bytes of a secret that nobody guesses."""
_EVERYTHING = "*"
_SHARED = ("name", "events", "tenants", "timeout_s", "retry_for_s")


@dataclass(frozen=True, slots=True, kw_only=True)
class WebhookSettings:
    """Where to POST."""

    host: str
    port: int
    path: str
    tls: ssl.SSLContext | None
    """None: plain HTTP."""
    secret: bytes = b""
    """Empty: requests are not signed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandSettings:
    """What to run."""

    argv: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """Somebody who is told."""

    name: str
    how: WebhookSettings | CommandSettings
    kinds: frozenset[str]
    tenants: frozenset[str] | None = None
    """None: everything is told, also what is about no tenant."""
    timeout_s: float
    """Wall seconds of one try."""
    retry_for_s: float
    """Age in wall seconds from which on an event is not tried again."""

    def wants(self, kind: str, tenant: str) -> bool:
        """Whether it is told of something."""
        return kind in self.kinds and (self.tenants is None or tenant in self.tenants)


def read_targets(path: str | Path) -> tuple[Target, ...]:
    """The targets of a TOML file. Raises ConfigError with the file and the key."""
    document = _document(path)
    _check_keys(document, ("webhook", "command"), str(path))
    targets = [
        *(_webhook(table, f"{path}: webhook {at}") for at, table in _tables(document, "webhook", path)),
        *(_command(table, f"{path}: command {at}") for at, table in _tables(document, "command", path)),
    ]
    if not targets:
        raise ConfigError(f"{path} names nobody to be told; write [[webhook]] or [[command]] tables")
    if len(targets) > _MOST_TARGETS:
        raise ConfigError(f"{path} has {len(targets)} targets; at most {_MOST_TARGETS} are told")
    names = [target.name for target in targets]
    for name in names:
        if names.count(name) > 1:
            raise ConfigError(f"{path}: two targets have the name {name!r}; what was delivered is kept by name")
    return tuple(targets)


def _document(path: str | Path) -> dict[str, Any]:
    try:
        with Path(path).open("rb") as file:
            content = file.read(_MOST_BYTES + 1)
        if len(content) > _MOST_BYTES:
            raise ConfigError(f"{path} has more than {_MOST_BYTES:,} bytes; name another file")
        return parse_toml(content.decode("utf-8"))
    except OSError as error:
        raise ConfigError(f"cannot read {path}: {error.strerror}") from error
    except ValueError as error:
        raise ConfigError(f"{path} is not a TOML file: {error}") from error


def _tables(document: Mapping[str, Any], name: str, path: str | Path) -> list[tuple[int, Mapping[str, Any]]]:
    tables = document.get(name, [])
    if not isinstance(tables, list) or not all(isinstance(table, dict) for table in tables):
        raise ConfigError(f"{path}: write [[{name}]], in two pairs of brackets, for each {name}")
    return list(enumerate(tables, 1))


def _webhook(table: Mapping[str, Any], where: str) -> Target:
    _check_keys(table, (*_SHARED, "url", "secret_file", "ca_file", "allow_http"), where)
    return _target(table, where, _webhook_settings(table, where), timeout_s=10.0, retry_for_s=86400.0)


def _webhook_settings(table: Mapping[str, Any], where: str) -> WebhookSettings:
    url = _text(table, "url", where)
    if not url.isascii() or not url.isprintable() or " " in url:
        raise ConfigError(f"{where}: url {url!r} has spaces or characters that no URL has; write it percent-encoded")
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:
        raise ConfigError(f"{where}: url {url!r} cannot be used: {error}") from error
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        raise ConfigError(f"{where}: url {url!r} is no address of a webhook; write https://HOST/PATH")
    if parts.username is not None or parts.password is not None:
        raise ConfigError(f"{where}: url has a user or a password in it; sign requests with secret_file instead")
    tls = parts.scheme == "https"
    _check_plain(parts.hostname, where, tls=tls, allowed=_flag(table, "allow_http", where))
    return WebhookSettings(
        host=parts.hostname,
        port=port or (443 if tls else 80),
        path=(parts.path or "/") + (f"?{parts.query}" if parts.query else ""),
        tls=_tls(table, where) if tls else None,
        secret=_secret(table, where),
    )


def _check_plain(host: str, where: str, *, tls: bool, allowed: bool) -> None:
    shown = f"[{host}]" if ":" in host else host
    if not tls and not allowed and not is_loopback(f"{shown}:80"):
        raise ConfigError(
            f"{where}: http:// to {host} shows names of tenants and jobs to the network; write https://, or say "
            "allow_http = true"
        )


def _tls(table: Mapping[str, Any], where: str) -> ssl.SSLContext:
    ca_file = _text(table, "ca_file", where, needed=False)
    try:
        return ssl.create_default_context(cafile=ca_file or None)
    except (OSError, ssl.SSLError) as error:
        raise ConfigError(f"{where}: ca_file {ca_file!r} has no certificates that can be used: {error}") from error


def _secret(table: Mapping[str, Any], where: str) -> bytes:
    path = _text(table, "secret_file", where, needed=False)
    if not path:
        return b""
    secret = read_secret(Path(path), "make it with: umask 077; head -c 32 /dev/urandom | base64 > FILE").strip()
    if len(secret) < _LEAST_SECRET:
        raise ConfigError(f"{where}: {path} holds {len(secret)} bytes; a secret has at least {_LEAST_SECRET}")
    return secret


def _command(table: Mapping[str, Any], where: str) -> Target:
    _check_keys(table, (*_SHARED, "argv"), where)
    argv = _texts(table, "argv", where)
    program = shutil.which(argv[0]) if Path(argv[0]).is_absolute() else None
    if program is None or not os.access(program, os.X_OK):
        raise ConfigError(f"{where}: {argv[0]!r} is no program that can be run; give its whole path")
    return _target(table, where, CommandSettings(argv=tuple(argv)), timeout_s=30.0, retry_for_s=600.0)


def _target(
    table: Mapping[str, Any],
    where: str,
    how: WebhookSettings | CommandSettings,
    *,
    timeout_s: float,
    retry_for_s: float,
) -> Target:
    name = _text(table, "name", where)
    try:
        check_name("a target of notifications", name)
    except ConfigError as error:
        raise ConfigError(f"{where}: {error}") from error
    return Target(
        name=name,
        how=how,
        kinds=_kinds(_texts(table, "events", where), where),
        tenants=frozenset(_texts(table, "tenants", where)) if "tenants" in table else None,
        timeout_s=_seconds(table, "timeout_s", timeout_s, _LONGEST_WAIT_S, where),
        retry_for_s=_seconds(table, "retry_for_s", retry_for_s, _LONGEST_RETRY_S, where),
    )


def _kinds(names: Sequence[str], where: str) -> frozenset[str]:
    if _EVERYTHING in names:
        return frozenset(KINDS)
    for name in names:
        if name not in KINDS:
            near = difflib.get_close_matches(name, KINDS, n=1)
            hint = f"did you mean {near[0]!r}?" if near else f"known are {', '.join(KINDS)}, or *"
            raise ConfigError(f"{where}: events has {name!r}; {hint}")
    return frozenset(names)


# Values of a table


def _check_keys(table: Mapping[str, Any], known: Sequence[str], where: str) -> None:
    for name in table:
        if name not in known:
            near = difflib.get_close_matches(name, known, n=1)
            hint = f"did you mean {near[0]!r}?" if near else f"known are {', '.join(known)}"
            raise ConfigError(f"{where}: there is no {name!r}; {hint}")


def _text(table: Mapping[str, Any], key: str, where: str, *, needed: bool = True) -> str:
    value = table.get(key, "")
    if not isinstance(value, str) or "\0" in value or (needed and not value):
        raise ConfigError(f"{where}: {key} is {table.get(key)!r}; give a text")
    return value


def _texts(table: Mapping[str, Any], key: str, where: str) -> list[str]:
    value = table.get(key)
    good = isinstance(value, list) and value and all(isinstance(v, str) and v and "\0" not in v for v in value)
    if not good:
        raise ConfigError(f"{where}: {key} is {value!r}; give a list of texts, such as {_EXAMPLES[key]}")
    assert isinstance(value, list)  # it is good
    return value


_EXAMPLES = {
    "events": '["job-failed", "node-lost"]',
    "tenants": '["vision"]',
    "argv": '["/usr/local/bin/page", "--team", "ml"]',
}


def _flag(table: Mapping[str, Any], key: str, where: str) -> bool:
    value = table.get(key, False)
    if not isinstance(value, bool):
        raise ConfigError(f"{where}: {key} is {value!r}; give true or false")
    return value


def _seconds(table: Mapping[str, Any], key: str, default: float, most: float, where: str) -> float:
    value = table.get(key, default)
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < math.inf or value > most:
        raise ConfigError(f"{where}: {key} is {value!r}; give seconds above 0 and up to {most:g}")
    return float(value)
