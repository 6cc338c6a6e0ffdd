"""Where jobs come from: trace files in several formats, and generators."""

from rota.workloads.durations import with_durations
from rota.workloads.registry import EVERYTHING, Holds, TraceFormat, formats, workload, workloads
from rota.workloads.stream import Stream, materialise
from rota.workloads.traces import format_of, read_trace, write_trace

__all__ = [
    "EVERYTHING",
    "Holds",
    "Stream",
    "TraceFormat",
    "format_of",
    "formats",
    "materialise",
    "read_trace",
    "with_durations",
    "workload",
    "workloads",
    "write_trace",
]
