"""What events say about servers, taken over into the registry."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from rota.deploy.events import NodeDrained, NodeJoined, NodeLost, NodeRemoved, NodeTroubled
from rota.deploy.scheduler.records import Node

if TYPE_CHECKING:
    from rota.deploy.scheduler.registry import Registry


def _joined(registry: Registry, event: NodeJoined) -> None:
    before = registry.nodes.get(event.node)
    if before is not None and before.joined.identity not in ("", event.identity):
        for _, attempt in registry.attempts_on(event.node):
            attempt.forgotten.add(event.node)
    registry.nodes[event.node] = Node(joined=event, drained=before is not None and before.drained)


def _lost(registry: Registry, event: NodeLost) -> None:
    node = registry.nodes[event.node]
    node.lost = True
    node.reason = event.reason


def _troubled(registry: Registry, event: NodeTroubled) -> None:
    registry.nodes[event.node].trouble = event.trouble


def _drained(registry: Registry, event: NodeDrained) -> None:
    registry.nodes[event.node].drained = event.drained


def _removed(registry: Registry, event: NodeRemoved) -> None:
    registry.nodes.pop(event.node, None)


NODE_HANDLERS: Mapping[type, Callable[[Registry, Any], None]] = {
    NodeJoined: _joined,
    NodeLost: _lost,
    NodeDrained: _drained,
    NodeTroubled: _troubled,
    NodeRemoved: _removed,
}
"""By kind of event."""
