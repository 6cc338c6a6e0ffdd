"""`rota dashboard`: a page about the cluster, for whoever starts it."""

from __future__ import annotations

from typing import Any

import click

from rota.cli.connection import connection, open_client
from rota.cli.options import echo_json, json_option
from rota.core.errors import ConfigError

EXAMPLES = """
\b
Examples:
  rota dashboard                 prints a link; open it in a browser on this machine
  rota dashboard --port 0        on any free port
  ssh -L 7080:127.0.0.1:7080 head rota dashboard     from another machine

The page is served on loopback and shows what your certificate and token may see.
A link can be used once; the next one is printed as soon as it was used.
"""
_EXTRA = {"starlette", "uvicorn"}


@click.command("dashboard", epilog=EXAMPLES)
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=7080,
    show_default=True,
    metavar="PORT",
    help="Port on 127.0.0.1 (0: any that is free).",
)
@connection
@json_option
def command(*, port: int, as_json: bool, **options: Any) -> None:
    """Serve a page about the cluster on this machine, with your own rights, until Ctrl-C.

    Whoever has the link can do what you may: see your jobs and cancel them, and as an administrator drain servers.
    """
    client = open_client(options)
    try:
        from rota.dashboard.serving import serve
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] in _EXTRA:
            fix = "run: pip install '.[deploy,dashboard]' in a checkout of Rota"
            raise ConfigError(f"this needs {error.name}, which is not installed; {fix}") from error
        raise
    links = 0

    def told(link: str) -> None:
        nonlocal links
        if as_json:
            echo_json({"link": link, "scheduler": client.settings.address})
        elif links == 0:
            click.echo(f"rota: the dashboard of {client.settings.address}; open once: {link}")
        else:
            click.echo(f"rota: that link was used; for another browser: {link}")
        links += 1

    serve(client, port, told)
