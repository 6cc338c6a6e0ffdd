"""Whether an agent that registers may speak for its node, or another one with the same certificate does so already.

Pure: values in, a sentence out.
"""

from __future__ import annotations

from rota.deploy.events import NodeJoined
from rota.deploy.scheduler.node_offers import OfferedNode


def may_take_over(before: NodeJoined, offered: OfferedNode) -> bool:
    """Whether the agent that speaks for a node is surely not alive beside the one that registers.

    It is the same process, or one that found the other's name in the folder of which there is only one.
    """
    if not before.instance and not before.identity:
        return True  # a node made up by a repair of the journal: nobody knows who spoke for it
    if before.instance and offered.instance:
        return offered.instance == before.instance or before.instance in offered.replaces
    return before.identity == offered.identity  # an agent of a version that did not say which process it is


def in_use(before: NodeJoined, silent_s: float, dead_after_s: float) -> str:
    """What an agent is told that comes second."""
    where = f" ({before.place})" if before.place else ""
    return (
        f"the certificate of node {before.node!r} is in use by another agent{where}, heard {silent_s:.1f} s ago, which "
        f"goes on undisturbed. Give this server a certificate of its own (rota certs agent NAME), or stop the other "
        f"agent: {dead_after_s:g} s later this one is let in"
    )
