"""Options by which operators watch `rota serve` and `rota agent`: metrics, notifications, the form of the log."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import click

from rota.core.errors import ConfigError

Verb = TypeVar("Verb", bound=Callable[..., Any])

log_format_option = click.option(
    "--log-format",
    type=click.Choice(["text", "json"]),
    default="text",
    show_default=True,
    help="Form of what is logged: lines for people, or a JSON object per line with job, tenant, node and round.",
)


def metrics_options(verb: Verb) -> Verb:
    """Where metrics are served."""
    verb = click.option(
        "--metrics-public",
        is_flag=True,
        help="Let other machines reach --metrics: names of tenants and servers are shown to anybody there.",
    )(verb)
    return click.option(
        "--metrics",
        metavar="HOST:PORT",
        help="Address of metrics for Prometheus, e.g. 127.0.0.1:9464; port 0 is any free one.",
    )(verb)


def notify_option(verb: Verb) -> Verb:
    """Who is told of events."""
    return click.option(
        "--notify",
        type=click.Path(resolve_path=True),
        metavar="FILE",
        help="TOML file with webhooks and commands that are told of events (docs/notifications.md).",
    )(verb)


def observation_options(verb: Verb) -> Verb:
    """All of them, for the scheduler."""
    return metrics_options(notify_option(verb))


def observed(options: dict[str, Any], log_format: str, metrics_ready: Callable[[str], None]) -> Any:
    """What was asked for; takes its options out of the others."""
    from rota.deploy.notifications.settings import read_targets
    from rota.deploy.observation.settings import ObservationSettings, metrics_address

    address = options.pop("metrics")
    public = options.pop("metrics_public")
    file = options.pop("notify")
    if public and address is None:
        raise ConfigError("--metrics-public needs --metrics HOST:PORT, the address that others may reach")
    return ObservationSettings(
        metrics=None if address is None else metrics_address(address, public=public),
        event_lines=log_format == "json",
        targets=() if file is None else read_targets(file),
        metrics_ready=metrics_ready,
    )


def configure_logs(level: str, log_format: str, common: Mapping[str, Any] | None = None) -> None:
    """Send what is logged to standard error, in that form; `common` is in every line of JSON."""
    from rota.deploy import structured_logs

    structured_logs.configure(level, log_format, common)
