"""`rota profiles --learned`: speeds that a scheduler learned, as a table, as plain values, or as a profile file."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from rota.cli.connection import open_client
from rota.cli.job_text import printable
from rota.cli.options import echo_json
from rota.core.errors import ConfigError

if TYPE_CHECKING:
    from rota.profiles.writing import LearnedRate

_FIELDS = ("tenant", "profile", "gpus", "type", "cpus", "memory_gb", "servers", "rate", "blocks", "share", "believed")
_HEADER = ("tenant", "profile", "GPUs", "type", "CPUs", "memory GB", "steps/s", "error", "blocks", "catalogue", "used")


def show_learned(options: dict[str, Any], *, tenant: str, output: str | None, as_json: bool) -> None:
    """Ask the scheduler that the options name, and write or show what it knows."""
    with open_client(options) as client:
        reply = client.learned_speeds(tenant)
    speeds = list(reply.speeds)
    if reply.truncated:
        click.echo("rota: note: there are more speeds than fit into one answer; name a tenant with --tenant", err=True)
    if output is not None:
        write_learned(speeds, output)
        return
    if as_json:
        echo_json({"speeds": [_as_fields(speed) for speed in speeds]})
        return
    if not speeds:
        click.echo("nothing was learned yet: no job ran for long enough")
        return
    from rota.cli.tables import show_table

    show_table("speeds that were seen, steps/s of whole jobs", _HEADER, [_row(speed) for speed in speeds], numbers=9)


def _as_fields(speed: Any) -> dict[str, Any]:
    values = {name: getattr(speed, name) for name in _FIELDS}
    return {**values, "error": speed.error if speed.error >= 0 else None, "expected": speed.expected or None}


def _row(speed: Any) -> tuple[str, ...]:
    several = f" on {speed.servers} servers" if speed.servers > 1 else ""
    return (
        printable(speed.tenant),
        printable(speed.profile),
        f"{speed.gpus}{several}",
        printable(speed.type),
        f"{speed.cpus:g}",
        f"{speed.memory_gb:g}",
        f"{speed.rate:.4g}",
        f"{100 * speed.error:.0f} %" if speed.error >= 0 else "-",
        str(speed.blocks),
        f"{speed.expected:.4g}" if speed.expected else "-",
        "yes" if speed.believed else "not yet",
    )


def write_learned(speeds: Sequence[Any], path: str) -> None:
    """Write a profile file with the speeds that are believed. Raises ConfigError if there are none."""
    from rota.analysis.output import write_file
    from rota.profiles.writing import ProfileDocument, document_text

    if not path.endswith(".toml"):
        raise ConfigError(f"{path!r} does not end in .toml; profiles are written as TOML, give e.g. learned.toml")
    believed = [speed for speed in speeds if speed.believed]
    tenants = sorted({speed.tenant for speed in believed})
    if len(tenants) > 1:
        raise ConfigError(
            f"{len(tenants)} tenants have learned speeds ({', '.join(tenants[:5])}), and the same name may mean "
            "another job for each; write one file for each with --tenant NAME"
        )
    if not believed:
        raise ConfigError(
            f"{path} was not written: no speed is sure enough yet. `rota profiles --learned` shows what was seen so far"
        )
    rates = learned_rates(believed)
    about = {"title": f"learned from jobs of tenant {tenants[0]} while they ran"}
    write_file(path, document_text(ProfileDocument(name="learned", rates=rates, about=about)))
    click.echo(f"{path}: {len(rates)} speeds of {len({rate.profile for rate in rates})} profiles")


def learned_rates(speeds: Sequence[Any]) -> list[LearnedRate]:
    """A rate for each profile, number of GPUs and type, and another one for GPUs on several servers if that was seen.

    Cells with other CPUs or memory are brought to the proportional share, and count by their blocks.
    """
    from rota.profiles.writing import LearnedRate

    cells: dict[tuple[str, int, str, bool], list[Any]] = {}
    for speed in speeds:
        cells.setdefault((speed.profile, speed.gpus, speed.type, False), []).append(speed)
        if speed.servers > 1:
            cells.setdefault((speed.profile, speed.gpus, speed.type, True), []).append(speed)
    rates = []
    for (profile, gpus, gpu_type, spread), parts in sorted(cells.items()):
        blocks = sum(part.blocks for part in parts)
        shares = [1.0 if spread else part.share for part in parts]
        rate = sum(part.blocks * part.rate / share for part, share in zip(parts, shares, strict=True)) / blocks
        error = _error(parts, blocks)
        rates.append(
            LearnedRate(profile=profile, type=gpu_type, gpus=gpus, rate=rate, error=error, blocks=blocks, spread=spread)
        )
    return rates


def _error(parts: Sequence[Any], blocks: int) -> float:
    """Of the mean: errors of cells are independent of each other."""
    if any(part.error < 0 for part in parts):
        return math.nan
    return math.sqrt(sum((part.blocks * part.error) ** 2 for part in parts)) / blocks
