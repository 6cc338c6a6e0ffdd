"""Models of a catalogue file: the time of a step, and how the speed depends on CPUs and memory.

    cpu_axis = [1, 3, 6]         # CPUs per GPU at which the models were measured, ascending
    memory_axis = [20, 62.5]     # GB per GPU; both may also stand in a model
    [[model]]
    profile = "resnet"
    type = "v100"
    gpus = 1                     # left out: any number of GPUs, and the time of a step is the same for all
    step_s = 0.5                 # seconds of a step at the share of CPUs and memory that the file takes as 1
    cpus = 6                     # per GPU, beyond which nothing is gained
    memory_gb = 62.5             # the same for memory
    speedup = 1.5                # speed with these, relative to 1 / step_s
    speed = [[0.1, 0.4], [0.2, 1.0], [nan, 1.5]]   # [cpu_axis][memory_axis], relative to 1 / step_s; nan = not measured

    relative_to = [3, 62.5]      # left out: the table is relative to 1 / step_s; given: to its value at this point

In JSON a cell that was not measured is null. A model with no more than step_s does not care about
CPUs and memory. What a model leaves out is taken from the same model (profile, gpus, type) of the
catalogue's base.

A model that `rota profile` wrote also says how each cell was found and how sure it is
(rota.profiles.cells), and has the parameters of its pipeline (rota.profiles.stages), from which its
speed with other storage is computed.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, TypeAlias

import numpy as np

from rota.core.arrays import FloatArray
from rota.core.errors import ConfigError, UnknownName
from rota.core.sensitivity import Sensitivity
from rota.profiles.cells import KEYS as CELL_KEYS
from rota.profiles.cells import MEASURED, PREDICTED, CellNotes, read_cells
from rota.profiles.stages import Stages

ModelKey: TypeAlias = tuple[str, int | None, str]
"""(profile, GPUs or None for any number, type)."""
Entry: TypeAlias = Mapping[str, Any]

AXES = ("cpu_axis", "memory_axis")
MOST = 1e12
"""CPUs or GB. Beyond it, speeds and products of them are too large or too small for a float."""
NOTHING_GAINED = 0.01
"""A profiled job wants no CPUs and no memory for less than this part of its speed ..."""
HARDLY_GAINED = 0.05
"""... nor for less than the error of a cell, up to this part: noise is no reason to take CPUs from others."""
DEMANDS = ("cpus", "memory_gb", "speedup")
KEYS = ("profile", "type", "gpus", "step_s", *DEMANDS, *AXES, "speed", "relative_to", *CELL_KEYS, "pipeline")


@dataclass(frozen=True, slots=True, kw_only=True)
class Model:
    """A job whose speed is known as the time of a step."""

    step_s: float
    sensitivity: Sensitivity | None = None
    with_storage: Callable[[float], Model] | None = None
    """The same with these MB/s per GPU (0: as published); None for one that was measured, or reads
    nothing."""
    cells: CellNotes | None = None
    """How each speed was found; None: all of them were measured."""
    stages: Stages | None = None
    """Parameters of its pipeline, where a profiler found them."""
    origin: str = MEASURED


Models: TypeAlias = Mapping[ModelKey, Model]


def read_models(
    entries: Sequence[Any],
    axes: Entry,
    path: str,
    base: Models,
) -> dict[ModelKey, Model]:
    """The models of a file; `axes` are those of the whole file."""
    model_of: dict[ModelKey, Model] = {}
    for number, entry in enumerate(entries, 1):
        place = f"{path}, model {number}"
        if not isinstance(entry, Mapping):
            raise ConfigError(f"{place}: {entry!r} is not a table with profile, type and step_s")
        for name in entry:
            if name not in KEYS:
                raise UnknownName(f"key in {place}:", name, KEYS)
        key = (_text(entry, "profile", place), _gpus(entry, place), _text(entry, "type", place))
        place = f"{place} ({key[0]!r})"
        if key in model_of:
            count = "any number of" if key[1] is None else key[1]
            fix = "keep one of the two"
            what = f"{place}: this model with {count} GPUs on {key[2]} was already given"
            raise ConfigError(f"{what}; {fix}")
        model_of[key] = _model(entry, axes, place, key[0], base.get(key))
    return model_of


def _of_one_speed(step_s: float, known: Sensitivity | None, stages: Stages | None, place: str) -> Model:
    """A model whose entry says nothing about CPUs and memory; what the base catalogue says of them stays."""
    if stages is not None and known is None:
        fix = "give speed, cpu_axis and memory_axis, or leave it out"
        raise ConfigError(f"{place}: a pipeline without speeds says nothing about other servers; {fix}")
    return Model(step_s=step_s, sensitivity=known, stages=stages)


def _model(entry: Entry, axes: Entry, place: str, profile: str, base: Model | None) -> Model:
    known = base.sensitivity if base else None
    stages = Stages.from_table(entry["pipeline"], place) if "pipeline" in entry else None
    step_s = _positive(entry, "step_s", place, base.step_s if base else None)
    if not any(name in entry for name in (*DEMANDS, *AXES, "speed", "relative_to")):
        return _of_one_speed(step_s, known, stages, place)
    if "speed" in entry:
        cpus, memory = (_axis({**axes, **entry}, name, place) for name in AXES)
        speed = _speeds(entry["speed"], cpus, memory, place)
    elif known is None or any(name in entry for name in AXES):
        fix = "give a row per entry of cpu_axis, a number per entry of memory_axis"
        raise ConfigError(f"{place}: speed is missing; {fix}")
    else:
        cpus = known.cpus
        memory = known.memory_gb
        speed = known.speed
    if "relative_to" in entry:
        speed = _rebased(entry["relative_to"], cpus, memory, speed, place)
    if not (speed > 0).any():
        raise ConfigError(f"{place}: no cell of speed is above 0; give the speeds that were measured, or no model")
    if stages is not None and not cpus[0] > 0:
        raise ConfigError(f"{place}: cpu_axis begins with 0 CPUs, with which no pipeline runs; begin above it")
    ideal_memory_gb = _positive(entry, "memory_gb", place, known.ideal_memory_gb if known else None)
    model = Model(
        step_s=step_s,
        sensitivity=Sensitivity(
            profile=profile,
            cpus=cpus,
            memory_gb=memory,
            speed=speed,
            ideal_cpus=_positive(entry, "cpus", place, known.ideal_cpus if known else None),
            ideal_memory_gb=ideal_memory_gb,
            speedup=_positive(entry, "speedup", place, known.speedup if known else None),
        ),
        cells=read_cells(entry, speed, place),
        stages=stages,
    )
    reads = stages is not None and stages.step_mb > 0
    return replace(model, with_storage=partial(_on_storage, model)) if reads else model


def _on_storage(model: Model, mbps: float) -> Model:
    """A profiled model on servers with these MB/s per GPU; 0: as it was measured."""
    if not mbps or model.stages is None:
        return model
    changed = restaged(model, replace(model.stages, storage_mbps=mbps), PREDICTED)
    return replace(changed, with_storage=partial(_on_storage, model))


def restaged(model: Model, stages: Stages, origin: str) -> Model:
    """A profiled model with other parameters of its pipeline: every cell is computed anew.

    What was measured beside what the old parameters say (the residual of a cell) is kept where the
    same stage holds the job up as before. Where another one does, it is at least as fast as what was
    measured, which went through all of them; so nothing faster makes a job slower.
    """
    table = model.sensitivity
    if table is None or model.stages is None:
        return replace(model, stages=stages, origin=origin)
    at = (table.cpus[:, None], table.memory_gb[None, :])
    before = model.stages.rate(*at)
    same = np.argmin(model.stages.bounds(*at), axis=0) == np.argmin(stages.bounds(*at), axis=0)
    measured = table.speed / model.step_s
    changed = stages.rate(*at)
    rates = changed * np.where(same, measured / before, 1.0)
    rates = np.where(changed >= before, np.maximum(rates, measured), np.minimum(rates, measured))
    notes = model.cells.all_as(origin) if model.cells is not None else None
    return Model(
        step_s=1 / float(np.nanmax(rates)),
        sensitivity=sensitivity_of(
            table.profile, table.cpus, table.memory_gb, rates, None if model.cells is None else model.cells.error
        ),
        cells=notes,
        stages=stages,
        origin=origin,
    )


def sensitivity_of(
    profile: str, cpus: FloatArray, memory_gb: FloatArray, rates: FloatArray, error: FloatArray | None = None
) -> Sensitivity:
    """A table of steps/s as speeds relative to the best of them, with the least CPUs and memory that reach it.

    `error` is the relative error of each cell, NaN where it is not known.
    """
    best = float(np.nanmax(rates))
    noise = np.full(rates.shape, np.nan) if error is None else error
    told_apart = np.clip(np.where(np.isnan(noise), NOTHING_GAINED, noise), NOTHING_GAINED, HARDLY_GAINED)
    enough = rates >= best * (1 - told_apart)
    by_memory = np.flatnonzero(enough.any(axis=0))
    column = int(by_memory[0])
    row = int(np.flatnonzero(enough[:, column])[0])
    return Sensitivity(
        profile=profile,
        cpus=cpus,
        memory_gb=memory_gb,
        speed=rates / best,
        ideal_cpus=float(cpus[row]),
        ideal_memory_gb=float(memory_gb[column]),
        speedup=float(rates[row, column] / best),
    )


def _axis(given: Entry, name: str, place: str) -> FloatArray:
    """Amounts at which something was measured: finite, not negative, ascending."""
    if name not in given:
        fix = "give the amounts per GPU at which speed was measured"
        raise ConfigError(f"{place}: {name} is missing; {fix}")
    values = given[name]
    if not isinstance(values, Sequence) or isinstance(values, str) or not values:
        raise ConfigError(f"{place}: {name} = {values!r} is not a list of amounts per GPU")
    for value in values:
        if not _is_number(value) or not 0 <= value <= MOST:
            raise ConfigError(f"{place}: {value!r} in {name} is not an amount; give numbers from 0 to {MOST:g}")
    for low, high in itertools.pairwise(values):
        if low >= high:
            fix = "give the amounts in ascending order, each once"
            raise ConfigError(f"{place}: {name} goes from {low!r} to {high!r}; {fix}")
    return np.array(values, dtype=np.float64)


def _speeds(rows: Any, cpus: FloatArray, memory: FloatArray, place: str) -> FloatArray:
    """[cpus, memory] relative speeds; NaN where a cell is nan or null."""
    if not _is_list(rows, len(cpus)):
        fix = f"it {_size(rows, 'row')}"
        what = f"{place}: speed must have {len(cpus)} rows, one per entry of cpu_axis"
        raise ConfigError(f"{what}; {fix}")
    for cpu, row in zip(cpus, rows, strict=True):
        where = f"{place}: the row of speed for {cpu:g} CPUs"
        if not _is_list(row, len(memory)):
            fix = f"it {_size(row, 'number')}"
            what = f"{where} must have {len(memory)} numbers, one per entry of memory_axis"
            raise ConfigError(f"{what}; {fix}")
        for amount, cell in zip(memory, row, strict=True):
            missing = cell is None or (_is_number(cell) and math.isnan(cell))
            if not missing and not (_is_number(cell) and 0 <= cell < math.inf):
                fix = "give a relative speed >= 0, or nan if it was not measured"
                raise ConfigError(f"{where} has {cell!r} at {amount:g} GB; {fix}")
    cells = [[math.nan if cell is None else cell for cell in row] for row in rows]
    return np.array(cells, dtype=np.float64)


def _rebased(
    point: Any,
    cpus: FloatArray,
    memory: FloatArray,
    speed: FloatArray,
    place: str,
) -> FloatArray:
    """The table divided by its value at a point, at which the step was timed."""
    on_axes = _is_list(point, 2) and point[0] in cpus.tolist() and point[1] in memory.tolist()
    value = np.nan
    if on_axes:
        value = speed[cpus.tolist().index(point[0]), memory.tolist().index(point[1])]
    if not value > 0:
        fix = "give [CPUs, GB] per GPU, e.g. [4, 62.5]"
        raise ConfigError(f"{place}: relative_to = {point!r} is no measured point; {fix}")
    rebased: FloatArray = speed / value
    return rebased


def _positive(entry: Entry, name: str, place: str, inherited: float | None) -> float:
    value = entry.get(name, inherited)
    if value is None:
        raise ConfigError(f"{place}: {name} is missing; give a number > 0")
    if not _is_number(value) or not 0 < value < math.inf or 1 / value == math.inf:
        raise ConfigError(f"{place}: {name} = {value!r} cannot be used; give a number > 0")
    return float(value)


def _text(entry: Entry, name: str, place: str) -> str:
    value = entry.get(name)
    if not isinstance(value, str) or not value.strip():
        shown = f"= {value!r} is not a text" if name in entry else "is missing"
        raise ConfigError(f'{place}: {name} {shown}; give e.g. {name} = "{"v100" if name == "type" else "resnet"}"')
    return value


def _gpus(entry: Entry, place: str) -> int | None:
    value = entry.get("gpus")
    if "gpus" not in entry:
        return None
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        fix = "give a whole number >= 1, or leave it out for any number"
        raise ConfigError(f"{place}: gpus = {value!r}; {fix}")
    return value


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _is_list(value: Any, length: int) -> bool:
    return isinstance(value, list) and len(value) == length


def _size(value: Any, what: str) -> str:
    return f"has {len(value)} {what}{'' if len(value) == 1 else 's'}" if isinstance(value, list) else f"is {value!r}"
