"""A job as a pipeline: read the data, prepare it on CPUs, compute on the GPU.

The slowest of the three sets the pace.

    rate(type, c, m, b) = min(G ratio_type,  k c,  S (b / 62.5) / (1 - h(m)))        h(m) = min(1, m / D)

per GPU with c CPUs, m GB and b MB/s of storage: G the rate that the GPU allows on v100, k steps/s
that one CPU prepares, S steps/s that the published 62.5 MB/s deliver if nothing is cached, D the GB
that hold the whole data set, h the cache hit ratio. A CPU or a disk does not care which GPU it
feeds, so a slower GPU is content with fewer CPUs and less memory.

Measured: Synergy's speeds by CPUs and memory (v100 only), Gavel's rates by GPU type (CPUs and
memory not varied). Derived: everything else. G is the best speed of Synergy's table; k, S, D are
fitted to its cells by least squares of the relative error; the ratio of a type is Gavel's rate
there over its rate on v100, for the counterpart below. The errors of the fit are kept and shown; on
types other than v100 there is nothing to compare with.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from rota.core.arrays import FloatArray
from rota.core.errors import ProfileMissing
from rota.core.sensitivity import Sensitivity
from rota.core.tolerance import TOLERANCE
from rota.profiles.catalogue import Catalogue
from rota.profiles.models import Model, ModelKey

MEASURED = "v100"
"""The type on which CPUs and memory were varied."""
COUNTERPART: Mapping[str, str] = {
    "res18": "ResNet-18 (batch size 256)",
    "res50": "ResNet-50 (batch size 128)",
    "transformer": "Transformer (batch size 128)",
    "lstm": "LM (batch size 20)",
}
"""Synergy's model -> Gavel's. Batch sizes are the same where Gavel has Synergy's (transformer 128,
lstm 20); Synergy trains the other two with 512, and Gavel's largest is the nearest to it."""
FAIR = (3.0, 62.5)
"""CPUs and GB per GPU of the published servers; a speed of 1 is the speed with these."""
FAIR_MBPS = 62.5
"""MB/s of storage per GPU of the published servers, 1/8 of 500: what every job was measured
with."""
CPUS: FloatArray = np.arange(1.0, 25.0)
"""The grid on which speeds are tabled: every whole number of CPUs in the measured range, ..."""
MEMORY: FloatArray = np.array([20.83, 25, 30, 35, 40, 45, 50, 55, 60, 62.5, 65, 70, 80, 100, 125, 187.5, 250])
"""... and the measured GB, with more points where data sets begin to fit."""
DATA_STEP_GB = 0.5
"""D is searched in these steps."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pipeline:
    """The stages of one model, in steps/s per GPU."""

    gpu: float
    """G, on v100."""
    cpu: float | None
    """k; None if one CPU is enough in every measured cell."""
    storage: float | None
    """S, with the storage that the servers have; None if memory makes no difference in any measured
    cell."""
    data_gb: float | None
    """D."""

    def rate(
        self,
        cpus: FloatArray | float,
        memory_gb: FloatArray | float,
        ratio: float = 1.0,
    ) -> FloatArray:
        """Steps/s with these CPUs and GB per GPU, on GPUs `ratio` times as fast as a v100."""
        shape = np.broadcast_shapes(np.shape(cpus), np.shape(memory_gb))
        slowest = np.broadcast_to(self.gpu * ratio, shape)
        if self.cpu is not None:
            slowest = np.minimum(slowest, self.cpu * np.asarray(cpus))
        if self.storage is not None and self.data_gb is not None:
            reading = self.storage * _relief(np.asarray(memory_gb), self.data_gb)
            slowest = np.minimum(slowest, reading)
        return np.asarray(slowest, dtype=np.float64)

    def with_storage(self, mbps: float) -> Pipeline:
        """A fitted pipeline on servers with these MB/s per GPU."""
        if self.storage is None:
            return self
        return replace(self, storage=self.storage * (mbps / FAIR_MBPS))


@dataclass(frozen=True, slots=True, kw_only=True)
class Fit:
    """A pipeline with what it was fitted to and how well it does there."""

    profile: str
    counterpart: str | None
    """The same model in Gavel's table; without one, the model is not in the catalogue."""
    pipeline: Pipeline
    ratios: Mapping[str, float]
    """By type: how fast its GPUs are, relative to v100."""
    cells: int
    mean_error: float
    """Mean of |fitted - measured| / measured over the cells."""
    max_error: float


