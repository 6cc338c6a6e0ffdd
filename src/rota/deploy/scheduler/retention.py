"""Which jobs that are over leave memory. They stay in the journal and are read from there (`archive`)."""

from __future__ import annotations

from rota.deploy.scheduler.options import Retention
from rota.deploy.scheduler.records import Job
from rota.deploy.scheduler.registry import Registry

_MOST_AT_ONCE = 1000


def jobs_to_archive(registry: Registry, retention: Retention, now: float, time_scale: float) -> list[Job]:
    """Jobs of which nothing runs any more, the first that ended first: over for long enough, or there are too many."""
    too_many = len(registry.ended) - retention.keep_finished_jobs
    ended_before = now - retention.keep_finished_s * time_scale
    needed = registry.queue.dependencies.names
    jobs: list[Job] = []
    for position, job in enumerate(registry.ended.values()):
        if len(jobs) == _MOST_AT_ONCE or (position >= too_many and job.ended > ended_before):
            break
        if job.attempt is None and job.id not in needed and job.array not in needed:
            jobs.append(job)
    return jobs
