"""Several jobs on one server that read the same data prepare each item once per epoch.

For searches of hyper-parameters: the jobs have the same data set, order and decoding, and differ in
how they train. Each prepares what nobody else has prepared yet and takes the rest from a staging
area (CoorDL's idea). While one waits for an item that another prepares, it prepares one of the next.
Nobody depends on anybody: an item that does not come in time, because its preparer stopped or
stalls, is prepared by whoever needs it.
"""

from __future__ import annotations

import logging
import os
import pickle
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from rota.core.errors import ConfigError
from rota.data.batches import Indexable
from rota.data.order import shuffled
from rota.data.sampler import Sampler
from rota.data.staging import StagingArea, shared_folder

log = logging.getLogger(__name__)

FOLDER = "ROTA_DATA_SHARED"
"""A folder in memory for the jobs of one tenant on this server, which the agent gives."""
FIRST_PAUSE_S = 0.0005
LONGEST_PAUSE_S = 0.005
LEAST_PATIENCE_S = 0.2
PATIENCE = 10.0
"""Times the longest preparation so far that an item of another process is waited for."""


class PreparedBatches:
    """Makes batch number `position` of an epoch, the same in every job with the same arguments."""

    def __init__(
        self,
        dataset: Indexable,
        batch_size: int,
        *,
        seed: int = 0,
        collate: Callable[[list[Any]], Any] = list,
    ) -> None:
        if batch_size < 1:
            raise ConfigError(f"PreparedBatches: batch_size={batch_size}; a batch has at least 1 item.")
        self._dataset = dataset
        self._batch_size = batch_size
        self._seed = seed
        self._collate = collate
        self._epoch = -1
        self._order = shuffled(0)

    def __len__(self) -> int:
        """Batches of an epoch."""
        return (len(self._dataset) + self._batch_size - 1) // self._batch_size

    def __call__(self, epoch: int, position: int) -> Any:
        """Read and decode one batch. The order is that of `Sampler` with the same seed."""
        if epoch != self._epoch:
            self._order = shuffled(len(self._dataset), "order", self._seed, epoch)
            self._epoch = epoch
        first = position * self._batch_size
        return self._collate([self._dataset[index] for index in self._order[first : first + self._batch_size]])


@dataclass(slots=True)
class PreparationCounts:
    """What became of the items that this process handed out or prepared."""

    prepared: int = 0
    """For everybody."""
    taken: int = 0
    """Prepared by another process."""
    alone: int = 0
    """Prepared for this process only: another one was ahead, or did not deliver in time."""


class Coordinated:
    """Items of all epochs by number (epoch times length plus position), each prepared once.

    `prepare(epoch, position)` makes an item; it is pickled for the others, which are jobs of the
    same user that named the same `group`, and gets at most `item_bytes` large. An iterable that
    `rota.client.Iterator` can resume; a DataLoader takes it with `batch_size=None` and its
    `sampler`.
    """

    def __init__(
        self,
        prepare: Callable[[int, int], Any],
        length: int | None = None,
        *,
        group: str,
        item_bytes: int,
        window: int = 64,
        patience_s: float = 5.0,
        environ: Mapping[str, str] = os.environ,
    ) -> None:
        """`window` items are kept for others; another's item is waited for at most `patience_s`."""
        self.length = len(prepare) if length is None else length  # type: ignore[arg-type]
        if self.length < 1 or item_bytes < 1 or window < 2:
            raise ConfigError(
                f"Coordinated: length={self.length}, item_bytes={item_bytes}, window={window}; an "
                "epoch has at least 1 item of at least 1 byte, a window at least 2 items."
            )
        self._prepare = prepare
        self._patience_s = patience_s
        self._ahead = window // 2
        self._area = StagingArea.open(
            f"{group}\0{self.length}", window, item_bytes, shared_folder(environ.get(FOLDER, ""))
        )
        self._stalled: set[int] = set()
        self._longest_s = 0.0
        self.counts = PreparationCounts()
        self.sampler = NumberSampler(self.length)

    def __len__(self) -> int:
        return self.length

    def __iter__(self) -> Iterator[Any]:
        return (self[number] for number in self.sampler)

    def set_epoch(self, epoch: int) -> None:
        """Go to the beginning of an epoch."""
        self.sampler.set_epoch(epoch)

    def set_position(self, position: int) -> None:
        """Go to a place in the epoch."""
        self.sampler.set_position(position)

    def __getitem__(self, number: int) -> Any:
        """An item, from another process or prepared here."""
        until = time.monotonic() + self._patience()
        pause_s = FIRST_PAUSE_S
        while True:
            taken = self._area.get(number)
            if taken is not None:
                self.counts.taken += 1
                return pickle.loads(taken)  # noqa: S301 - written by a job of the same user
            if self._area.newest(number) > number:
                return self._make_alone(number)
            if self._area.claim(number):
                self._stalled.discard(number % self._area.places)
                return self._make_for_all(number)
            if number % self._area.places in self._stalled or time.monotonic() >= until:
                self._stalled.add(number % self._area.places)
                return self._make_alone(number)
            if not self._prepare_ahead(number):
                time.sleep(pause_s)
                pause_s = min(2 * pause_s, LONGEST_PAUSE_S)

    def _prepare_ahead(self, number: int) -> bool:
        """Prepare the next item that nobody has begun; False if there is none."""
        for later in range(number + 1, number + 1 + self._ahead):
            if self._area.newest(later) < later and self._area.claim(later):
                self._make_for_all(later)
                return True
        return False

    def _make_for_all(self, number: int) -> Any:
        """Prepare an item whose place was claimed."""
        try:
            item = self._make(number)
            data = pickle.dumps(item, pickle.HIGHEST_PROTOCOL)
            if not self._area.publish(number, data):
                self._not_shared(number, len(data))
        finally:
            self._area.release(number)
        self.counts.prepared += 1
        return item

    def _not_shared(self, number: int, size: int) -> None:
        """Preparing ahead what cannot be handed over would be work for nothing."""
        if self._ahead:
            self._ahead = 0
            log.warning(
                "item %d has %d bytes and cannot be shared with other jobs: item_bytes is %d, or there is no memory",
                number, size, self._area.item_bytes,
            )  # fmt: skip

    def _make_alone(self, number: int) -> Any:
        self.counts.alone += 1
        return self._make(number)

    def _make(self, number: int) -> Any:
        began = time.monotonic()
        item = self._prepare(*divmod(number, self.length))
        self._longest_s = max(self._longest_s, time.monotonic() - began)
        return item

    def _patience(self) -> float:
        """How long to wait for another process: some times as long as it takes here."""
        if not self._longest_s:
            return self._patience_s
        return min(self._patience_s, max(LEAST_PATIENCE_S, PATIENCE * self._longest_s))


class NumberSampler:
    """Numbers of items in their order, for a DataLoader."""

    def __init__(self, length: int) -> None:
        self._places = Sampler(length, shuffle=False)

    def set_epoch(self, epoch: int) -> None:
        """Go to the beginning of an epoch."""
        self._places.set_epoch(epoch)

    def set_position(self, position: int) -> None:
        """Go to a place in the epoch."""
        self._places.set_position(position)

    def __iter__(self) -> Iterator[int]:
        first = self._places.epoch * self._places.items
        return (first + position for position in self._places)

    def __len__(self) -> int:
        return len(self._places)
