"""How long a step takes on a GPU, and how much memory it needs: the tables measured with GPEmu.

    seconds(model, gpu, batch) = transfer + forward + backward

A batch that was measured is answered as it was; between two measured batches the answer lies on the straight line
between them; beyond the last one it lies on a line through it with the slope of a least-squares fit, which is a guess
(fitted on batches 1 to 64, such lines miss batch 256 by 8 to 15 % in the median and 89 % at worst). Every answer says
its kind, a guess warns, and a strict table refuses it.
"""

from __future__ import annotations

import csv
import gzip
import warnings
from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Literal

from rota.core.errors import ConfigError, ProfileMissing, UnknownName
from rota.emulate.cards import CARDS, card

DATA = Path(__file__).parent / "data"
PHASES = ("transfer", "forward", "backward")
LONGEST_STEP_S = 1e6

Kind = Literal["measured", "interpolated", "fit"]
Phase = Literal["transfer", "forward", "backward", "load"]
_WORST_LAST: tuple[Kind, ...] = ("measured", "interpolated", "fit")


class ExtrapolatedWarning(UserWarning):
    """A figure from outside the measured range was used."""


class NotMeasured(ProfileMissing):
    """A strict table was asked for something outside the measured range."""


@dataclass(frozen=True)
class Figure:
    """A number and where it comes from."""

    value: float
    kind: Kind


@dataclass(frozen=True)
class StepTime:
    """What one step asks of a device: seconds of copying to it, then seconds of computing on it."""

    compute_s: float
    transfer_s: float = 0.0
    kind: Kind | Literal["given"] = "given"

    def __post_init__(self) -> None:
        if not (0.0 < self.compute_s < LONGEST_STEP_S and 0.0 <= self.transfer_s < LONGEST_STEP_S):
            raise ConfigError(
                f"a step of {self.compute_s} s computing and {self.transfer_s} s copying cannot be emulated; "
                f"the first must be above 0, the second at least 0, both below {LONGEST_STEP_S:g}"
            )

    @property
    def seconds(self) -> float:
        """Without overlap: copy, then compute."""
        return self.transfer_s + self.compute_s


@dataclass(frozen=True)
class BatchCurve:
    """A quantity by batch size: measured points, a fitted slope for what lies outside."""

    batches: tuple[int, ...]
    values: tuple[float, ...]
    slope: float

    def at(self, batch: float) -> Figure:
        """The value for a batch size and how it was found."""
        if batch > self.batches[-1]:
            return Figure(self.values[-1] + self.slope * (batch - self.batches[-1]), "fit")
        if batch < self.batches[0]:
            return Figure(max(0.0, self.values[0] + self.slope * (batch - self.batches[0])), "fit")
        after = bisect_left(self.batches, batch)
        if self.batches[after] == batch:
            return Figure(self.values[after], "measured")
        x0, x1 = self.batches[after - 1], self.batches[after]
        y0, y1 = self.values[after - 1], self.values[after]
        return Figure(y0 + (y1 - y0) * (batch - x0) / (x1 - x0), "interpolated")


@dataclass(frozen=True)
class MemoryNeed:
    """What a model holds on a device, in MiB."""

    persistent_mib: float
    """From its start to its end: parameters, gradients, momentum."""
    peak_mib: float
    """The most it holds during a step, the above included."""
    kind: Kind


