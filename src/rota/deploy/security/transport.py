"""Ports and channels.

TLS with certificates on both ends, or without only on loopback and only when asked.
"""

from __future__ import annotations

import logging
import ssl
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import grpc

from rota.core.errors import ConfigError
from rota.deploy.security.addresses import is_loopback, require_loopback
from rota.deploy.security.bundles import Bundle, load_bundle
from rota.deploy.security.identity import AUTHORIZATION
from rota.deploy.security.subjects import Role

DEADLINE_S = 10.0
"""How long a call may take if its caller does not say."""
LARGEST_MESSAGE = 16 * 1024 * 1024
_log = logging.getLogger(__name__)

_BOTH = (
    ("grpc.max_receive_message_length", LARGEST_MESSAGE),
    ("grpc.max_send_message_length", LARGEST_MESSAGE),
    ("grpc.max_metadata_size", 16 * 1024),
    # A peer that vanished without a word is noticed within 40 s, calls or not.
    ("grpc.keepalive_time_ms", 30_000),
    ("grpc.keepalive_timeout_ms", 10_000),
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.max_reconnect_backoff_ms", 5_000),  # of gRPC itself: two minutes
)
SERVER_OPTIONS: tuple[tuple[str, int], ...] = (
    *_BOTH,
    ("grpc.so_reuseport", 0),  # a second scheduler on the same port is an error, not a coin toss
    ("grpc.http2.min_ping_interval_without_data_ms", 10_000),
    ("grpc.max_concurrent_streams", 1024),
    ("grpc.server_handshake_timeout_ms", 10_000),  # silent connections do not stay
)
CHANNEL_OPTIONS: tuple[tuple[str, int], ...] = (*_BOTH, ("grpc.http2.max_pings_without_data", 0))


class ServerCertificates:
    """The scheduler's credentials. Renewed files are used for new connections without a restart."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._lock = threading.Lock()
        bundle = load_bundle(folder, Role.SCHEDULER)
        self._files = bundle.files
        self._seen = self._stamp()
        self._first = _configuration(bundle)
        self.connections = 0
        """Handshakes begun, whatever became of them."""

    def credentials(self) -> Any:
        """For `add_secure_port`: a client without a certificate of our authority gets nowhere."""
        return grpc.dynamic_ssl_server_credentials(
            self._first, self._fetch, require_client_authentication=True
        )

    def _fetch(self) -> Any:
        """Called by gRPC at the beginning of every handshake, from its own threads.

        None = no change.
        """
        with self._lock:
            self.connections += 1
            try:
                stamp = self._stamp()
                if stamp == self._seen:
                    return None
                self._seen = stamp
                bundle = load_bundle(self._folder, Role.SCHEDULER)
            except (ConfigError, OSError) as error:
                _log.error("the renewed certificate is not used: %s", error)
                return None
            _log.info("new connections get the certificate that ends on %s", bundle.expires)
            return _configuration(bundle)

    def _stamp(self) -> tuple[tuple[int, int], ...]:
        states = [path.stat() for path in self._files]
        return tuple((state.st_mtime_ns, state.st_ino) for state in states)


def listen(server: Any, address: str, *, certs: Path | None = None, insecure: bool = False) -> int:
    """Open a port of a grpc.aio server; the port, which is of interest if 0 was asked for."""
    if insecure:
        require_loopback(address, "listening on")
    elif certs is None:
        raise ConfigError(
            "a scheduler needs certificates: make them with `rota certs init` and name their "
            "folder, or give --insecure on a loopback address"
        )
    credentials = None if insecure or certs is None else ServerCertificates(certs).credentials()
    try:
        port = (
            server.add_insecure_port(address)
            if insecure
            else server.add_secure_port(address, credentials)
        )
        return int(port)
    except RuntimeError as error:
        raise ConfigError(
            f"cannot listen on {address}: it is in use, not an address of this machine, or not "
            "allowed; choose another one, or stop the other scheduler"
        ) from error


def open_channel(
    address: str,
    *,
    bundle: Bundle | None = None,
    token: str | None = None,
    insecure: bool = False,
    metadata: tuple[tuple[str, str], ...] = (),
    sync: bool = False,
) -> Any:
    """A grpc.aio or blocking channel whose unary calls have a deadline even if nobody sets one.

    The token goes with every call, and only over TLS. It is no call credential of gRPC: a thread of
    gRPC lets go of those, and needs Python's lock for it. A channel that is closed at that moment
    waits for the thread with the lock in its hands, for ever (grpc/grpc#42247).
    """
    from rota.deploy.security.defaults import aio_interceptors, sync_interceptor

    # A proxy from the environment must not carry what is meant to stay on this machine.
    options = [*CHANNEL_OPTIONS, *([("grpc.enable_http_proxy", 0)] if is_loopback(address) else [])]
    make_channel: Callable[..., Any]
    if insecure:
        require_loopback(address, "connecting to")
        make_channel = grpc.insecure_channel if sync else grpc.aio.insecure_channel
        arguments = [address]
    elif bundle is None:
        raise ConfigError(
            "connecting needs certificates, or --insecure for a scheduler on this machine"
        )
    else:
        make_channel = grpc.secure_channel if sync else grpc.aio.secure_channel
        secure = grpc.ssl_channel_credentials(bundle.authority, bundle.key, bundle.certificate)
        arguments = [address, secure]
        if token is not None:
            metadata = (*metadata, (AUTHORIZATION, f"Bearer {token}"))
    if sync:
        channel = make_channel(*arguments, options=options)
        return grpc.intercept_channel(channel, sync_interceptor(metadata, DEADLINE_S))
    return make_channel(
        *arguments, options=options, interceptors=aio_interceptors(metadata, DEADLINE_S)
    )


def client_context(bundle: Bundle) -> ssl.SSLContext:
    """TLS beside gRPC: the authority alone is trusted, and our certificate is shown."""
    context = ssl.create_default_context(ssl.Purpose.SERVER_AUTH, cadata=bundle.authority.decode())
    context.load_cert_chain(bundle.files.certificate, bundle.files.key)
    return context


def _configuration(bundle: Bundle) -> Any:
    return grpc.ssl_server_certificate_configuration(
        [(bundle.key, bundle.certificate)], bundle.authority
    )
