"""A dataset of random bytes on disk: one file of equal samples, made once and reused."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from random import Random

from rota.core import files
from rota.core.errors import ConfigError, OutputError

_BLOCK_BYTES = 1 << 20


@dataclass(frozen=True)
class Dataset:
    """A file and how it is divided."""

    path: Path
    samples: int
    sample_bytes: int

    @property
    def size(self) -> int:
        """Bytes."""
        return self.samples * self.sample_bytes

    def slots(self, cache_bytes: float) -> int:
        """How many samples a cache of that size keeps."""
        return min(self.samples, max(0, int(cache_bytes // self.sample_bytes)))


def generate(path: Path, samples: int, sample_bytes: int, seed: int = 0) -> Dataset:
    """The dataset at a path: as it is if it is the one wanted, else made anew.

    Bytes cannot be compressed.
    """
    if samples < 1 or sample_bytes < 1:
        raise ConfigError(f"a dataset of {samples} samples of {sample_bytes} bytes cannot be made")
    wanted = {"samples": samples, "sample_bytes": sample_bytes, "seed": seed}
    facts = path.with_name(path.name + ".json")
    dataset = Dataset(path, samples, sample_bytes)
    try:
        if (
            path.stat().st_size == dataset.size
            and json.loads(facts.read_text(encoding="utf-8")) == wanted
        ):
            return dataset
    except (OSError, ValueError):
        pass
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        _write(dataset, seed)
        files.write_text(facts, json.dumps(wanted))
    except OSError as error:
        raise OutputError(
            f"{path}: a dataset of {dataset.size} bytes cannot be written: {error.strerror}"
        ) from error
    return dataset


def _write(dataset: Dataset, seed: int) -> None:
    """Durable, because what is not on the disk yet would be read from the page cache instead."""
    random = Random(seed)
    with files.replacing(dataset.path) as file:
        for start in range(0, dataset.size, _BLOCK_BYTES):
            file.write(random.randbytes(min(_BLOCK_BYTES, dataset.size - start)))
