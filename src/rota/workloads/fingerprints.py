"""A digest of jobs, by which a run says on which ones it was made."""

from __future__ import annotations

import hashlib
from pathlib import Path

import numpy as np

from rota.core.jobs import Jobs
from rota.core.queue_columns import queue_fields


def fingerprint(trace: str | Path | None, jobs: Jobs | None) -> str | None:
    """A digest of the jobs that were handed in."""
    digest = hashlib.sha256()
    if trace is not None:
        digest.update(Path(trace).read_bytes())
    elif jobs is not None:
        digest.update(repr((jobs.profiles, jobs.tenants)).encode())
        if jobs.gpu_types is not None:
            digest.update(repr((jobs.gpu_types.allowed_sets(), jobs.gpu_types.recorded_names())).encode())
        if jobs.queue is not None:
            digest.update(
                repr((queue_fields(jobs.queue), None if jobs.names is None else jobs.names.tolist())).encode()
            )
        for column in jobs.columns().values():
            digest.update(np.ascontiguousarray(column).tobytes())
    else:
        return None
    return digest.hexdigest()
