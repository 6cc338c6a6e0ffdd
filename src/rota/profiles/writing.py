"""Profile files as `rota profile` writes them: a catalogue in TOML that `--profiles` takes."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from rota.core.arrays import FloatArray
from rota.profiles.cells import FAILED, LEARNED, CellNotes
from rota.profiles.models import sensitivity_of
from rota.profiles.rows import ABOUT, FORMAT
from rota.profiles.stages import Stages

_ESCAPES = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\t": "\\t", "\r": "\\r"}


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ProfiledModel:
    """One profile on one type with one number of GPUs; amounts are per GPU."""

    profile: str
    type: str
    gpus: int | None
    cpus: FloatArray
    memory_gb: FloatArray
    rates: FloatArray
    """[cpus, memory] steps/s; NaN where a run failed."""
    cells: CellNotes
    stages: Stages


@dataclass(frozen=True, slots=True, kw_only=True)
class LearnedRate:
    """The speed of one profile on one type with one number of GPUs, learned from jobs while they ran."""

    profile: str
    type: str
    gpus: int
    rate: float
    """Steps/s of the whole job with the proportional share of CPUs and memory."""
    error: float
    """Half of the 95 % interval, relative; NaN: not known."""
    blocks: int
    """Blocks of time in which it was measured, for people."""
    spread: bool = False
    """Whether the GPUs are on several servers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProfileDocument:
    """A whole file."""

    name: str
    models: Sequence[ProfiledModel] = ()
    rates: Sequence[LearnedRate] = ()
    about: Mapping[str, str] = field(default_factory=dict)


def document_text(document: ProfileDocument) -> str:
    """The file; reading it again gives the same numbers."""
    lines = [f"format = {FORMAT}", f"name = {_text(document.name)}"]
    lines += [f"{key} = {_text(document.about[key])}" for key in ABOUT if key in document.about and key != "name"]
    for model in document.models:
        lines += ["", *_model(model)]
    for rate in document.rates:
        lines += ["", *_rate(rate)]
    return "\n".join(lines) + "\n"


def _rate(row: LearnedRate) -> list[str]:
    return [
        f"[[rate]]  # {row.blocks} blocks",
        f"profile = {_text(row.profile)}",
        f"gpus = {row.gpus}",
        f"type = {_text(row.type)}",
        *(["spread = true"] if row.spread else []),
        f"rate = {_number(row.rate)}",
        f"origin = {_text(LEARNED)}",
        *([] if math.isnan(row.error) else [f"error = {_number(row.error)}"]),
    ]


def _model(model: ProfiledModel) -> list[str]:
    table = sensitivity_of(model.profile, model.cpus, model.memory_gb, model.rates, model.cells.error)
    best = float(np.nanmax(model.rates))
    lines = [
        "[[model]]",
        f"profile = {_text(model.profile)}",
        f"type = {_text(model.type)}",
        *([] if model.gpus is None else [f"gpus = {model.gpus}"]),
        f"step_s = {_number(1 / best)}",
        f"cpus = {_number(table.ideal_cpus)}",
        f"memory_gb = {_number(table.ideal_memory_gb)}",
        f"speedup = {_number(table.speedup)}",
        f"cpu_axis = {_list(model.cpus)}",
        f"memory_axis = {_list(model.memory_gb)}",
        *_table("speed", [[_number(cell) for cell in row] for row in table.speed]),
        *_table("origin", [[_text(cell) for cell in row] for row in model.cells.origin]),
        *_table("error", [[_number(cell) for cell in row] for row in model.cells.error]),
    ]
    if model.cells.count(FAILED):
        lines += _table("reasons", [[_text(cell) for cell in row] for row in model.cells.reasons])
    lines += ["", "[model.pipeline]"]
    return lines + [f"{name} = {_number(value)}" for name, value in model.stages.to_table().items()]


def _table(name: str, rows: Sequence[Sequence[str]]) -> list[str]:
    return [f"{name} = [", *(f"    [{', '.join(row)}]," for row in rows), "]"]


def _list(values: FloatArray) -> str:
    return f"[{', '.join(_number(value) for value in values)}]"


def _number(value: float) -> str:
    if isinstance(value, int):
        return str(value)
    return "nan" if math.isnan(value) else repr(float(f"{value:.6g}"))


def _text(value: str) -> str:
    printable = (c if c.isprintable() or c in _ESCAPES else "?" for c in value)
    return '"' + "".join(_ESCAPES.get(c, c) for c in printable) + '"'
