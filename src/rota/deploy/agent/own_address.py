"""Where other machines find this one: the address by which it reaches the scheduler."""

from __future__ import annotations

import contextlib
import socket

from rota.core.errors import ConfigError
from rota.deploy.security.addresses import is_loopback, split

LOOPBACK = "127.0.0.1"


def own_address(scheduler: str) -> str:
    """The address of this machine on the way to the scheduler; 127.0.0.1 if that is on this machine.

    Nothing is sent: the system is asked which way it would go. Without an answer it is the name of the machine.
    """
    if is_loopback(scheduler):
        return LOOPBACK
    with contextlib.suppress(OSError, ConfigError):
        host, port = split(scheduler)
        for family, kind, protocol, _, target in socket.getaddrinfo(host, port, type=socket.SOCK_DGRAM):
            with contextlib.suppress(OSError), socket.socket(family, kind, protocol) as way:
                way.connect(target)
                return str(way.getsockname()[0])
    return socket.gethostname()
