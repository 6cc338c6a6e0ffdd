"""Whose the folder of checkpoints is, and what may be removed from it.

In the folder, `<job>/<attempt>/` is what an attempt saved. Job numbers begin at 0 in every state file, so two of them
on one folder would write into each other's checkpoints. Therefore the folder has a mark with the id of its state file;
another state file refuses it. Only what belongs to jobs of the own state file is ever removed.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rota.core.errors import ConfigError
from rota.core.files import write_text
from rota.core.trees import remove_tree
from rota.deploy.scheduler.registry import Registry
from rota.deploy.structured_logs import about

log = logging.getLogger(__name__)

MARK = "rota-checkpoints.json"
_FORMAT = 1
_REMOVING = ".removing-"


@dataclass(frozen=True, slots=True, kw_only=True)
class StateFile:
    """The state file that wants to use a folder, and what it knows of it."""

    id: str
    path: Path
    next_job: int
    checkpoints: frozenset[str]
    """Some that its jobs have saved, relative to the folder."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """A folder that is ours."""

    folder: Path
    own_from: int
    """Folders of jobs with lower numbers that the scheduler does not know may be somebody else's."""
    next_job: int
    """Job numbers go on from here, so that no new job finds its folder in use."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobsOfFolder:
    """What the scheduler knows about jobs, at one moment."""

    next_job: int
    own_from: int
    not_over: frozenset[int]
    ended: Mapping[int, float]
    """Engine seconds at which those that are over ended."""


def claim(folder: Path, state: StateFile, *, take_over: bool = False) -> Claim | None:
    """Make a folder ours, or find that it is. ConfigError if it is another's; None if it cannot be reached from here.

    With `take_over` it becomes ours in any case; what is in it stays, and new jobs get numbers that are not in it.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        mark = _mark(folder)
        jobs = job_folders(folder)
    except OSError as error:
        log.warning("%s cannot be reached from here (%s): no checkpoint is ever removed", folder, error.strerror)
        return None
    _check_owner(folder, mark, state, in_use=bool(jobs), take_over=take_over)
    next_job = max([state.next_job, *(number + 1 for number in jobs)])
    ours = mark is not None and mark.get("journal") == state.id
    own_from = int(mark.get("own_from", next_job)) if mark is not None and ours else next_job if jobs else 0
    if not ours or mark is None or mark.get("state") != str(state.path):
        values = {"format": _FORMAT, "journal": state.id, "state": str(state.path), "own_from": own_from}
        try:
            write_text(folder / MARK, json.dumps(values, indent=1) + "\n")
        except OSError as error:
            log.warning("%s cannot be marked (%s): no checkpoint is ever removed", folder, error.strerror)
            return None
    return Claim(folder=folder, own_from=own_from, next_job=next_job)


def _check_owner(
    folder: Path, mark: Mapping[str, Any] | None, state: StateFile, *, in_use: bool, take_over: bool
) -> None:
    advice = (
        "Give another folder with --checkpoints, or take this one over with --claim-checkpoints: what is in it stays, "
        "job numbers go on behind those in it, and the other state file is refused from then on."
    )
    if take_over:
        return
    if mark is not None and mark.get("journal") != state.id:
        owner = mark.get("state", "unknown")
        raise ConfigError(f"the checkpoints in {folder} belong to another state file ({owner}). {advice}")
    if mark is None and in_use and not any((folder / saved).exists() for saved in state.checkpoints):
        raise ConfigError(f"{folder} holds checkpoints, and none of a job of {state.path}. {advice}")


def _mark(folder: Path) -> Mapping[str, Any] | None:
    try:
        mark = json.loads((folder / MARK).read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except ValueError:
        return {"journal": "", "state": "unknown: the mark is damaged"}
    known: Mapping[str, Any] = mark if isinstance(mark, dict) else {"journal": ""}
    if int(known.get("format", _FORMAT)) > _FORMAT:
        raise ConfigError(f"{folder / MARK} was written by a newer version of Rota; start that one")
    return known


def job_folders(folder: Path) -> list[int]:
    """Numbers of the jobs that have a folder there. Links are none."""
    names = [entry.name for entry in folder.iterdir() if entry.is_dir() and not entry.is_symlink()]
    return sorted(int(name) for name in names if name.isdecimal() and name == str(int(name)))


def removable(folders: Iterable[int], jobs: JobsOfFolder, ended_before: float) -> list[int]:
    """Jobs whose checkpoints may go: over for long enough, or unknown and certainly once ours."""
    found = []
    for number in folders:
        if number in jobs.not_over:
            continue
        ended = jobs.ended.get(number)
        forgotten = ended is None and jobs.own_from <= number < jobs.next_job
        if forgotten or (ended is not None and ended < ended_before):
            found.append(number)
    return found


def is_ours(folder: Path, journal_id: str) -> bool:
    """Whether the folder still has our mark: it may have been mounted over, or taken over."""
    try:
        mark = _mark(folder)
    except (OSError, ConfigError):
        return False
    return mark is not None and mark.get("journal") == journal_id


def remove(folder: Path, numbers: Iterable[int]) -> int:
    """Remove the folders of jobs; how many there were. Under another name first, so that none is ever half there."""
    count = 0
    for number in numbers:
        place = folder / str(number)
        away = folder / f"{_REMOVING}{number}"
        try:
            if place.is_symlink():
                continue
            place.rename(away)
            count += 1
        except OSError as error:
            log.warning("cannot remove the checkpoints of job %d: %s", number, error, extra=about(job=number))
    for away in folder.glob(f"{_REMOVING}*"):
        if not away.is_symlink():
            remove_tree(away)
    return count


def jobs_in_memory(registry: Registry) -> JobsOfFolder:
    """What the registry knows of jobs whose checkpoints may be in the folder."""
    over = {number: job.ended for number, job in registry.ended.items() if job.attempt is None}
    return JobsOfFolder(
        next_job=registry.next_job,
        own_from=registry.own_checkpoints_from,
        not_over=frozenset(registry.jobs.keys() - over.keys()),
        ended=over,
    )
