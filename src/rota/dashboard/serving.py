"""`rota dashboard` from the inside: a port on loopback, the gateway behind it, until somebody says stop."""

from __future__ import annotations

import contextlib
import secrets
import signal
import socket
from collections.abc import Callable
from typing import TYPE_CHECKING

import uvicorn

from rota.core.errors import ConfigError
from rota.dashboard.access import Access
from rota.dashboard.gateway import Gateway
from rota.dashboard.tickets import KeyFile, Tickets, rights_of
from rota.dashboard.watching import Pace, Watcher

if TYPE_CHECKING:
    from rota.deploy.control import Client

LOOPBACK = "127.0.0.1"
_LONGEST_END_S = 1
_MOST_CONNECTIONS = 200


def serve(client: Client, port: int, told: Callable[[str], None], pace: Pace | None = None) -> None:
    """Serve until Ctrl-C or TERM; `told` hears of every link. Raises ConfigError if the port is taken."""
    listening = _listen(port)
    watcher = Watcher(client, pace)
    key_file = KeyFile(port) if port else None  # on any free port, the next gateway has another one
    key = secrets.token_bytes(32) if key_file is None else key_file.read_or_make()
    number = listening.getsockname()[1]
    access = Access(number, told, Tickets(number, key, rights_of(client.settings)))
    gateway = Gateway(client, watcher, access, lambda: type(client)(settings=client.settings))
    config = uvicorn.Config(
        gateway.app(),
        log_level="warning",
        access_log=False,
        server_header=False,
        date_header=False,
        lifespan="off",
        ws="none",
        timeout_graceful_shutdown=_LONGEST_END_S,
        limit_concurrency=_MOST_CONNECTIONS,
    )
    # Uvicorn ends in order and then raises the signal again, which must not end the process before what follows here.
    signal.signal(signal.SIGTERM, lambda *_: None)
    watcher.start()
    try:
        with contextlib.suppress(KeyboardInterrupt):  # it is how a gateway ends
            uvicorn.Server(config).run(sockets=[listening])
    finally:
        if key_file is not None:
            key_file.remove()  # one that is killed leaves it, for pages that stay open
        watcher.stop()
        client.close()
        listening.close()


def _listen(port: int) -> socket.socket:
    listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((LOOPBACK, port))
        listening.listen()  # before anybody is told the link
    except OSError as error:
        listening.close()
        problem = f"cannot listen on {LOOPBACK}:{port}: {error.strerror}"
        raise ConfigError(f"{problem}; give another --port, or --port 0 for one that is free") from error
    return listening
