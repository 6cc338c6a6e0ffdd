"""What an emulated job would lose if it were not saved: its step, place in the data, random numbers, ballast.

A checkpoint is a folder with `state.json` and, if asked for, `ballast` with as many bytes as a real model would write.
Files are written beside their place and renamed, so that a checkpoint is whole or not there.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from rota.core.errors import ConfigError

STATE = "state.json"
BALLAST = "ballast"


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
            with (place / f"{BALLAST}.tmp").open("wb") as file:
                for start in range(0, self.ballast_bytes, 1 << 20):
                    file.write(b"\0" * min(1 << 20, self.ballast_bytes - start))
                file.flush()
                os.fsync(file.fileno())
            (place / f"{BALLAST}.tmp").replace(place / BALLAST)
        version, internal, gauss = self.random.getstate()
        facts = {
            "seed": self.seed,
            "step": self.step,
            "epoch": self.epoch,
            "cursor": self.cursor,
            "ballast_bytes": self.ballast_bytes,
            "random": [version, list(internal), gauss],
        }
        draft = place / f"{STATE}.tmp"
        with draft.open("w", encoding="utf-8") as text:
            json.dump(facts, text)
            text.flush()
            os.fsync(text.fileno())
        draft.replace(place / STATE)

    def load(self, folder: str | os.PathLike[str]) -> int:
        """Become what was saved in a folder; the step."""
        path = Path(folder) / STATE
        try:
            facts = json.loads(path.read_text(encoding="utf-8"))
            version, internal, gauss = facts["random"]
            self.random.setstate((version, tuple(internal), gauss))
            self.seed, self.ballast_bytes = int(facts["seed"]), int(facts["ballast_bytes"])
            self.step, self.epoch, self.cursor = int(facts["step"]), int(facts["epoch"]), int(facts["cursor"])
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise ConfigError(f"{path}: not a checkpoint of an emulated job ({error}); resume from another") from error
        if self.ballast_bytes:
            _read(Path(folder) / BALLAST, self.ballast_bytes)
        return self.step


def _read(path: Path, size: int) -> None:
    """Read the ballast, because restoring takes time too."""
    seen = 0
    with path.open("rb") as file:
        while block := file.read(1 << 20):
            seen += len(block)
    if seen != size:
        raise ConfigError(f"{path}: {seen} bytes instead of {size}; the checkpoint is damaged, resume from another")
