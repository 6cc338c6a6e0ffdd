"""`rota clusters`: what can be given to `--cluster`."""

from __future__ import annotations

import math
from collections import Counter
from typing import TYPE_CHECKING, Any

import click

from rota.cli import names
from rota.cli.listing import show_list
from rota.cli.options import completes, echo_json, json_option

if TYPE_CHECKING:
    from rota.core.cluster import Cluster


@click.command("clusters", epilog="Example: rota clusters v100=8/4:cpus=24:memory=500,k80=4")
@click.argument("spec", required=False, metavar="[SPEC]", shell_complete=completes(names.clusters))
@json_option
def command(spec: str | None, *, as_json: bool) -> None:
    """List built-in clusters, or show one (a name, type=count,... or a TOML or INI file)."""
    from rota import clusters  # kept off the path of --help

    if spec is None:
        summaries = [(name, _summary(clusters.load(name))) for name in clusters.names()]
        show_list("cluster", summaries, as_json=as_json)
        return
    cluster = clusters.load(spec)
    if as_json:
        echo_json(
            {
                "name": cluster.name,
                "gpus": cluster.gpus,
                "types": _types(cluster),
                "servers": _kinds(cluster),
            }
        )
        return
    _show(cluster)


def _types(cluster: Cluster) -> list[dict[str, Any]]:
    """What there is of each accelerator type."""
    facts = {a.name: a for a in cluster.accelerators}
    return [
        {
            "type": gpu_type,
            "gpus": int(count),
            "servers": int((cluster.server_type == i).sum()),
            "hourly_price": float(cluster.prices[i]),  # NaN, null in JSON, where it is unknown
            "memory_gb": facts[gpu_type].memory_gb if gpu_type in facts else 0.0,
        }
        for i, (gpu_type, count) in enumerate(zip(cluster.types, cluster.capacity, strict=True))
    ]


def _kinds(cluster: Cluster) -> list[dict[str, Any]]:
    """Servers that are the same, with their number.

    Amounts are of one server, 0 where they are unknown.
    """
    alike = Counter((s.type, s.capacity, s.rack) for s in cluster.ordered)
    return [
        {
            "type": gpu_type,
            "count": count,
            "gpus": each.gpus,
            "cpus": each.cpus,
            "memory_gb": each.memory_gb,
            "storage_mbps": each.storage_mbps,
            "network_gbps": each.network_gbps,
            "rack": rack,
        }
        for (gpu_type, each, rack), count in alike.items()
    ]


def _show(cluster: Cluster) -> None:
    from rota.cli.tables import show_table

    have = ("type", "GPUs", "servers", "price per GPU hour", "GPU memory GB")
    rows = [[_shown(value) for value in (row | _known_memory(row)).values()] for row in _types(cluster)]
    show_table(f"{cluster.name}: {cluster.gpus} GPUs", have, rows, numbers=4)
    click.echo()
    each = ("type", "rack", "servers", "GPUs", "CPUs", "memory GB", "storage MB/s", "network Gb/s")
    amounts = ("cpus", "memory_gb", "storage_mbps", "network_gbps")
    rows = [
        [k["type"], k["rack"], f"{k['count']}", f"{k['gpus']}", *(f"{k[a]:g}" if k[a] else "-" for a in amounts)]
        for k in _kinds(cluster)
    ]
    show_table("Each server (- is unknown)", each, rows, numbers=6)


def _known_memory(row: dict[str, Any]) -> dict[str, float]:
    return {"memory_gb": row["memory_gb"] or math.nan}


def _shown(value: str | float) -> str:
    return "unknown" if value != value else f"{value}"  # noqa: PLR0124 - NaN is not equal to itself


def _summary(cluster: Cluster) -> str:
    pairs = zip(cluster.types, cluster.capacity.tolist(), strict=True)
    parts = (f"{count} {gpu_type}" for gpu_type, count in pairs)
    text = f"{', '.join(parts)} on {len(cluster.servers)} servers"
    shapes = {server.capacity for server in cluster.servers}
    each = shapes.pop()
    if shapes or not each.cpus:
        return text
    return f"{text} with {each.cpus:g} CPUs, {each.memory_gb:g} GB"
