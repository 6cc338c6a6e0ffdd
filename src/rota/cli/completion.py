"""`rota completion`: make a shell complete verbs, options and names."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

EXAMPLES = """
\b
Examples:
  rota completion bash > ~/.local/share/bash-completion/completions/rota
  rota completion zsh > ~/.zfunc/_rota     (with ~/.zfunc in $fpath)
  rota completion fish > ~/.config/fish/completions/rota.fish
"""


@click.command("completion", epilog=EXAMPLES)
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def command(shell: str) -> None:
    """Print a script with which a shell completes commands, options and names of policies and the like."""
    from rota.cli.main import cli  # main imports this module by name

    completion_class = get_completion_class(shell)
    assert completion_class is not None, shell  # click knows the three shells of the choice
    completion = completion_class(cli, {}, "rota", "_ROTA_COMPLETE")
    click.echo(completion.source_template % completion.source_vars())
