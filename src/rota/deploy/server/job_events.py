"""Events about one job: those that name it alone, and those that name several, cut down to it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

_COLUMNS = {
    "JobsFinished": ("finished_at",),
    "JobsRejected": (),
    "JobsDropped": (),
    "JobsParked": (),
    "JobsReturned": (),
    "JobsArchived": (),
}
"""Events with a list of jobs, and their fields with a value for each of them. All others are the same for all."""


def narrowed(lines: Iterable[tuple[int, str]], job: int) -> list[tuple[int, str]]:
    """(number, JSON) of the events that concern a job. What they say about other jobs is left out."""
    found: list[tuple[int, str]] = []
    for number, body in lines:
        if str(job) not in body:
            continue
        fields = json.loads(body)
        if fields.get("job") == job:
            found.append((number, body))
        elif (own := _own_part(fields, job)) is not None:
            found.append((number, json.dumps(own, separators=(",", ":"))))
    return found


def _own_part(fields: Mapping[str, Any], job: int) -> dict[str, Any] | None:
    """An event about several jobs as if it were about one of them; None if it is not about it.

    It names the job as those do which are about one job only, so that it is shown to whoever may see the job.
    """
    columns = _COLUMNS.get(str(fields.get("event")))
    jobs = fields.get("jobs")
    if columns is None or not isinstance(jobs, list) or job not in jobs:
        return None
    at = jobs.index(job)
    own = {name: [fields[name][at]] for name in columns if isinstance(fields.get(name), list)}
    return {**fields, **own, "jobs": [job], "job": job}
