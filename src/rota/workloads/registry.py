"""Trace formats and workloads by name.

A new one is a file in `trace_formats/` or `generators/`, or an entry point.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Protocol

from rota.core.jobs import Jobs, Source
from rota.core.registry import Registry
from rota.workloads.files import TraceFile


@dataclass(frozen=True, slots=True, kw_only=True)
class Holds:
    """What a trace format has a place for, beside the arrival, model, GPUs and steps of a job."""

    durations: bool = False
    tenants: bool = False
    commands: bool = False
    requests: bool = False
    """CPUs and memory that jobs ask for."""
    types: bool = False
    """Types of GPU on which jobs may run or ran, and their own names."""
    queue: bool = False
    """Jobs before others, arrays and time limits."""


EVERYTHING = Holds(durations=True, tenants=True, commands=True, requests=True, types=True, queue=True)


class TraceFormat(Protocol):
    """How jobs are written in a file. Settings of a format are the keywords of its constructor."""

    @property
    def holds(self) -> Holds:
        """What is not lost when jobs are written in this format; a plain attribute of the class will do."""

    def recognises(self, first_line: str) -> bool:
        """Whether a trace that begins with this line is in this format."""

    def read(self, file: TraceFile) -> Jobs:
        """The jobs of a trace.

        Whatever is wrong is told to `file.problems`, which may raise it or let the reader go on
        with the next line; a TraceError is for what leaves nothing to go on with.
        """

    def write(self, jobs: Jobs, *, exact: bool) -> Iterator[str] | Iterator[bytes]:
        """The contents of a file, in pieces; `exact` keeps every float to the last bit."""


formats: Registry[TraceFormat] = Registry(
    "trace format",
    "rota.workloads.trace_formats",
    "rota.trace_formats",
)
workloads: Registry[Source] = Registry("workload", "rota.workloads.generators", "rota.workloads")


def workload(name: str, **settings: Any) -> Source:
    """A source of generated jobs; settings may be text, as from a command line."""
    return workloads.create(name, **settings)
