"""What training code imports: an iterator with leases, checkpoints and clean stops.

Standard library only.

    it = rota.client.Iterator(loader, save=save, load=load)
    for batch in it:
        train(batch)

Outside Rota it only passes batches through. The contract is in docs/training-iterator.md.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rota.client.iterator import Iterator
from rota.client.leases import Lease, lease

if TYPE_CHECKING:
    from rota.client.checkpoints import SavedCheckpoint, latest

__all__ = ["Iterator", "Lease", "SavedCheckpoint", "latest", "lease"]


def __getattr__(name: str) -> Any:
    """Load what concerns files on first use: outside Rota a script never needs it."""
    if name in {"SavedCheckpoint", "latest"}:
        from rota.client import checkpoints  # that is the point

        return getattr(checkpoints, name)
    raise AttributeError(f"module 'rota.client' has no attribute {name!r}")
