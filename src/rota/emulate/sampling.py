"""Which samples a step trains on: a seeded permutation per epoch, and a cursor into it.

The order is a function of the seed and the number of the step, so a job that goes on elsewhere from
step n trains on exactly the samples that it would have without the interruption.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from random import Random

from rota.core.errors import ConfigError


@lru_cache(maxsize=4)
def permutation(samples: int, seed: int, epoch: int) -> tuple[int, ...]:
    """The order of one epoch."""
    order = list(range(samples))
    Random(f"rota/{seed}/{epoch}").shuffle(order)
    return tuple(order)


@dataclass(frozen=True)
class Sampler:
    """The order of all samples of a job; the last batch of an epoch may be smaller."""

    samples: int
    batch: int
    seed: int = 0

    def __post_init__(self) -> None:
        if self.samples < 1 or self.batch < 1:
            raise ConfigError(
                f"{self.samples} samples in batches of {self.batch} cannot be drawn; both must be "
                "at least 1"
            )

    @property
    def steps_per_epoch(self) -> int:
        """Batches of one pass."""
        return -(-self.samples // self.batch)

    def place(self, step: int) -> tuple[int, int]:
        """Epoch and cursor (in batches) of a step."""
        return divmod(step, self.steps_per_epoch)

    def at(self, step: int) -> tuple[int, ...]:
        """The samples of a step."""
        epoch, cursor = self.place(step)
        return permutation(self.samples, self.seed, epoch)[
            cursor * self.batch : (cursor + 1) * self.batch
        ]
