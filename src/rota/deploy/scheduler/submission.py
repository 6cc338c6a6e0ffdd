"""From the entries of a submission to jobs with numbers: arrays become their jobs, entries that name others find them.

Pure. Entries may wait for earlier entries of the same submission only, and for jobs that are there already, so nothing
ever waits for itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from rota.core.errors import ConfigError
from rota.core.job_arrays import array_size
from rota.core.job_spec import JobSpec
from rota.deploy.scheduler.node_offers import Refused

MOST_JOBS = 10_000
"""Jobs in one submission, those of arrays counted one by one."""


@dataclass(frozen=True, slots=True)
class NumberedJob:
    """A job with the number that it will have."""

    number: int
    spec: JobSpec
    array: int
    """Number of the first job of its array; -1: it is in none."""


def numbers_of_jobs(specs: Sequence[JobSpec]) -> list[int]:
    """How many jobs each of the entries is. Raises ConfigError if there are too many."""
    sizes = [array_size(spec.array) for spec in specs]
    if sum(sizes) > MOST_JOBS:
        raise ConfigError(f"these are {sum(sizes):,} jobs; give at most {MOST_JOBS:,} in one submission")
    return sizes


def numbered_jobs(specs: Sequence[JobSpec], first: int) -> list[NumberedJob]:
    """All jobs of a submission, in order. Raises ConfigError if there are too many, or one waits for a later one."""
    sizes = numbers_of_jobs(specs)
    jobs: list[NumberedJob] = []
    heads: list[int] = []
    for spec, size in zip(specs, sizes, strict=True):
        number = first + len(jobs)
        told = _with_numbers(spec, heads, first)
        array = number if spec.array else -1
        jobs += [NumberedJob(number + position, told, array) for position in range(size)]
        heads.append(number)
    return jobs


def _with_numbers(spec: JobSpec, heads: Sequence[int], first: int) -> JobSpec:
    """The entry with numbers of jobs in the place of numbers of entries; `heads` are the first jobs of those before."""
    if not (spec.after or spec.after_any):
        return spec
    after = _numbers(spec, spec.after, heads, first)
    after_any = _numbers(spec, spec.after_any, heads, first)
    return replace(spec, after=after, after_any=tuple(number for number in after_any if number not in after))


def _numbers(spec: JobSpec, names: Sequence[int], heads: Sequence[int], first: int) -> tuple[int, ...]:
    for name in names:
        if name >= first:
            raise Refused("NOT_FOUND", f"there is no job {name}")
        if name < 0 and -name > len(heads):
            raise ConfigError(
                f"{spec.label} waits for entry {-name} of its submission, and is entry {len(heads) + 1} itself; "
                "an entry can only wait for those before it"
            )
    return tuple(dict.fromkeys(heads[-name - 1] if name < 0 else name for name in names))
