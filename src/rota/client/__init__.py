"""What training code imports: an iterator with leases, checkpoints and clean stops. Standard library only.

    it = rota.client.Iterator(loader, save=save, load=load)
    for batch in it:
        train(batch)

Outside Rota it only passes batches through. The contract is in docs/training-iterator.md.
"""

from rota.client.checkpoints import Checkpoint, latest
from rota.client.iterator import Iterator
from rota.client.leases import Lease, lease

__all__ = ["Checkpoint", "Iterator", "Lease", "latest", "lease"]
