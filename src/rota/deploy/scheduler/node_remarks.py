"""What an operator should know about a server: a type nobody has heard of, an address nobody else can reach.

Pure: values in, sentences out.
"""

from __future__ import annotations

import difflib
import ipaddress
from collections.abc import Iterable, Sequence

from rota.clusters.accelerators import known_accelerators
from rota.deploy.scheduler.registry import Registry


def type_remark(gpu_type: str, catalogue: str, measured: Sequence[str], declared: Iterable[str] = ()) -> str:
    """Why jobs may not run on servers of a type as one expects; empty if they do.

    `measured` are the types in the catalogue (none: it does not say), `declared` those of the operator's cluster.
    """
    if gpu_type in measured:
        return ""
    known = {accelerator.name for accelerator in known_accelerators()} | set(declared)
    if gpu_type not in known:
        near = difflib.get_close_matches(gpu_type.lower(), sorted(known | set(measured)), n=2, cutoff=0.5)
        hint = f"; did you mean {' or '.join(near)}?" if near else ""
        return f"accelerator type {gpu_type!r} is not known{hint}"
    if measured:
        return f"catalogue {catalogue!r} has nothing about {gpu_type}: only jobs without a profile run there"
    return ""


def address_remark(registry: Registry, node: str) -> str:
    """Whether ranks on other machines would look for this one on their own; empty if not."""
    host = registry.nodes[node].joined.host
    others = (other.joined.host for name, other in registry.nodes.items() if name != node and not other.lost)
    if not _is_loopback(host) or all(_is_loopback(other) for other in others):
        return ""
    return f"its address is {host}, where servers of other machines cannot find it: start its agent with --host ADDRESS"


def _is_loopback(host: str) -> bool:
    name = host.rpartition(":")[0] if host.count(":") == 1 else host
    if name in ("", "localhost"):
        return True
    try:
        return ipaddress.ip_address(name).is_loopback
    except ValueError:
        return False
