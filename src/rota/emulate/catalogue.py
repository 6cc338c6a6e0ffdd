"""How long a step takes on a GPU, and how much memory it needs: the tables measured with GPEmu.

    seconds(model, gpu, batch) = transfer + forward + backward

A batch that was measured is answered as it was; between two measured batches the answer lies on the
straight line between them; beyond the last one it lies on a line through it with the slope of a
least-squares fit, which is a guess (fitted on batches 1 to 64, such lines miss batch 256 by 8 to 15
% in the median and 89 % at worst). Every answer says its kind, a guess warns, and a strict table
refuses it.
"""

from __future__ import annotations

import csv
import gzip
import warnings
from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Literal

from rota.core.errors import ConfigError, ProfileMissing, UnknownName
from rota.emulate.cards import CARDS, card

DATA = Path(__file__).parent / "data"
PHASES = ("transfer", "forward", "backward")
LONGEST_STEP_S = 1e6
_LARGEST_BATCH = 1 << 20

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
                f"a step of {self.compute_s} s computing and {self.transfer_s} s copying cannot be "
                "emulated; "
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
        before = after - 1
        rise = self.values[after] - self.values[before]
        run = self.batches[after] - self.batches[before]
        return Figure(
            self.values[before] + rise * (batch - self.batches[before]) / run, "interpolated"
        )


@dataclass(frozen=True)
class DeviceMemoryNeed:
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
        tables = _time_tables()
        self._curves = tables.curves
        self._largest = tables.largest_batch
        self._load = tables.load_seconds
        self._memory = _memory_curves()

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
        name, gpu_type = self._names(model, gpu)
        return min(self._curves[name, gpu_type, phase].batches[-1] for phase in PHASES)

    def fitted_on_card(self, model: str, gpu: str) -> int:
        """The largest batch that was measured, held here or not.

        Where it is below 256 the card was full.
        """
        name, gpu_type = self._names(model, gpu)
        return self._largest[name, gpu_type]

    def batches(self, model: str, gpu: str) -> tuple[int, ...]:
        """The measured batch sizes that are held here."""
        name, gpu_type = self._names(model, gpu)
        return self._curves[name, gpu_type, "forward"].batches

    def seconds(self, model: str, gpu: str, batch: float, phase: Phase) -> Figure:
        """The time of one phase.

        `load` is the copy of the model to the device, whatever the batch.
        """
        name, gpu_type = self._names(model, gpu)
        if phase == "load":
            return Figure(self._load[name, gpu_type], "measured")
        if (name, gpu_type, phase) not in self._curves:
            raise UnknownName("phase", phase, [*PHASES, "load"])
        if not batch >= 1:
            raise ConfigError(
                f"{model} on {gpu}: a batch of {batch} cannot be trained; it must be at least 1"
            )
        figure = self._curves[name, gpu_type, phase].at(batch)
        if figure.kind == "fit":
            self._outside(name, gpu_type, batch)
        return figure

    def step(self, model: str, gpu: str, batch: float) -> StepTime:
        """A whole step; its kind is that of the worst of its phases."""
        copy = self.seconds(model, gpu, batch, "transfer")
        forward = self.seconds(model, gpu, batch, "forward")
        backward = self.seconds(model, gpu, batch, "backward")
        kind = max((copy.kind, forward.kind, backward.kind), key=_WORST_LAST.index)
        return StepTime(forward.value + backward.value, copy.value, kind)

    def memory(self, model: str, batch: float) -> DeviceMemoryNeed:
        """What a step holds on any card: one table per model, measured on V100."""
        persistent_curve, peak_curve = self._memory[self._model(model)]
        persistent = persistent_curve.at(batch)
        peak = peak_curve.at(batch)
        return DeviceMemoryNeed(
            persistent_mib=persistent.value,
            peak_mib=max(persistent.value, peak.value),
            kind=max(persistent.kind, peak.kind, key=_WORST_LAST.index),
        )

    def largest_that_fits(self, model: str, gpu: str) -> int:
        """The largest batch whose peak is within the usable memory of a card; 0 if none is."""
        usable = card(gpu).usable_mib
        fits = 0
        too_large = 1
        while too_large < _LARGEST_BATCH and self.memory(model, too_large).peak_mib <= usable:
            fits = too_large
            too_large *= 2
        while too_large - fits > 1:
            middle = (fits + too_large) // 2
            if self.memory(model, middle).peak_mib <= usable:
                fits = middle
            else:
                too_large = middle
        return fits

    def parameter_bytes(self, model: str) -> float:
        """Size of the gradients that a gang exchanges: 4 bytes per parameter."""
        return 4.0 * _parameters()[self._model(model)]

    def _outside(self, model: str, gpu: str, batch: float) -> None:
        largest = self.largest(model, gpu)
        text = (
            f"{model} on {gpu}: batch {batch:g} was not measured; "
            f"the largest measured batch is {largest}"
        )
        if self.strict:
            raise NotMeasured(
                f"{text}. Ask for at most that, or leave strict mode to use a fitted line."
            )
        warnings.warn(
            f"{text}; the time comes from a fitted line", ExtrapolatedWarning, stacklevel=4
        )

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


@dataclass(frozen=True)
class _TimeTables:
    """Measured seconds by model and GPU: phases by batch, and the copy of the model."""

    curves: dict[tuple[str, str, str], BatchCurve] = field(default_factory=dict)
    largest_batch: dict[tuple[str, str], int] = field(default_factory=dict)
    load_seconds: dict[tuple[str, str], float] = field(default_factory=dict)


@cache
def _time_tables() -> _TimeTables:
    tables = _TimeTables()
    for row in rows("times.csv.gz"):
        pair = (row["model"], row["gpu"])
        phase = row["phase"]
        if phase == "load":
            tables.load_seconds[pair] = float(row["intercept"])
            continue
        points = {
            int(column): float(value) for column, value in row.items() if column.isdigit() and value
        }
        curve = BatchCurve(tuple(points), tuple(points.values()), max(0.0, float(row["slope"])))
        tables.curves[(*pair, phase)] = curve
        if phase != "transfer":
            tables.largest_batch[pair] = max(tables.largest_batch.get(pair, 0), int(row["largest"]))
    return tables


@cache
def _memory_curves() -> dict[str, tuple[BatchCurve, BatchCurve]]:
    """MiB by model: what a job keeps, and its peak."""
    persistent: dict[str, dict[int, float]] = {}
    peak: dict[str, dict[int, float]] = {}
    for row in rows("memory.csv.gz"):
        batch = int(row["batch"])
        persistent.setdefault(row["model"], {})[batch] = float(row["persistent"])
        peak.setdefault(row["model"], {})[batch] = float(row["peak"])
    return {
        model: (_straight_line(persistent[model]), _straight_line(peak[model])) for model in peak
    }


def _straight_line(mib_of: dict[int, float]) -> BatchCurve:
    """Memory is a straight line in the batch.

    Its slope is taken from batches 16 to 96, before cards fill up.
    """
    inside = [batch for batch in mib_of if 16 <= batch <= 96]
    first = inside[0]
    last = inside[-1]
    slope = (mib_of[last] - mib_of[first]) / (last - first)
    return BatchCurve(tuple(mib_of), tuple(mib_of.values()), slope)


@cache
def _parameters() -> dict[str, int]:
    return {row["model"]: int(row["parameters"]) for row in rows("models.csv.gz")}
