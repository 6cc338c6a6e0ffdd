"""`rota policies`: what can be given to `--policy`."""

from __future__ import annotations

import click

from rota.cli import names
from rota.cli.listing import show_registry
from rota.cli.options import completes, json_option

_BY_WEIGHT = (
    "It goes by weights: in a deployment (rota serve --fair-by tenant, the default), or as the inner policy of\n"
    "fair-by-tenant, it is fair between tenants first, then between the jobs of each."
)
_NOT_BY_WEIGHT = "In a deployment it stays as it is: --fair-by tenant is for policies that share out by weights."


@click.command("policies", epilog="Example: rota policies max-min-fairness-perf")
@click.argument("name", required=False, shell_complete=completes(names.policies))
@json_option
def command(name: str | None, *, as_json: bool) -> None:
    """List scheduling policies, or explain one."""
    show_registry(names.policy_registry(), name, as_json=as_json)
    if name is not None and not as_json:
        from rota.policies.fair_by_tenant import FairByTenant, divides_by_weight

        by_itself = names.policy_registry().entry(name).factory is FairByTenant
        if not by_itself:
            click.echo(f"\n{_BY_WEIGHT if divides_by_weight(name) else _NOT_BY_WEIGHT}")
