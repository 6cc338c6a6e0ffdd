"""What an emulated job would lose if it were not saved.

Its step, place in the data, random numbers, ballast.

A checkpoint is a folder with `state.json` and, if asked for, `ballast` with as many bytes as a real
model would write. Files are written beside their place and renamed, so that a checkpoint is whole
or not there.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from rota.core import files
from rota.core.errors import ConfigError

STATE = "state.json"
BALLAST = "ballast"
_BLOCK_BYTES = 1 << 20


@dataclass
class JobState:
    """The state of an emulated job."""

    seed: int = 0
    step: int = 0
    epoch: int = 0
    cursor: int = 0
    """Batches of the epoch that are done."""
    ballast_bytes: int = 0
    random: Random = field(default_factory=Random)

    @classmethod
    def new(cls, seed: int, ballast_bytes: int = 0) -> JobState:
        """The state of a job that has not begun."""
        return cls(seed=seed, ballast_bytes=ballast_bytes, random=Random(f"rota/job/{seed}"))

    def advance(self, steps_per_epoch: int) -> None:
        """One more step is done; it used one random number, as augmentation would."""
        self.random.random()
        self.step += 1
        self.epoch, self.cursor = divmod(self.step, steps_per_epoch)

    def save(self, folder: str | os.PathLike[str]) -> None:
        """Write it to a folder, which is made if need be."""
        place = Path(folder)
        place.mkdir(parents=True, exist_ok=True)
        if self.ballast_bytes:
            with files.replacing(place / BALLAST) as file:
                for start in range(0, self.ballast_bytes, _BLOCK_BYTES):
                    file.write(bytes(min(_BLOCK_BYTES, self.ballast_bytes - start)))
        files.write_text(place / STATE, json.dumps(self._facts()))

    def _facts(self) -> dict[str, object]:
        version, internal, gauss = self.random.getstate()
        return {
            "seed": self.seed,
            "step": self.step,
            "epoch": self.epoch,
            "cursor": self.cursor,
            "ballast_bytes": self.ballast_bytes,
            "random": [version, list(internal), gauss],
        }

    def load(self, folder: str | os.PathLike[str]) -> int:
        """Become what was saved in a folder; the step."""
        path = Path(folder) / STATE
        try:
            facts = json.loads(path.read_text(encoding="utf-8"))
            version, internal, gauss = facts["random"]
            self.random.setstate((version, tuple(internal), gauss))
            self.seed = int(facts["seed"])
            self.step = int(facts["step"])
            self.epoch = int(facts["epoch"])
            self.cursor = int(facts["cursor"])
            self.ballast_bytes = int(facts["ballast_bytes"])
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise ConfigError(
                f"{path}: not a checkpoint of an emulated job ({error}); resume from another"
            ) from error
        if self.ballast_bytes:
            _read_ballast(Path(folder) / BALLAST, self.ballast_bytes)
        return self.step


def _read_ballast(path: Path, size: int) -> None:
    """Read the ballast, because restoring takes time too."""
    bytes_read = 0
    with path.open("rb") as file:
        while block := file.read(_BLOCK_BYTES):
            bytes_read += len(block)
    if bytes_read != size:
        raise ConfigError(
            f"{path}: {bytes_read} bytes instead of {size}; the checkpoint is damaged, resume from "
            "another"
        )
