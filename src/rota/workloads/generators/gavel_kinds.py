"""What both of Gavel's generators need.

Its templates, and how fast each of them runs on the reference type.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rota.core.arrays import FloatArray, IntArray
from rota.core.jobs import Jobs, Launch
from rota.profiles import load, templates

REFERENCE_TYPE = "v100"
"""Durations are said for this type."""
GPU_COUNTS = (1, 2, 4, 8)


@dataclass(frozen=True, kw_only=True, eq=False)
class Kinds:
    """The templates as columns."""

    profiles: tuple[str, ...]
    launches: tuple[Launch, ...]
    multi_gpu: tuple[bool, ...]
    speed: FloatArray
    """[template, GPUs] steps/s on the reference type; NaN where a template cannot use that number
    of GPUs."""

    def steps(self, template: IntArray, gpus: IntArray, duration: FloatArray) -> FloatArray:
        """Steps that take the duration on the reference type, unrounded."""
        return duration * self.speed[template, gpus]


def read_kinds(catalogue: str) -> Kinds:
    """The templates with the speeds of a catalogue."""
    known = templates()
    measured = load(catalogue)
    speed = np.full((len(known), max(GPU_COUNTS) + 1), np.nan)
    for row, template in enumerate(known):
        for gpus in GPU_COUNTS if template.multi_gpu else (1,):
            speed[row, gpus] = measured.rate(template.profile, gpus, REFERENCE_TYPE)
    return Kinds(
        profiles=tuple(t.profile for t in known),
        launches=tuple(t.launch for t in known),
        multi_gpu=tuple(t.multi_gpu for t in known),
        speed=speed,
    )


def jobs_table(
    kinds: Kinds,
    *,
    template: IntArray,
    gpus: IntArray,
    steps: FloatArray,
    submitted: FloatArray,
    duration: FloatArray,
    weight: FloatArray,
    slo: FloatArray,
) -> Jobs:
    """A table whose profiles and launches are the templates."""
    deadline = submitted + slo * duration
    return Jobs(
        profiles=kinds.profiles,
        profile=template,
        gpus=gpus,
        total_steps=steps,
        submitted=submitted,
        weight=weight,
        deadline=np.where(np.isnan(deadline), np.inf, deadline),
        duration=duration,
        slo=slo,
        launches=kinds.launches,
        launch=template,
    )
