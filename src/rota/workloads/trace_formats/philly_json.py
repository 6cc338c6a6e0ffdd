"""The Philly log as it was published.

`cluster_job_log`, a JSON list of jobs (Jeon et al., USENIX ATC 2019).

Used are submitted_time, vc (user where it is missing) as the tenant, and attempts with start_time,
end_time and detail, a list of machines with their gpus. An attempt without a start or an end, that
took no time, or that had no GPUs does not count. A job takes as long as its attempts together, on
the GPUs of the last attempt that counts; one without any is left out. With failed=drop so is every
job whose status is not Pass. The rest is as in philly-csv.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import numpy as np

from rota.core.errors import TraceError
from rota.core.jobs import Jobs
from rota.core.parsing import parse_json
from rota.workloads.assign import Assignment, Logged
from rota.workloads.files import TraceFile
from rota.workloads.logs import read_only
from rota.workloads.philly import seconds
from rota.workloads.registry import EVERYTHING, formats
from rota.workloads.settings import chosen


@formats.register("philly-json")
class PhillyJsonTrace:
    """The published Philly log: a JSON list of jobs with attempts.

    Only read; models are given by a rule.
    """

    holds = EVERYTHING

    def recognises(self, first_line: str) -> bool:
        """Whether this line begins a JSON list of objects."""
        rest = first_line.strip()
        return rest.startswith("[") and rest[1:].lstrip()[:1] in {"", "{"}

    def __init__(
        self,
        *,
        assign: str = "mix",
        assign_seed: int | None = None,
        profiles: str | None = None,
        reference: str | None = None,
        failed: str = "keep",
    ) -> None:
        self._assignment = Assignment(assign, assign_seed, profiles, reference)
        self._failed = chosen("failed", failed, ("keep", "drop"))

    def read(self, file: TraceFile) -> Jobs:
        """The jobs of a log."""
        jobs = []
        idle = 0
        for number, job in enumerate(_parsed(file.text, file.path)):
            try:
                row = _row(job)
            except ValueError as problem:
                what, _, fix = str(problem).partition("; ")
                line = _line(file.text, number)
                file.problems.error(line, f"job {number} of the list: {what}", fix)
                continue
            if row is None or (self._failed == "drop" and job.get("status") != "Pass"):
                idle += 1
            else:
                jobs.append(row)
        if idle:
            message = f"{idle:,} jobs have no attempt that counts, or failed, and are left out"
            file.problems.remark(1, message)
        if not jobs:
            fix = "give at least one with an attempt that did"
            raise TraceError(file.path, 1, f"no job of the log has run; {fix}")
        submitted, duration, gpus, tenants = zip(*jobs, strict=True)
        return self._assignment.jobs(
            Logged(
                submitted=np.array(submitted),
                duration=np.array(duration),
                gpus=np.array(gpus, dtype=np.int64),
                tenants=tenants,
            )
        )

    def write(self, jobs: Jobs, *, exact: bool) -> Iterator[str]:
        """Refuses: a log has neither models nor steps."""
        raise read_only("philly-json", jobs)


def _parsed(text: str, path: str) -> list[Any]:
    try:
        document = parse_json(text)
    except json.JSONDecodeError as problem:
        fix = "is the file complete?"
        raise TraceError(path, problem.lineno, f"not JSON: {problem.msg}; {fix}") from None
    except ValueError as problem:
        raise TraceError(path, 1, f"the JSON cannot be used: {problem}; give a list of jobs") from None
    if not isinstance(document, list):
        raise TraceError(path, 1, f"a JSON {type(document).__name__} instead of a list of jobs")
    return document


def _row(job: Any) -> tuple[float, float, int, str] | None:
    """Submission, duration, GPUs and tenant of a job; None if it did not run.

    ValueError says what is wrong.
    """
    if not isinstance(job, dict):
        raise ValueError(f"{job!r} is not an object")
    ran = [attempt for attempt in map(_attempt, _list(job, "attempts")) if attempt is not None]
    if not ran:
        return None
    tenant = job.get("vc") or job.get("user") or "default"
    return _time(job, "submitted_time"), sum(d for d, _ in ran), ran[-1][1], str(tenant)


def _attempt(attempt: Any) -> tuple[float, int] | None:
    """Seconds and GPUs of an attempt; None if it does not count."""
    if not isinstance(attempt, dict):
        raise ValueError(f"attempt {attempt!r} is not an object")
    if any("None" in str(attempt.get(end)) for end in ("start_time", "end_time")):
        return None
    duration = _time(attempt, "end_time") - _time(attempt, "start_time")
    gpus = 0
    for machine in _list(attempt, "detail"):
        if not isinstance(machine, dict):
            raise ValueError(f"detail {machine!r} is not an object")
        gpus += len(_list(machine, "gpus"))
    return (duration, gpus) if duration > 0 and gpus > 0 else None


def _list(owner: dict[str, Any], name: str) -> list[Any]:
    value = owner.get(name)
    if not isinstance(value, list):
        raise ValueError(f"{name} = {value!r} is not a list")
    return value


def _time(owner: dict[str, Any], name: str) -> float:
    at = seconds(owner.get(name))
    if at is None:
        fix = "write it as 2017-10-09 07:01:55"
        raise ValueError(f"{name} = {owner.get(name)!r} is not a time; {fix}")
    return at


def _line(text: str, number: int) -> int:
    """On which line an entry of the list begins.

    Only looked for when there is something to say about it.
    """
    decoder = json.JSONDecoder()
    at = text.index("[") + 1
    for _ in range(number + 1):
        while text[at] in " \t\r\n,":
            at += 1
        start = at
        _, at = decoder.raw_decode(text, at)
    return text.count("\n", 0, start) + 1
