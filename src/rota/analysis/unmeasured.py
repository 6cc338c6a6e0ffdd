"""Which speeds of a run nobody measured: holes of the catalogue, and rates that are estimated, derived or extended.

A type without a rate is not used by the jobs that miss it, and an estimated rate is only as good as its rule. Both
change what a run says, so its notes name them: profile, GPUs, type and the number of jobs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from rota.analysis.job_table import JobTable
from rota.core.cluster import Cluster
from rota.core.errors import ProfileMissing, UnknownName
from rota.core.ports import Provenance, Throughputs

MEASURED = "measured"
ESTIMATED = "estimated"
MISSING = "missing"
SHOWN = 6
"""Kinds of jobs that a note names; those with the most jobs."""


@dataclass(frozen=True, slots=True)
class Unmeasured:
    """Jobs of one profile and number of GPUs, and the types on which their speed is of one origin."""

    profile: str
    gpus: int
    types: tuple[str, ...]
    jobs: int

    def __str__(self) -> str:
        plural = "" if self.gpus == 1 else "s"
        jobs = f"{self.jobs:,} job{'' if self.jobs == 1 else 's'}"
        return f"{self.profile!r} with {self.gpus} GPU{plural} on {', '.join(self.types)} ({jobs})"


def remarks(table: JobTable, cluster: Cluster, speeds: Throughputs | None) -> list[str]:
    """What to say about the speeds of these jobs; nothing if all were measured."""
    if speeds is None or not len(table):
        return []
    said = []
    by_origin = unmeasured(table, cluster, speeds)
    missing = by_origin.pop(MISSING, [])
    if missing:
        said.append(
            f"not measured, so these jobs did not use the type: {_listed(missing)}. Add rows to the catalogue, or "
            "estimate numbers of GPUs that were not measured with --set-profiles scaling=trend"
        )
    guessed = by_origin.pop(ESTIMATED, [])
    if guessed:
        said.append(f"estimated, not measured, is the speed of {_listed(guessed)}")
    for origin, kinds in sorted(by_origin.items()):
        said.append(f"speeds of the catalogue on {_by_type(kinds)} are {origin}, not measured")
    return said + list(speeds.remarks if isinstance(speeds, Provenance) else ())


def unmeasured(table: JobTable, cluster: Cluster, speeds: Throughputs) -> dict[str, list[Unmeasured]]:
    """By origin ("missing", "estimated", ...), the most jobs first; only types with enough GPUs for the job count.

    A kind of job that misses all of them is not among "missing": its jobs were refused, and that was said.
    """
    names = list(table.profiles.known)
    job_gpus = table.ints("gpus")
    width = int(job_gpus.max(initial=0)) + 1
    # One number for both: NumPy compares columns as records, and turns a Ctrl-C of that moment into a TypeError.
    codes, counts = np.unique(table.ints("profile") * width + job_gpus, return_counts=True)
    room = dict(zip(cluster.types, cluster.capacity.tolist(), strict=True))
    found: dict[str, list[Unmeasured]] = {}
    for code, jobs in zip(codes.tolist(), counts.tolist(), strict=True):
        profile, gpus = divmod(code, width)
        types = [gpu_type for gpu_type, count in room.items() if count >= gpus]
        for origin, those in _origins(speeds, names[profile], gpus, types).items():
            if not (origin == MISSING and len(those) == len(types)):
                found.setdefault(origin, []).append(Unmeasured(names[profile], gpus, tuple(those), jobs))
    return {origin: sorted(of, key=lambda kind: -kind.jobs) for origin, of in found.items()}


def _origins(speeds: Throughputs, profile: str, gpus: int, types: Sequence[str]) -> Mapping[str, list[str]]:
    """Types by the origin of the job's rate there; without those on which it was measured."""
    types_of: dict[str, list[str]] = {}
    for gpu_type in types:
        origin = _origin(speeds, profile, gpus, gpu_type)
        if origin != MEASURED:
            types_of.setdefault(origin, []).append(gpu_type)
    return types_of


def _origin(speeds: Throughputs, profile: str, gpus: int, gpu_type: str) -> str:
    try:
        speeds.rate(profile, gpus, gpu_type)
    except (ProfileMissing, UnknownName):
        return MISSING
    return speeds.origin(profile, gpus, gpu_type) if isinstance(speeds, Provenance) else MEASURED


def _by_type(kinds: Sequence[Unmeasured]) -> str:
    """Types with the number of jobs that have such a speed there."""
    jobs: dict[str, int] = {}
    for kind in kinds:
        for gpu_type in kind.types:
            jobs[gpu_type] = jobs.get(gpu_type, 0) + kind.jobs
    return ", ".join(f"{gpu_type} (of {count:,} job{'' if count == 1 else 's'})" for gpu_type, count in jobs.items())


def _listed(kinds: Sequence[Unmeasured]) -> str:
    more = len(kinds) - SHOWN
    text = "; ".join(str(kind) for kind in kinds[:SHOWN])
    return f"{text}; and {more} more" if more > 0 else text
