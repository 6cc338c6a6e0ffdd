"""Which item comes when: a place in the data is (seed, epoch, position), and nothing else.

The order of an epoch follows from the seed and the number of the epoch. Ranks take turns in it:
rank r of w takes the items at r, r + w, r + 2w ... So a place is one number for the whole gang, the
items that all ranks together have used, and a gang of another size can go on from it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sized
from typing import Any

from rota.core.errors import ConfigError
from rota.data.order import shuffled

_FORMAT = 1


class Sampler:
    """Indices of one rank, for a `for` loop or as `sampler=` of a PyTorch DataLoader.

    If the ranks do not divide the items evenly, the first items come again at the end (`drop_last`:
    the last items of the order are left out), so that all ranks make the same number of steps.
    """

    def __init__(
        self,
        items: int | Sized,
        *,
        seed: int = 0,
        shuffle: bool = True,
        rank: int = 0,
        world_size: int = 1,
        drop_last: bool = False,
    ) -> None:
        self.items = items if isinstance(items, int) else len(items)
        self.seed = seed
        self.shuffle = shuffle
        self.rank = rank
        self.world_size = world_size
        self.drop_last = drop_last
        self.epoch = 0
        self._next = 0
        self._began = 0
        if self.items < 1:
            raise ConfigError(f"Sampler: {self.items} items; a data set needs at least 1.")
        if not 0 <= rank < world_size:
            raise ConfigError(f"Sampler: rank={rank}, but world_size={world_size}; ranks count from 0.")

    def set_epoch(self, epoch: int) -> None:
        """Go to the beginning of an epoch."""
        self.epoch = epoch
        self._go_to(0)

    def set_position(self, position: int) -> None:
        """Go to where every rank has used `position` items of this epoch."""
        used = position * self.world_size
        if not 0 <= used <= self._turns() * self.world_size:
            raise ConfigError(
                f"position {position}: an epoch has {self._turns()} items per rank; resume with the "
                "data set and the number of ranks that the place was noted with."
            )
        self._go_to(used)

    def state(self, position: int = 0) -> dict[str, Any]:
        """The place after this rank used `position` items of this pass, for a checkpoint.

        A DataLoader with workers draws ahead, so only the training loop knows how many were used.
        Hence not `state_dict`, which some loaders ask while they draw.
        """
        return {
            "format": _FORMAT,
            "seed": self.seed,
            "items": self.items,
            "epoch": self.epoch,
            "used": self._began + position * self.world_size,
        }

    def load_state(self, state: Mapping[str, Any]) -> None:
        """Go to a place that was saved, also by a gang of another size."""
        for name, own in (("format", _FORMAT), ("seed", self.seed), ("items", self.items)):
            if state.get(name) != own:
                raise ConfigError(
                    f"the saved place has {name}={state.get(name)!r}, this sampler {own!r}; resume "
                    "with the data set and the seed it was made with."
                )
        self.epoch = int(state["epoch"])
        self._go_to(int(state["used"]))

    def __iter__(self) -> Iterator[int]:
        self._began = self._next
        self._next = 0
        order = shuffled(self.items, "order", self.seed, self.epoch) if self.shuffle else range(self.items)
        total = self._turns() * self.world_size
        return (int(order[at % self.items]) for at in range(self._began + self.rank, total, self.world_size))

    def __len__(self) -> int:
        """Items that this rank has left in this epoch."""
        left = self._turns() * self.world_size - self._next - self.rank
        return max(-(-left // self.world_size), 0)

    def _go_to(self, used: int) -> None:
        """The next pass begins after so many items of the whole gang."""
        self._next = used
        self._began = used

    def _turns(self) -> int:
        whole, over = divmod(self.items, self.world_size)
        return whole + (over > 0 and not self.drop_last)
