"""Options that all verbs share which talk to a scheduler, and the client they make."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

from rota.core.errors import ConfigError

if TYPE_CHECKING:
    from rota.deploy.control import Client

F = TypeVar("F", bound=Callable[..., Any])

_OPTIONS = (
    click.option(
        "--scheduler",
        metavar="HOST:PORT",
        help="Address of the scheduler (or ROTA_SCHEDULER, or client.toml).",
    ),
    click.option(
        "--certs",
        metavar="DIR",
        help="Folder with the certificates (or ROTA_CERTS, or client.toml).",
    ),
    click.option(
        "--token-file",
        metavar="FILE",
        help="File with your token (or ROTA_TOKEN_FILE, ROTA_TOKEN, or client.toml).",
    ),
    click.option(
        "--insecure",
        is_flag=True,
        help="Use no certificates: only for a scheduler on this machine.",
    ),
)


def connection(command: F) -> F:
    """Add --scheduler, --certs, --token-file and --insecure."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def open_client(options: dict[str, Any], tenant: str | None = None) -> Client:
    """The client that the options mean; they are taken out of `options`."""
    client_module = needs_deploy("rota.deploy.control")
    client: Client = client_module.Client(
        options.pop("scheduler"),
        certs=options.pop("certs"),
        token_file=options.pop("token_file"),
        insecure=options.pop("insecure"),
        tenant=tenant,
    )
    return client


def needs_deploy(module: str) -> Any:
    """Import a module of a deployment; without the extra, say how to get it."""
    import importlib

    from rota.deploy.security.places import quiet_grpc

    if module != "rota.deploy.server.serving":  # which reads gRPC's lines about failed handshakes
        quiet_grpc()
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        if package in {"grpc", "google", "grpc_health", "cryptography"}:
            raise ConfigError(
                f"this needs {error.name}, which is not installed; run: pip install '.[deploy]' in a checkout of Rota"
            ) from error
        raise
