"""Batches without PyTorch: an iterable that `rota.client.Iterator` can resume in the middle."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Protocol

from rota.core.errors import ConfigError
from rota.data.sampler import Sampler


class Indexable(Protocol):
    """A data set: anything with a length and items by number."""

    def __len__(self) -> int: ...

    def __getitem__(self, index: int, /) -> Any: ...


class Batches:
    """Lists of items in the order of a sampler, read and decoded when they are asked for."""

    def __init__(
        self,
        dataset: Indexable,
        sampler: Sampler,
        batch_size: int = 1,
        *,
        collate: Callable[[list[Any]], Any] = list,
        drop_last: bool = False,
    ) -> None:
        if batch_size < 1:
            raise ConfigError(f"Batches: batch_size={batch_size}; a batch has at least 1 item.")
        self.dataset = dataset
        self.sampler = sampler
        self.batch_size = batch_size
        self.drop_last = drop_last
        self._collate = collate

    def set_epoch(self, epoch: int) -> None:
        """Go to the beginning of an epoch."""
        self.sampler.set_epoch(epoch)

    def set_position(self, batches: int) -> None:
        """Go to where `batches` of this epoch were used."""
        self.sampler.set_position(batches * self.batch_size)

    def __len__(self) -> int:
        """Batches left in this epoch."""
        whole, over = divmod(len(self.sampler), self.batch_size)
        return whole + (over > 0 and not self.drop_last)

    def __iter__(self) -> Iterator[Any]:
        dataset = self.dataset
        items: list[Any] = []
        for index in self.sampler:
            items.append(dataset[index])
            if len(items) == self.batch_size:
                yield self._collate(items)
                items = []
        if items and not self.drop_last:
            yield self._collate(items)
