"""What the queue of a scheduler asks of a pool: GPUs for jobs that wait for nothing else."""

from __future__ import annotations

from rota.deploy.control import Client
from rota.deploy.providers.pool import Demand
from rota.rpc import rota_pb2 as pb

_WAITING = ("queued", "waiting")
_NOT_FOR_GPUS = frozenset({
    "back-off", "secrets-missing", "held", "dependency", "array-limit", "tenant-limit", "checkpoint-limit", "quota",
})  # fmt: skip
"""Why jobs wait that more GPUs would not start."""
_MOST_JOBS = 2000
"""Jobs that wait and are looked at."""


def demand_of(client: Client, gpu_type: str) -> Demand:
    """What waits for GPUs of a type; of which type pilots are is not always known (empty). Raises RotaError."""
    jobs = client.jobs(_WAITING, limit=_MOST_JOBS)
    gpus = [job.spec.gpus for job in jobs if job.reason_code not in _NOT_FOR_GPUS and _may_run(job.spec, gpu_type)]
    return Demand(waiting_gpus=sum(gpus), largest=max(gpus, default=0))


def _may_run(spec: pb.JobSpec, gpu_type: str) -> bool:
    if not gpu_type:
        return True
    return gpu_type not in spec.exclude_types and (not spec.types or gpu_type in spec.types)
