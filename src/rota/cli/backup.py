"""`rota backup`: everything that a scheduler needs to go on, in one file, while it runs."""

from __future__ import annotations

from pathlib import Path

import click

from rota.cli.connection import needs_deploy
from rota.cli.options import echo_json, json_option

EXAMPLES = """
\b
Examples:
  rota backup rota-monday.tar --state rota.db
  rota backup rota-monday.tar --state rota.db --certs ./certs --no-logs

\b
Run it on the scheduler's machine; the scheduler goes on meanwhile. The file holds
secrets of jobs (and keys with --certs), so only its owner may read it.
"""


@click.command("backup", epilog=EXAMPLES)
@click.argument("file", type=click.Path(path_type=Path))
@click.option(
    "--state", required=True, type=click.Path(path_type=Path), metavar="FILE", help="State file of rota serve."
)
@click.option(
    "--logs",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="Folder of the output of jobs (default: the name of --state and .logs).",
)
@click.option("--no-logs", is_flag=True, help="Leave the output of jobs out.")
@click.option(
    "--certs", type=click.Path(path_type=Path), metavar="DIR", help="Folder of certificates and keys to keep, too."
)
@json_option
def command(*, file: Path, state: Path, logs: Path | None, no_logs: bool, certs: Path | None, as_json: bool) -> None:
    """Write a backup of a scheduler to FILE, while it runs."""
    backup = needs_deploy("rota.deploy.scheduler.backup")
    if no_logs and logs is not None:
        raise click.UsageError("give either --logs or --no-logs")
    if certs is not None and not certs.is_dir():
        raise click.UsageError(f"--certs {certs} is no folder")
    folder = None if no_logs else logs or Path(f"{state}.logs")
    manifest = backup.write_backup(backup.Places(state=state, logs=folder, certs=certs), file)
    if as_json:
        echo_json(manifest.fields())
    else:
        count = len(manifest.members)
        click.echo(f"{file}: event {manifest.last_event:,}, {count:,} files, {manifest.size / 1e6:,.1f} MB")
