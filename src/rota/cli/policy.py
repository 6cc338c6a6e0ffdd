"""`rota policy`: what decides in a live cluster, and how to change it while it runs."""

from __future__ import annotations

from typing import Any

import click

from rota.cli import names
from rota.cli.connection import connection, needs_deploy, open_client
from rota.cli.live_change import change_options, make_change
from rota.cli.options import completes, echo_json, json_option, settings_option
from rota.cli.run_options import mechanism_option, rules_option, seconds_option

EXAMPLES = """
\b
Examples:
  rota policy
  rota policy set srtf --mechanism tune --preview
  rota policy set srtf --mechanism tune
  rota policy set --rule resolve_every_s=60 --yes
  rota policy set --discard --yes

\b
What is set here is an event of the journal. It stays in force when the scheduler is
started again, whatever its options say, until --discard here or `rota serve
--discard-live-settings`.
"""


@click.group("policy", invoke_without_command=True, epilog=EXAMPLES)
@connection
@json_option
@click.pass_context
def command(ctx: click.Context, /, *, as_json: bool, **options: Any) -> None:
    """Show what decides in a live cluster; `rota policy set` changes it."""
    if ctx.invoked_subcommand is not None:
        return
    with open_client(options) as client:
        settings = client.live_settings()
    if as_json:
        echo_json(settings)
    else:
        _show(settings)


@command.command("set", epilog=EXAMPLES)
@click.argument("policy", default="", shell_complete=completes(names.policies))
@settings_option("--option", "policy_settings", "Parameter of the policy")
@mechanism_option()
@settings_option("--mechanism-option", "mechanism_settings", "Parameter of the mechanism")
@rules_option()
@settings_option("--rule", "rule_settings", "One field of the rules")
@seconds_option("--round", "Length of a round in seconds.", name="round_s")
@click.option(
    "--fair-by",
    type=click.Choice(["tenant", "job"]),
    help="Whom a policy that goes by weights treats alike.",
)
@click.option(
    "--discard",
    is_flag=True,
    help="First forget all that was set live: back to the options of `rota serve`.",
)
@change_options
def set_policy(*, as_json: bool, preview: bool, yes: bool, **options: Any) -> None:
    """Let another policy, mechanism or other rules decide, from the next decision on.

    A preview says who gains and who loses before you are asked. Takes an administrator's token.
    """
    pb = needs_deploy("rota.rpc.rota_pb2")
    given = ("policy", "policy_settings", "mechanism", "mechanism_settings", "rules", "rule_settings", "round_s",
             "fair_by", "discard")  # fmt: skip
    values = {name: options.pop(name) for name in given}
    request = pb.SettingsRequest(**{name: value for name, value in values.items() if value})
    make_change(request, options, as_json=as_json, preview=preview, yes=yes)


def _show(settings: dict[str, Any]) -> None:
    from rota.cli.tables import show_pairs

    rules = settings["rules"]
    pairs = [
        ("policy", _with(settings["policy"], settings["policy_settings"])),
        ("mechanism", _with(settings["mechanism"], settings["mechanism_settings"])),
        ("rules", f"{rules['name']}, rounds of {rules['round_s']:g} s"),
        ("fair by", settings["fair_by"]),
        ("set live", ", ".join(settings["live"]) or "nothing"),
    ]
    if settings.get("changed_by"):
        pairs.append(("last changed by", settings["changed_by"]))
    show_pairs("settings in force", pairs)
    overruled = settings.get("command_line", ())
    if overruled:
        click.echo("what `rota serve` was started with is different, and does not count:")
        for line in overruled:
            click.echo(f"  {line}")


def _with(name: str, settings: dict[str, Any]) -> str:
    return name + "".join(f" {key}={value}" for key, value in settings.items())
