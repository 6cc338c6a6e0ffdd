"""Addresses: which of them never leave this machine.

Only those may be used without certificates.
"""

from __future__ import annotations

import ipaddress
import socket
from urllib.parse import unquote

from rota.core.errors import ConfigError
from rota.core.parsing import is_count

DEFAULT_PORT = 7070


def split(address: str) -> tuple[str, int]:
    """Host and port of `host:port` or `[v6]:port`.

    gRPC's `dns:`, `ipv4:` or `ipv6:` may be in front.
    """
    text = address
    for scheme in ("dns:///", "dns:", "ipv4:", "ipv6:"):
        text = text.removeprefix(scheme)
    host, colon, port = text.rpartition(":")
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    elif ":" in host:
        raise ConfigError(
            f"{address!r} is not an address; write an IPv6 address as [::1]:{DEFAULT_PORT}"
        )
    if not colon or not is_count(port) or int(port) > 65535:
        raise ConfigError(
            f"{address!r} is not an address; write it as HOST:PORT, e.g. localhost:{DEFAULT_PORT}"
        )
    return host, int(port)


def is_unix(address: str) -> bool:
    """Whether it is a socket in the file system."""
    return address.startswith(("unix:", "unix-abstract:"))


def is_loopback(address: str) -> bool:
    """Whether nobody on another machine can reach, or be reached at, an address.

    True for unix sockets, 127.0.0.0/8, ::1, and `localhost` where it means only those. Other names
    are never trusted: what they resolve to can change.
    """
    if is_unix(address):
        return True
    host, port = split(address)
    if host != "localhost":
        return _is_loopback_ip(host)
    try:
        resolved = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except OSError:
        return False
    return bool(resolved) and all(_is_loopback_ip(str(entry[4][0])) for entry in resolved)


def require_loopback(address: str, doing: str) -> None:
    """Raise ConfigError if something without certificates would leave this machine."""
    if not is_loopback(address):
        raise ConfigError(
            f"{doing} {address} without certificates is refused: --insecure is for this machine "
            "only (127.0.0.1, [::1], localhost, unix:). Make certificates with `rota certs init`, "
            "or use a loopback address"
        )


def peer_is_local(peer: str) -> bool:
    """Whether a caller is on this machine.

    `peer` is gRPC's name: `ipv4:127.0.0.1:40000`, `ipv6:%5B::1%5D:40000`, `unix:`.
    """
    if is_unix(peer):
        return True
    try:
        return _is_loopback_ip(split(unquote(peer))[0])
    except ConfigError:
        return False


def _is_loopback_ip(text: str) -> bool:
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        return False
    mapped = getattr(address, "ipv4_mapped", None)
    return bool((mapped or address).is_loopback)
