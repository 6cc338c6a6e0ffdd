"""A submission that is larger than one message, in parts: entries that wait for entries of a part before find them."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import replace

from rota.core.job_arrays import array_size
from rota.core.job_spec import JobSpec
from rota.rpc.convert import spec_message

SUBMITTED_AT_ONCE = 10_000
"""Jobs in one submission, as the scheduler has it in its bounds ..."""
SUBMITTED_BYTES = 8 * 1024 * 1024
"""... and bytes, half of the largest message."""


def entry_heads(specs: Sequence[JobSpec], accepted: Sequence[int]) -> list[int]:
    """Numbers of the first jobs of the entries that were accepted so far."""
    sizes = itertools.accumulate((array_size(spec.array) for spec in specs), initial=0)
    return [accepted[position] for position in itertools.takewhile(lambda size: size < len(accepted), sizes)]


def in_part(spec: JobSpec, heads: Sequence[int]) -> JobSpec:
    """An entry of a later part: entries of parts before are jobs now, those of this part are counted from its start."""
    if not heads or min((*spec.after, *spec.after_any), default=0) >= 0:
        return spec

    def told(names: tuple[int, ...]) -> tuple[int, ...]:
        here = len(heads)
        return tuple(name if name >= 0 else name + here if -name > here else heads[-name - 1] for name in names)

    return replace(spec, after=told(spec.after), after_any=told(spec.after_any))


def parts_of(specs: Sequence[JobSpec]) -> Iterator[list[JobSpec]]:
    """Jobs as they fit into single messages; one part if there are none."""
    part: list[JobSpec] = []
    size = 0
    jobs = 0
    for spec in specs:
        bytes_of_job = spec_message(spec).ByteSize()
        more = array_size(spec.array)
        if part and (jobs + more > SUBMITTED_AT_ONCE or size + bytes_of_job > SUBMITTED_BYTES):
            yield part
            part = []
            size = 0
            jobs = 0
        part.append(spec)
        size += bytes_of_job
        jobs += more
    yield part
