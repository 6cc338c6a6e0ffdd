"""The client's side.

Where the scheduler is and what opens it, and one clear message when it cannot be reached.

Each setting is looked for in this order: what the caller gives (flags), the environment
(ROTA_SCHEDULER, ROTA_CERTS, ROTA_TOKEN or ROTA_TOKEN_FILE), .rota/client.toml in the current folder
or the nearest one above it (`rota up` writes it; a file of somebody else is not used), and the
user's file client.toml in $XDG_CONFIG_HOME/rota (~/.config/rota). Certificates are looked for in
`certs` beside that last file in the end. Doing without certificates is never found anywhere: it
takes a flag.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import grpc

from rota.core.errors import ConfigError
from rota.core.parsing import parse_toml
from rota.deploy.security import secret_files
from rota.deploy.security.addresses import require_loopback
from rota.deploy.security.bundles import Bundle, load_bundle
from rota.deploy.security.diagnosis import diagnose
from rota.deploy.security.identity import NAME, ROLE, TENANT
from rota.deploy.security.places import config_folder
from rota.deploy.security.subjects import Role, check_name
from rota.deploy.security.tokens import looks_like_a_token
from rota.deploy.security.transport import open_channel
from rota.deploy.stopping import NOT_IN_CHARGE, STOPPING

_MOST_SCHEDULERS = 5
_KEYS = {"scheduler", "certs", "token_file"}


@dataclass(frozen=True)
class ClientSettings:
    """What a connection needs, and where each part of it was found."""

    address: str
    bundle: Bundle | None = None
    token: str | None = field(default=None, repr=False)
    insecure: bool = False
    sources: Mapping[str, str] = field(default_factory=dict)
    others: tuple[str, ...] = ()
    """Addresses of schedulers that may be in charge instead: standbys."""

    def each(self) -> list[ClientSettings]:
        """The settings for each address by itself."""
        return [replace(self, address=one, others=()) for one in (self.address, *self.others)]

    def describe(self) -> str:
        """For messages: the parts and where they come from; never the token."""
        parts = [f"scheduler {self.address} from {self.sources.get('scheduler', 'the caller')}"]
        if self.bundle is not None:
            parts.append(
                f"certificate {self.bundle.files.certificate} from "
                f"{self.sources.get('certs', 'the caller')}"
            )
        if not self.insecure:
            parts.append(
                f"token from {self.sources.get('token', 'the caller')}"
                if self.token
                else "no token"
            )
        return "; ".join(parts)


def find_settings(
    address: str | None = None,
    certs: str | Path | None = None,
    token_file: str | Path | None = None,
    *,
    insecure: bool = False,
    role: Role = Role.CLIENT,
    name: str | None = None,
    environ: Mapping[str, str] = os.environ,
) -> ClientSettings:
    """The settings of a client or an agent.

    Raises ConfigError with every place that was looked at.
    """
    user_file = config_folder(environ) / "client.toml"
    user_settings = _read_settings(user_file)
    near_file = nearest_file()
    near_settings = {} if near_file is None else _read_settings(near_file)
    sources: dict[str, str] = {}

    def first(key: str, given: str | Path | None, variable: str) -> str | None:
        for value, source in (
            (given, "the command line"),
            (environ.get(variable), variable),
            (near_settings.get(key), str(near_file)),
            (user_settings.get(key), str(user_file)),
        ):
            if value:
                sources[key] = source
                return str(value)
        return None

    scheduler = first("scheduler", address, "ROTA_SCHEDULER")
    if scheduler is None:
        raise ConfigError(
            "no scheduler is named: give its address (--scheduler HOST:PORT), set ROTA_SCHEDULER, "
            f"or write scheduler = ... in {user_file}; `rota up` starts one on this machine, which "
            "is then found from its folder"
        )
    scheduler, *others = _addresses(scheduler, sources["scheduler"], only_loopback=insecure)
    if insecure:
        return ClientSettings(scheduler, insecure=True, sources=sources, others=tuple(others))
    certs_folder = first("certs", certs, "ROTA_CERTS")
    if certs_folder is None:
        certs_folder = _default_certs(user_file)
        sources["certs"] = "the default place"
    bundle = load_bundle(Path(certs_folder).expanduser(), role, name)
    token = _token(first("token_file", token_file, "ROTA_TOKEN_FILE"), token_file, environ, sources)
    return ClientSettings(
        scheduler,
        bundle,
        token if role is Role.CLIENT else None,
        sources=sources,
        others=tuple(others),
    )


def _addresses(text: str, source: str, *, only_loopback: bool) -> list[str]:
    """One address, or several with commas between them. Raises ConfigError."""
    found = [part.strip() for part in text.split(",")]
    if not all(found) or len(found) > _MOST_SCHEDULERS or len(set(found)) < len(found):
        raise ConfigError(
            f"{text!r} from {source} is no list of schedulers; give HOST:PORT, or up to "
            f"{_MOST_SCHEDULERS} different ones with commas between them"
        )
    for address in found if only_loopback else ():
        require_loopback(address, f"connecting (address from {source}) to")
    return found


def _default_certs(user_file: Path) -> str:
    folder = user_file.with_name("certs")
    if not folder.is_dir():
        raise ConfigError(
            "no certificates: give their folder, set ROTA_CERTS, write certs = ... in "
            f"{user_file}, or put them into "
            f"{folder}; --insecure does without them for a scheduler on this machine"
        )
    return str(folder)


def connect(
    settings: ClientSettings,
    *,
    tenant: str | None = None,
    agent: str | None = None,
    sync: bool = False,
) -> Any:
    """A channel: grpc.aio, or blocking with `sync`. It connects with the first call.

    `tenant` and `agent` only matter without certificates, where the scheduler believes what it is
    told.
    """
    metadata: tuple[tuple[str, str], ...] = ()
    if settings.insecure and tenant is not None:
        metadata += ((TENANT, check_name("a tenant", tenant)),)
    if settings.insecure and agent is not None:
        metadata += ((ROLE, Role.AGENT.value), (NAME, check_name("an agent", agent)))
    return open_channel(
        settings.address,
        bundle=settings.bundle,
        token=settings.token,
        insecure=settings.insecure,
        metadata=metadata,
        sync=sync,
    )


@contextlib.contextmanager
def explained(settings: ClientSettings) -> Iterator[None]:
    """Turn the failures that a user can mend into one message. Other errors of gRPC pass."""
    try:
        yield
    except grpc.RpcError as error:
        code = error.code() if hasattr(error, "code") else None
        details = error.details() if hasattr(error, "details") else ""
        if code is grpc.StatusCode.UNAVAILABLE and (details or "").startswith(
            (STOPPING, NOT_IN_CHARGE)
        ):
            raise ConfigError(f"{details} ({settings.describe()})") from error
        if code is grpc.StatusCode.UNAVAILABLE:
            why = diagnose(settings.address, settings.bundle)
            raise ConfigError(
                f"cannot talk to the scheduler: {why} ({settings.describe()})"
            ) from error
        if code in {grpc.StatusCode.UNAUTHENTICATED, grpc.StatusCode.PERMISSION_DENIED}:
            raise ConfigError(
                f"the scheduler refuses: {details} ({settings.describe()})"
            ) from error
        if code is grpc.StatusCode.DEADLINE_EXCEEDED:
            raise ConfigError(
                "the scheduler did not answer in time; is it overloaded, or the address that of "
                f"another service? ({settings.describe()})"
            ) from error
        raise


def nearest_file(start: Path | None = None) -> Path | None:
    """The .rota/client.toml of the current folder or the nearest one above it.

    One that belongs to somebody else, or that others may write, is passed over: in a shared folder
    it could lead our token to a stranger's scheduler.
    """
    here = Path.cwd() if start is None else start
    for folder in (here, *here.parents):
        path = folder / ".rota" / "client.toml"
        with contextlib.suppress(OSError):
            state = path.stat()
            if state.st_uid == os.geteuid() and not state.st_mode & 0o022:
                return path
    return None


def _read_settings(path: Path) -> Mapping[str, str]:
    try:
        document = parse_toml(path.read_text(encoding="utf-8"))
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror}") from error
    except ValueError as error:
        raise ConfigError(f"{path} is not a TOML file: {error}") from error
    wrong = sorted(k for k, v in document.items() if k not in _KEYS or not isinstance(v, str))
    if wrong:
        known = ", ".join(sorted(_KEYS))
        raise ConfigError(
            f"{path}: {', '.join(wrong)} cannot be used; known are {known}, each a text in quotes"
        )
    return document


def _token(
    file: str | None, given: str | Path | None, environ: Mapping[str, str], sources: dict[str, str]
) -> str | None:
    if given is None and environ.get("ROTA_TOKEN"):
        text = environ["ROTA_TOKEN"].strip()
        sources["token"] = "ROTA_TOKEN"
    elif file is not None:
        path = Path(file).expanduser()
        content = secret_files.read_secret(path, "write the token into it, or name another file")
        text = content.decode("utf-8", "replace").strip()
        sources["token"] = f"{path} ({sources['token_file']})"
    else:
        return None
    if not looks_like_a_token(text):
        raise ConfigError(
            f"{sources['token']} does not hold a token; one looks like rota_<id>_<secret>"
        )
    return text