def fit(measured: Sensitivity, step_s: float) -> tuple[Pipeline, FloatArray]:
    """The pipeline that is nearest to a table of speeds, and the relative error of each cell.

    k is fitted where memory is most plentiful, then S and D to all cells. A stage that never holds
    up the others is left out. Of equally good D the largest is taken, so that memory is not said to
    buy more than was seen.
    """
    cells = measured.speed
    best = float(np.nanmax(cells))
    k, _ = _best_factor(np.full(len(cells), best), measured.cpus, cells[:, -1])
    limited = bool((k * measured.cpus < best * (1 - TOLERANCE)).any())
    plain = Pipeline(gpu=best, cpu=k if limited else None, storage=None, data_gb=None)
    storage = _storage(plain, measured)
    pipeline = (
        plain
        if storage is None
        else Pipeline(
            gpu=best,
            cpu=plain.cpu,
            storage=storage[0],
            data_gb=storage[1],
        )
    )
    error = np.abs(pipeline.rate(measured.cpus[:, None], measured.memory_gb[None, :]) / cells - 1)
    return _in_steps(pipeline, step_s), error


def catalogue(synergy: Catalogue, gavel: Catalogue) -> Catalogue:
    """The models that both have, on every type that Gavel measured.

    The fits of the others are kept too.
    """
    models: dict[ModelKey, Model] = {}
    fits = []
    for profile in synergy.names:
        measured = synergy.sensitivity(profile, 1, MEASURED)
        if measured is None:
            problem = f"catalogue {synergy.name!r} has no speeds of {profile!r} by CPUs and memory"
            raise ProfileMissing(problem)
        pipeline, error = fit(measured, synergy.step_s(profile, 1, MEASURED))
        counterpart = COUNTERPART.get(profile)
        ratios = {} if counterpart is None else _ratios(gavel, counterpart)
        for gpu_type, ratio in ratios.items():
            models[profile, None, gpu_type] = _model(profile, pipeline, ratio)
        fits.append(
            Fit(
                profile=profile,
                counterpart=counterpart,
                pipeline=pipeline,
                ratios=ratios,
                cells=error.size,
                mean_error=float(error.mean()),
                max_error=float(error.max()),
            )
        )
    return Catalogue("pipeline", {}, about=_about(synergy, gavel), models=models, fits=fits)


def _ratios(gavel: Catalogue, counterpart: str) -> dict[str, float]:
    reference = gavel.rate(counterpart, 1, MEASURED)
    return {t: gavel.rate(counterpart, 1, t) / reference for t in gavel.types}


def _about(synergy: Catalogue, gavel: Catalogue) -> dict[str, str]:
    return {
        "name": "pipeline",
        "title": "4 models on K80, P100, V100 by CPUs and memory: derived from gavel and synergy, not measured",
        "source": f"{synergy.about.get('source', synergy.name)}; {gavel.about.get('source', gavel.name)}",
        "licence": "MIT",
        "reference": MEASURED,
        "measured": "speeds by CPUs and memory on v100 (Synergy), rates by GPU type (Gavel)",
        "derived": "min(GPU, CPUs, storage) fitted to the former, its GPU part scaled by the latter; the errors of the "
        "fit are on v100, and for other types there is nothing to compare with",
    }


