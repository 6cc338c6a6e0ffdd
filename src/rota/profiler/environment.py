"""What a job under measurement is told through its environment: the contract with `rota.client` and `rota.data`.

| variable | read by | meaning |
|---|---|---|
| ROTA_JOB, ROTA_EPOCH, ROTA_RANK, ROTA_SOCKET | rota.client | as under an agent: the loop reports its steps |
| ROTA_STEPS | rota.client | how many steps at most; the loop goes through as many epochs as that takes |
| ROTA_REPLAY_ITEMS | rota.client | hand out the first batches again and again: the device alone |
| ROTA_CPUS, ROTA_MEMORY_GB | rota.data, the script | what the job has; the size of the cache follows |
| ROTA_DATA_FOLDER | rota.data | where the cache stays between two runs, so that the next one is warm |
| ROTA_DATA_REPORT | rota.data | folder for the size of data set and cache, and for counters |
| ROTA_DATA_MBPS | rota.data | read no faster than this |
| ROTA_BATCH_SIZE, ROTA_MAX_ITERATIONS | the script, if it likes | as given to `rota profile` |
"""

from __future__ import annotations

from pathlib import Path

from rota.data.dataset import FOLDER as CACHE_FOLDER
from rota.data.report import FOLDER as REPORT_FOLDER
from rota.profiler.cell import Cell, JobToProfile

ENDLESS = 10**12
REPLAYED = 4
"""Batches that are handed out again and again."""


def variables(job: JobToProfile, cell: Cell, socket: Path, cache: Path, report: Path) -> dict[str, str]:
    """What to add to the environment of a task."""
    steps = job.max_iterations or ENDLESS
    own = {
        **job.env,
        "PYTHONUNBUFFERED": "1",
        "ROTA_SOCKET": str(socket),
        "ROTA_STEPS": str(steps),
        "ROTA_WORLD_SIZE": "1",
        "ROTA_LOCAL_RANK": "0",
        "ROTA_STALLS": "on",
        CACHE_FOLDER: str(cache),
        REPORT_FOLDER: str(report),
        "RANK": "0",
        "WORLD_SIZE": "1",
        "LOCAL_RANK": "0",
        "MASTER_ADDR": job.master_addr,
        "MASTER_PORT": str(job.master_port),
    }
    if job.batch is not None:
        own["ROTA_BATCH_SIZE"] = str(job.batch)
    if job.max_iterations is not None:
        own["ROTA_MAX_ITERATIONS"] = str(job.max_iterations)
    if cell.replay:
        own["ROTA_REPLAY_ITEMS"] = str(REPLAYED)
    if cell.mbps is not None:
        own["ROTA_DATA_MBPS"] = f"{cell.mbps:g}"
    return own
