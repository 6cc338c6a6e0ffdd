"""Which jobs that are over leave memory. They stay in the journal and are read from there (`archive`)."""

from __future__ import annotations

from rota.core.job_spec import bytes_of
from rota.deploy.scheduler.options import Retention
from rota.deploy.scheduler.records import Job
from rota.deploy.scheduler.registry import Registry

_MOST_AT_ONCE = 1000
_MOST_BYTES_AT_ONCE = 8e6


def jobs_to_archive(registry: Registry, retention: Retention, now: float, time_scale: float) -> list[Job]:
    """Jobs of which nothing runs any more, the first that ended first.

    They are over for long enough, or there are too many, or they are too large together.
    """
    too_many = len(registry.ended) - retention.keep_finished_jobs
    too_large = registry.ended_bytes - retention.keep_finished_bytes
    ended_before = now - retention.keep_finished_s * time_scale
    needed = registry.queue.dependencies.names
    jobs: list[Job] = []
    taken = 0
    for position, job in enumerate(registry.ended.values()):
        stays = position >= too_many and taken >= too_large and job.ended > ended_before
        if stays or len(jobs) == _MOST_AT_ONCE or taken >= _MOST_BYTES_AT_ONCE:
            break
        if job.attempt is None and job.id not in needed and job.array not in needed:
            jobs.append(job)
            taken += bytes_of(job.spec)
    return jobs
