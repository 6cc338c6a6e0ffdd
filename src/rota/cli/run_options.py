"""Options that several verbs share.

What decides, from which profiles, and how rounds are carried out.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

from rota.cli import names
from rota.cli.options import F, completes, seconds

POLICY = "Policy that says how much GPU time each job gets: a name (`rota policies`) or file.py:Class."
MECHANISM = "Mechanism that says which jobs run on which servers: a name (`rota mechanisms`) or file.py:Class."
PROFILES = "Catalogue of throughput profiles: a name (`rota profiles` lists them) or a file; several as a,b."
RULES = "Preset of rules for carrying out rounds; `rota rules` lists them."
MEASURE = "Measure only jobs A to B-1, and stop when they are done; auto: where the run is steady."


def policy_option(**more: Any) -> Callable[[F], F]:
    """`--policy NAME`."""
    return click.option(
        "--policy",
        metavar="NAME",
        shell_complete=completes(names.policies),
        help=POLICY,
        **more,
    )


def mechanism_option() -> Callable[[F], F]:
    """`--mechanism NAME`."""
    complete = completes(names.mechanisms)
    return click.option("--mechanism", metavar="NAME", shell_complete=complete, help=MECHANISM)


def profiles_option(**more: Any) -> Callable[[F], F]:
    """`--profiles NAME|FILE,...`, repeatable: of several, the first that has a speed is believed."""
    text = more.pop("help", PROFILES)
    complete = completes(names.profiles)
    default = more.pop("default", None)
    return click.option(
        "--profiles",
        metavar="NAME|FILE",
        shell_complete=complete,
        multiple=True,
        callback=_together,
        default=() if default is None else (default,),
        help=text,
        **more,
    )


def _together(_ctx: click.Context, _param: click.Parameter, values: tuple[str, ...]) -> str | None:
    """Repeated options as one text."""
    return ",".join(values) or None


def rules_option(**more: Any) -> Callable[[F], F]:
    """`--rules NAME`."""
    return click.option(
        "--rules",
        metavar="NAME",
        shell_complete=completes(names.rules),
        help=RULES,
        **more,
    )


def seconds_option(
    flag: str,
    text: str,
    *,
    name: str | None = None,
    **more: Any,
) -> Callable[[F], F]:
    """An option for a positive number of seconds."""
    declared = (flag,) if name is None else (flag, name)
    more.setdefault("metavar", "SECONDS")
    return click.option(*declared, type=float, callback=seconds, help=text, **more)
