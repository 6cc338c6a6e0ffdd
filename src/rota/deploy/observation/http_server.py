"""The port of `rota serve --metrics`: GET /metrics and nothing else, a few scrapes at a time, each within a time limit.

On a loopback address only requests that name this machine are answered, so that no page in a browser can read them
through a name that it makes point here.
"""

from __future__ import annotations

import contextlib
import logging
import socket
import threading
import time
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from prometheus_client import CollectorRegistry
from prometheus_client.exposition import choose_encoder

from rota.core.errors import ConfigError
from rota.deploy.observation.settings import MetricsAddress
from rota.deploy.security.addresses import is_loopback

log = logging.getLogger(__name__)

_PATH = "/metrics"
_AT_ONCE = 8
"""Connections at the same time; more are turned away."""
_TIMEOUT_S = 10.0
"""Wall seconds for which a connection may be silent."""
_LONGEST_S = 30.0
"""Wall seconds that a connection may last at all."""
_REST = 4.0
"""A page that took a second to make is given out again for so many seconds."""
_LEAST_REST_S = 1.0


class MetricsPage:
    """Makes the page, at most now and then: many scrapes cost no more than one."""

    def __init__(
        self,
        collectors: CollectorRegistry,
        before: Callable[[], None],
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        """`before` is called before a page is made, so that all metrics on it are of one moment."""
        self._collectors = collectors
        self._before = before
        self._monotonic = monotonic
        self._lock = threading.Lock()
        self._kept: dict[str, tuple[float, bytes]] = {}

    def render(self, accept: str) -> tuple[bytes, str]:
        """The page, and its content type, as the scraper wants it."""
        encode, content_type = choose_encoder(accept)
        with self._lock:
            began = self._monotonic()
            until, body = self._kept.get(content_type, (0.0, b""))
            if began >= until:
                self._before()
                body = encode(self._collectors)
                now = self._monotonic()
                self._kept = {kind: page for kind, page in self._kept.items() if page[0] > now}
                self._kept[content_type] = (now + max(_LEAST_REST_S, _REST * (now - began)), body)
        return body, content_type


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    allow_reuse_address = True
    block_on_close = False
    request_queue_size = 64

    def __init__(self, address: MetricsAddress, page: MetricsPage) -> None:
        self.page = page
        self.public = address.public
        self.address_family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
        self._places = threading.BoundedSemaphore(_AT_ONCE)
        super().__init__((address.host, address.port), _Handler)

    def process_request(self, request: Any, client_address: Any) -> None:
        """In a thread of its own, if there is a place."""
        if not self._places.acquire(blocking=False):
            self.shutdown_request(request)
            return
        super().process_request(request, client_address)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """Answer, and end it when it takes too long."""
        end = threading.Timer(_LONGEST_S, _cut, [request])
        end.daemon = True
        end.start()
        try:
            super().process_request_thread(request, client_address)
        finally:
            end.cancel()
            self._places.release()

    def handle_error(self, request: Any, client_address: Any) -> None:  # noqa: ARG002 - the signature of the library
        """Who hangs up is no error."""
        log.debug("a scrape from %s ended early", client_address[0], exc_info=True)  # noqa: LOG014 - it is called in one


def _cut(request: socket.socket) -> None:
    with contextlib.suppress(OSError):
        request.shutdown(socket.SHUT_RDWR)


class _Handler(BaseHTTPRequestHandler):
    server: _Server
    protocol_version = "HTTP/1.1"
    server_version = "rota"
    sys_version = ""
    timeout = _TIMEOUT_S

    def do_GET(self) -> None:
        """The page."""
        if not self._allowed():
            return
        try:
            body, content_type = self.server.page.render(self.headers.get("Accept") or "")
        except Exception:
            log.exception("metrics cannot be made")
            self._say(500, "metrics cannot be made; the scheduler's log says why\n")
            return
        self._send(200, body, content_type)

    def do_HEAD(self) -> None:
        """As GET, without the page."""
        if self._allowed():
            self._send(200, b"", "text/plain; charset=utf-8")

    def _allowed(self) -> bool:
        if not self.server.public and not _names_this_machine(self.headers.get("Host") or ""):
            self._say(403, "this port answers only requests to a loopback address\n")
            return False
        if self.path.partition("?")[0] != _PATH:
            self._say(404, f"metrics are at {_PATH}\n")
            return False
        return True

    def _say(self, code: int, text: str) -> None:
        self._send(code, text.encode(), "text/plain; charset=utf-8")

    def _send(self, code: int, body: bytes, content_type: str) -> None:
        self.send_response(code)
        self.send_header("Content-Type", content_type)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("X-Content-Type-Options", "nosniff")
        self.send_header("Connection", "close")  # a connection that is kept might be cut in the middle of a page
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the signature of the library
        """Scrapes are not worth a line."""
        log.debug("%s: %s", self.address_string(), format % args)


def _names_this_machine(host: str) -> bool:
    """Whether the Host of a request is a loopback address; an empty one is sent by no browser."""
    if not host:
        return True
    try:
        return is_loopback(host if ":" in host.rpartition("]")[2] else f"{host}:80")
    except ConfigError:
        return False


class MetricsServer:
    """Serves in threads of its own."""

    def __init__(self, address: MetricsAddress, collectors: CollectorRegistry, before: Callable[[], None]) -> None:
        """Begin to listen. ConfigError if that cannot be."""
        self._address = address
        try:
            self._server = _Server(address, MetricsPage(collectors, before))
        except OSError as error:
            shown = f"{address.host}:{address.port}"
            raise ConfigError(
                f"--metrics {shown}: cannot listen there ({error.strerror or error}); give another port"
            ) from error
        self._thread = threading.Thread(
            target=self._server.serve_forever, kwargs={"poll_interval": 0.2}, name="metrics", daemon=True
        )

    @property
    def url(self) -> str:
        """Where Prometheus finds it."""
        host = self._address.host
        shown = f"[{host}]" if ":" in host else host
        return f"http://{shown}:{self._server.server_address[1]}{_PATH}"

    def start(self) -> None:
        """Begin to answer."""
        self._thread.start()

    def stop(self) -> None:
        """Answer no more."""
        if self._thread.is_alive():
            self._server.shutdown()
            self._thread.join(2.0)
        self._server.server_close()