def _model(profile: str, fitted: Pipeline, ratio: float, mbps: float = 0.0) -> Model:
    """What the engine reads: speeds on the grid, relative to published CPUs and memory.

    With less storage than published the curve is steep up to D, which lies between two amounts of
    the grid: D is added.
    """
    pipeline = fitted.with_storage(mbps or FAIR_MBPS)
    same = pipeline == fitted or fitted.data_gb is None
    grid = MEMORY if same else np.union1d(MEMORY, [fitted.data_gb])
    fair = float(pipeline.rate(*FAIR, ratio))
    speed = pipeline.rate(CPUS[:, None], grid[None, :], ratio) / fair
    enough = speed >= speed.max() * (1 - TOLERANCE)
    cpus = int(enough[:, -1].argmax())
    memory = int(enough[cpus].argmax())
    return Model(
        step_s=1 / fair,
        sensitivity=Sensitivity(
            profile=profile,
            cpus=CPUS,
            memory_gb=grid,
            speed=speed,
            ideal_cpus=float(CPUS[cpus]),
            ideal_memory_gb=float(grid[memory]),
            speedup=float(speed.max()),
        ),
        with_storage=None if fitted.storage is None else partial(_model, profile, fitted, ratio),
    )


def _in_steps(relative: Pipeline, step_s: float) -> Pipeline:
    """From speeds relative to 1 / step_s to steps/s."""
    return Pipeline(
        gpu=relative.gpu / step_s,
        cpu=None if relative.cpu is None else relative.cpu / step_s,
        storage=None if relative.storage is None else relative.storage / step_s,
        data_gb=relative.data_gb,
    )


def _storage(plain: Pipeline, measured: Sensitivity) -> tuple[float, float] | None:
    """S and D, or None if they would explain nothing."""
    cap = np.broadcast_to(plain.rate(measured.cpus, 0.0)[:, None], measured.speed.shape)
    least = float(((cap / measured.speed - 1) ** 2).sum()) - TOLERANCE
    best = None
    smallest = measured.memory_gb[0] + DATA_STEP_GB
    for data in np.arange(smallest, measured.memory_gb[-1], DATA_STEP_GB).tolist():
        relief = np.broadcast_to(_relief(measured.memory_gb, data)[None, :], cap.shape)
        factor, error = _best_factor(cap.ravel(), relief.ravel(), measured.speed.ravel())
        if error <= least + TOLERANCE * (best is not None):
            least = min(error, least)
            best = (factor, data)
    return best


def _relief(memory_gb: FloatArray, data_gb: float) -> FloatArray:
    """1 / (1 - h): how many times more often a step is served than storage delivers one.

    Infinite if all is cached.
    """
    missed = np.maximum(0.0, 1 - memory_gb / data_gb)
    endless = np.full(np.shape(missed), np.inf)
    served: FloatArray = np.divide(1.0, missed, out=endless, where=missed > 0)
    return served


def _best_factor(cap: FloatArray, slope: FloatArray, target: FloatArray) -> tuple[float, float]:
    """The least f with the smallest sum of (min(cap, f slope) / target - 1)^2, and that sum. Exact.

    Between two of the points cap / slope the sum is a parabola: the best of each stretch is known,
    and then the best of all stretches.
    """
    knee = np.where(np.isinf(slope), 0.0, cap / slope)
    order = np.argsort(knee, kind="stable")
    knee = knee[order]
    part = np.where(np.isinf(slope), 0.0, slope / target)[order]
    full = np.concatenate([[0.0], np.cumsum((cap / target - 1)[order] ** 2)])
    ones = np.arange(len(knee), -1, -1)
    linear = np.concatenate([np.cumsum(part[::-1])[::-1], [0.0]])
    square = np.concatenate([np.cumsum(part[::-1] ** 2)[::-1], [0.0]])
    low = np.concatenate([[0.0], knee])
    high = np.concatenate([knee, knee[-1:]])
    f = np.clip(np.divide(linear, square, out=low.copy(), where=square > 0), low, high)
    error = full + square * f**2 - 2 * linear * f + ones
    at = int((error <= error.min() + TOLERANCE).argmax())
    return float(f[at]), float(error[at])
