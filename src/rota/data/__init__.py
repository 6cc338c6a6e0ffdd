"""The data path of a training job: a cache whose hit ratio is known, and an order that can be resumed.

Standard library only; PyTorch is never imported, a DataLoader takes these objects as they are.

    data = rota.data.CachedDataset(rota.data.Files(paths), decode)
    sampler = rota.data.Sampler(data, seed=1)
    for batch in rota.client.Iterator(rota.data.Batches(data, sampler, 32), steps=1000):
        train(batch)

What is promised is in docs/data-path.md.
"""

from __future__ import annotations

from rota.data.batches import Batches
from rota.data.coordinated import Coordinated, PreparedBatches
from rota.data.counters import Counters
from rota.data.dataset import CachedDataset
from rota.data.sampler import Sampler
from rota.data.sources import Files

__all__ = ["Batches", "CachedDataset", "Coordinated", "Counters", "Files", "PreparedBatches", "Sampler"]
