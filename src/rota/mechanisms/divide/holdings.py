"""Numbers for CPUs and memory that jobs may hold, while rounds are laid out.

Inner loops work on row numbers. The first rows are those of the view's classes; whoever needs other amounts gets a row
after them. The numbers mean nothing outside: a placement says the amounts and the speed themselves.
"""

from __future__ import annotations

import numpy as np

from rota.core.arrays import FloatArray
from rota.core.configurations import Configurations, Holding

_Key = tuple[int, int, float, float]
"""(class, type, CPUs, GB)."""


class Holdings:
    """Rows of CPUs, memory and speed, of whole jobs."""

    cpus: FloatArray
    memory_gb: FloatArray
    speed: FloatArray
    """Relative to the proportional share."""

    def __init__(self, known: Configurations) -> None:
        self._speeds: dict[_Key, float] = {}
        self.follow(known)

    def follow(self, known: Configurations) -> None:
        """Begin with the rows of these configurations; the amounts that were added later are forgotten."""
        self.known = known
        self.cpus = known.cpus
        self.memory_gb = known.memory_gb
        self.speed = known.speed
        self._numbers: dict[_Key, int] | None = None

    def number(self, group: int, gpu_type: int, cpus: float, memory_gb: float) -> int:
        """The row of these amounts; raises ProfileMissing if nobody knows how fast they make the class."""
        key = (group, gpu_type, cpus, memory_gb)
        number = self._table().get(key)
        if number is not None:
            return number
        speed = self._speeds.get(key)
        if speed is None:
            speed = self.known.speed_of(group, gpu_type, cpus, memory_gb)
        return self._append(key, speed)

    def row(self, group: int, gpu_type: int, holding: Holding) -> int:
        """The row of a holding whose speed is known."""
        key = (group, gpu_type, holding.cpus, holding.memory_gb)
        number = self._table().get(key)
        return self._append(key, holding.speed) if number is None else number

    def _append(self, key: _Key, speed: float) -> int:
        self._speeds[key] = speed
        number = len(self.cpus)
        self._table()[key] = number
        self.cpus = np.append(self.cpus, key[2])
        self.memory_gb = np.append(self.memory_gb, key[3])
        self.speed = np.append(self.speed, speed)
        return number

    def _table(self) -> dict[_Key, int]:
        """Numbers by amounts, made when somebody asks for the first time."""
        if self._numbers is None:
            known = self.known
            cpus = known.cpus.tolist()
            memory = known.memory_gb.tolist()
            self._numbers = {}
            for rows in (known.fair, known.full, known.cut):
                for group, by_type in enumerate(rows.tolist()):
                    for gpu_type, row in enumerate(by_type):
                        self._numbers[group, gpu_type, cpus[row], memory[row]] = row
        return self._numbers
