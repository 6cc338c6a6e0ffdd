"""`rota clusters`: what can be given to `--cluster`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from rota.cli import names
from rota.cli.listing import show_list
from rota.cli.options import completes, echo_json, json_option

if TYPE_CHECKING:
    from rota.core.cluster import Cluster


@click.command("clusters", epilog="Example: rota clusters v100=8/4,k80=4")
@click.argument("spec", required=False, metavar="[SPEC]", shell_complete=completes(names.clusters))
@json_option
def command(spec: str | None, *, as_json: bool) -> None:
    """List built-in clusters, or show one (a name, type=count,... or a TOML file)."""
    from rota import clusters  # noqa: PLC0415 - kept off the path of --help

    if spec is None:
        show_list("cluster", [(n, _summary(clusters.load(n))) for n in clusters.names()], as_json=as_json)
        return
    cluster = clusters.load(spec)
    facts = {a.name: a for a in cluster.accelerators}
    rows = [
        {
            "type": kind,
            "gpus": int(count),
            "servers": int((cluster.server_type == i).sum()),
            "hourly_price": float(cluster.prices[i]),
            "memory_gb": facts[kind].memory_gb if kind in facts else 0.0,
        }
        for i, (kind, count) in enumerate(zip(cluster.types, cluster.capacity, strict=True))
    ]
    if as_json:
        echo_json({"name": cluster.name, "gpus": cluster.gpus, "types": rows})
        return
    from rota.cli.tables import show_table  # noqa: PLC0415

    header = ("type", "GPUs", "servers", "price per GPU hour", "memory GB")
    show_table(f"{cluster.name}: {cluster.gpus} GPUs", header, [[f"{v}" for v in r.values()] for r in rows], numbers=4)


def _summary(cluster: Cluster) -> str:
    parts = (f"{count} {kind}" for kind, count in zip(cluster.types, cluster.capacity.tolist(), strict=True))
    return f"{', '.join(parts)} on {len(cluster.servers)} servers"