class DeviceTimes:
    """Step times and memory by model, GPU and batch size."""

    def __init__(self, *, strict: bool = False) -> None:
        self.strict = strict
        self._curves, self._largest, self._load = _times()
        self._memory = _memory()

    @property
    def models(self) -> list[str]:
        """All models, sorted."""
        return sorted(self._memory)

    @property
    def gpus(self) -> list[str]:
        """Short names of the cards."""
        return [c.name for c in CARDS]

    def largest(self, model: str, gpu: str) -> int:
        """The largest batch for which a step was measured and is held here."""
        name, kind = self._names(model, gpu)
        return min(self._curves[name, kind, phase].batches[-1] for phase in PHASES)

    def fitted_on_card(self, model: str, gpu: str) -> int:
        """The largest batch that was measured, held here or not; where it is below 256 the card was full."""
        name, kind = self._names(model, gpu)
        return self._largest[name, kind]

    def batches(self, model: str, gpu: str) -> tuple[int, ...]:
        """The measured batch sizes that are held here."""
        name, kind = self._names(model, gpu)
        return self._curves[name, kind, "forward"].batches

    def seconds(self, model: str, gpu: str, batch: float, phase: Phase) -> Figure:
        """The time of one phase; `load` is the copy of the model to the device, whatever the batch."""
        name, kind = self._names(model, gpu)
        if phase == "load":
            return Figure(self._load[name, kind], "measured")
        if (name, kind, phase) not in self._curves:
            raise UnknownName("phase", phase, [*PHASES, "load"])
        if not batch >= 1:
            raise ConfigError(f"{model} on {gpu}: a batch of {batch} cannot be trained; it must be at least 1")
        figure = self._curves[name, kind, phase].at(batch)
        if figure.kind == "fit":
            self._outside(name, kind, batch)
        return figure

    def step(self, model: str, gpu: str, batch: float) -> StepTime:
        """A whole step; its kind is that of the worst of its phases."""
        copy, forward, backward = (self.seconds(model, gpu, batch, phase) for phase in PHASES)  # type: ignore[arg-type]
        kind = max((copy.kind, forward.kind, backward.kind), key=_WORST_LAST.index)
        return StepTime(forward.value + backward.value, copy.value, kind)

    def memory(self, model: str, batch: float) -> MemoryNeed:
        """What a step holds on any card: one table per model, measured on V100."""
        persistent, peak = self._memory[self._model(model)]
        low, high = persistent.at(batch), peak.at(batch)
        return MemoryNeed(low.value, max(low.value, high.value), max(low.kind, high.kind, key=_WORST_LAST.index))

    def largest_that_fits(self, model: str, gpu: str) -> int:
        """The largest batch whose peak is within the usable memory of a card; 0 if none is."""
        usable = card(gpu).usable_mib
        low, high = 0, 1
        while high < 1 << 20 and self.memory(model, high).peak_mib <= usable:
            low, high = high, 2 * high
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if self.memory(model, middle).peak_mib <= usable else (low, middle)
        return low

    def parameter_bytes(self, model: str) -> float:
        """Size of the gradients that a gang exchanges: 4 bytes per parameter."""
        return 4.0 * _parameters()[self._model(model)]

    def _outside(self, model: str, gpu: str, batch: float) -> None:
        largest = self.largest(model, gpu)
        text = f"{model} on {gpu}: batch {batch:g} was not measured; the largest measured batch is {largest}"
        if self.strict:
            raise NotMeasured(f"{text}. Ask for at most that, or leave strict mode to use a fitted line.")
        warnings.warn(f"{text}; the time comes from a fitted line", ExtrapolatedWarning, stacklevel=4)

    def _names(self, model: str, gpu: str) -> tuple[str, str]:
        return self._model(model), card(gpu).name

    def _model(self, model: str) -> str:
        name = model.strip().lower()
        if name not in self._memory:
            raise UnknownName("model", model, self._memory)
        return name


def rows(name: str) -> Iterator[dict[str, str]]:
    """The rows of one of our tables."""
    with gzip.open(DATA / name, "rt", encoding="utf-8", newline="") as file:
        yield from csv.DictReader(line for line in file if not line.startswith("#"))


@cache
def _times() -> tuple[dict[tuple[str, str, str], BatchCurve], dict[tuple[str, str], int], dict[tuple[str, str], float]]:
    curves: dict[tuple[str, str, str], BatchCurve] = {}
    largest: dict[tuple[str, str], int] = {}
    load: dict[tuple[str, str], float] = {}
    for row in rows("times.csv.gz"):
        model, gpu, phase = row["model"], row["gpu"], row["phase"]
        if phase == "load":
            load[model, gpu] = float(row["intercept"])
            continue
        points = [(int(k), float(v)) for k, v in row.items() if k.isdigit() and v]
        curves[model, gpu, phase] = BatchCurve(
            tuple(b for b, _ in points), tuple(s for _, s in points), max(0.0, float(row["slope"]))
        )
        if phase != "transfer":
            largest[model, gpu] = max(largest.get((model, gpu), 0), int(row["largest"]))
    return curves, largest, load


@cache
def _memory() -> dict[str, tuple[BatchCurve, BatchCurve]]:
    points: dict[str, list[tuple[int, float, float]]] = {}
    for row in rows("memory.csv.gz"):
        points.setdefault(row["model"], []).append((int(row["batch"]), float(row["persistent"]), float(row["peak"])))
    return {model: (_line(found, 1), _line(found, 2)) for model, found in points.items()}


def _line(points: list[tuple[int, float, float]], column: int) -> BatchCurve:
    """Memory is a straight line in the batch; its slope is taken from batches 16 to 96, before cards fill up."""
    inside = [(p[0], p[column]) for p in points if 16 <= p[0] <= 96]
    (x0, y0), (x1, y1) = inside[0], inside[-1]
    return BatchCurve(tuple(p[0] for p in points), tuple(p[column] for p in points), (y1 - y0) / (x1 - x0))


@cache
def _parameters() -> dict[str, int]:
    return {row["model"]: int(row["parameters"]) for row in rows("models.csv.gz")}
