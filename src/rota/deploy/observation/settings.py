"""What `rota serve` was asked to show and to tell beside its work."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from rota.core.errors import ConfigError
from rota.deploy.notifications.settings import Target
from rota.deploy.security.addresses import is_loopback, is_unix, split


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricsAddress:
    """Where metrics are served."""

    host: str
    port: int
    public: bool = False
    """Whether other machines may reach it."""


def metrics_address(text: str, *, public: bool) -> MetricsAddress:
    """From `HOST:PORT`. ConfigError if it is none, or if it leaves this machine and nobody said that it may."""
    if is_unix(text):
        raise ConfigError(
            f"--metrics {text}: give HOST:PORT, e.g. 127.0.0.1:9464; Prometheus reads no sockets of files"
        )
    host, port = split(text)
    local = bool(host) and is_loopback(text)
    if not local and not public:
        raise ConfigError(
            f"--metrics {text}: other machines could read the names of tenants and servers there, without a password; "
            "give a loopback address (127.0.0.1:9464), or add --metrics-public"
        )
    return MetricsAddress(host=host, port=port, public=not local)


def _ignore(_: str) -> None:
    """Nobody wants to know."""


@dataclass(frozen=True, kw_only=True)
class ObservationSettings:
    """Metrics, events as lines of the log, notifications."""

    metrics: MetricsAddress | None = None
    event_lines: bool = False
    """Whether events are logged, each in a line."""
    targets: tuple[Target, ...] = ()
    """Who is told of events."""
    metrics_ready: Callable[[str], None] = _ignore
    """Gets the URL of the metrics once it is known."""
