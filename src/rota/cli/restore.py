"""`rota restore`: a backup is checked, or becomes the state of a scheduler again."""

from __future__ import annotations

from pathlib import Path

import click

from rota.cli.connection import needs_deploy
from rota.cli.options import echo_json, json_option

EXAMPLES = """
\b
Examples:
  rota restore rota-monday.tar --check
  rota restore rota-monday.tar --state rota.db
  rota restore rota-monday.tar --state rota.db --certs ./certs

\b
Nothing is overwritten. Stop the scheduler of before first, wherever it runs. What
happened after the backup is lost; see docs/operating.md.
"""


@click.command("restore", epilog=EXAMPLES)
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--check", is_flag=True, help="Read the whole backup and compare its checksums; write nothing.")
@click.option("--state", type=click.Path(path_type=Path), metavar="FILE", help="State file to make.")
@click.option(
    "--logs",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="Folder for the output of jobs (default: the name of --state and .logs).",
)
@click.option(
    "--certs",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="Folder for certificates and keys, if there are any.",
)
@json_option
def command(
    *, file: Path, check: bool, state: Path | None, logs: Path | None, certs: Path | None, as_json: bool
) -> None:
    """Make the state of a scheduler from a backup, or check one."""
    backup = needs_deploy("rota.deploy.scheduler.backup")
    if check == (state is not None):
        raise click.UsageError("give --check, or --state FILE for the state file to make")
    if state is None:
        manifest = backup.check_backup(file)
    else:
        places = backup.Places(state=state, logs=logs or Path(f"{state}.logs"), certs=certs)
        manifest = backup.restore_backup(file, places)
    if as_json:
        echo_json(manifest.fields())
        return
    what = f"event {manifest.last_event:,}, made {manifest.made} by version {manifest.version}"
    click.echo(f"{file} is whole: {what}" if state is None else f"{state}: {what}")
    if state is not None:
        click.echo("what happened after that is lost; job numbers go on with a gap, so that none is given twice")
