"""A scheduler takes its folder of checkpoints, and writes down that it did."""

from __future__ import annotations

import itertools
from pathlib import Path

from rota.deploy.events import CheckpointsClaimed
from rota.deploy.scheduler.checkpoint_folder import Claim, StateFile, claim
from rota.deploy.scheduler.journal import Journal
from rota.deploy.scheduler.options import Options
from rota.deploy.scheduler.registry import Registry

_CHECKPOINTS_LOOKED_FOR = 1000


def claimed_folder(options: Options, journal: Journal, registry: Registry) -> Claim | None:
    """The folder that the options name; None if they name none. Raises ConfigError if it is somebody else's."""
    if not options.checkpoints:
        return None
    saved = (job.checkpoint for job in registry.jobs.values() if job.checkpoint)
    state = StateFile(
        id=journal.id,
        path=journal.path.absolute(),
        next_job=registry.next_job,
        checkpoints=frozenset(itertools.islice(saved, _CHECKPOINTS_LOOKED_FOR)),
    )
    return claim(Path(options.checkpoints), state, take_over=options.claim_checkpoints)


def claim_to_record(registry: Registry, claimed: Claim, now: float) -> CheckpointsClaimed | None:
    """The event that says so; None if the journal has it already."""
    known = (registry.checkpoints, registry.own_checkpoints_from)
    if known == (str(claimed.folder), claimed.own_from) and claimed.next_job <= registry.next_job:
        return None
    folder = str(claimed.folder)
    return CheckpointsClaimed(at=now, folder=folder, own_from=claimed.own_from, next_job=claimed.next_job)
