"""A trace without what tells whose it is.

Tenants and commands get pseudonyms: numbers in order of appearance, which are stable inside one
file, or, with a key, the beginning of a keyed hash (HMAC-SHA256), which is the same in every file
made with that key and cannot be undone without it. Names of jobs, working directories and steps
arguments are removed. The first job arrives at 0. Times can be rounded; numbers of GPUs, requests, weights and
deadlines stay. It is no proof of anonymity: who knows that somebody ran a job of 512 GPUs for
exactly 91 hours will find it, unless times are rounded coarsely.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from rota.core.errors import ConfigError
from rota.core.jobs import Jobs, Launch, row_names
from rota.core.queue_columns import QueueColumns, texts_or_tuples
from rota.workloads.sampling import shifted

DIGITS = 10
"""Hexadecimal digits of a keyed pseudonym: among 10,000 names two collide once in 20,000 keys."""


def anonymize(
    jobs: Jobs,
    *,
    key: str | None = None,
    models: bool = False,
    round_s: float | None = None,
) -> Jobs:
    """The same jobs under pseudonyms.

    Those of models too if asked for, though then no catalogue knows them.
    """
    changed = shifted(jobs)
    if round_s is not None:
        changed = _rounded(changed, round_s)
    hidden = pseudonyms("command", [launch.command for launch in jobs.launches], key)
    started = zip(jobs.launches, hidden, strict=True)
    return replace(
        changed,
        names=None if jobs.queue is None else texts_or_tuples(row_names(len(jobs)).tolist()),
        queue=_hidden_queue(jobs),
        tenants=tuple(jobs.tenants if jobs.tenants == ("default",) else pseudonyms("tenant", jobs.tenants, key)),
        launches=tuple(Launch(name, "", "", launch.needs_data_dir) for launch, name in started),
        profiles=tuple(pseudonyms("model", jobs.profiles, key)) if models else jobs.profiles,
    )


def _hidden_queue(jobs: Jobs) -> QueueColumns | None:
    """Jobs before others by their numbers, and arrays without their names."""
    if jobs.queue is None:
        return None
    rows = row_names(len(jobs)).tolist()
    names = rows if jobs.names is None else jobs.names.tolist()
    arrays = sorted({name for name in jobs.queue.array if name})
    hidden = {name: f"array-{number}" for number, name in enumerate(arrays, 1)}
    return jobs.queue.renamed(dict(zip(names, rows, strict=True)), hidden)


def pseudonyms(kind: str, names: Sequence[str], key: str | None) -> list[str]:
    """One for each name, equal for equal names; nothing stays nothing."""
    if key == "":
        raise ConfigError("the key is empty; give a secret text, or none at all")
    if key is None:
        numbers: dict[str, int] = {}
        for name in names:
            if name:
                numbers.setdefault(name, len(numbers) + 1)
        return [f"{kind}-{numbers[name]}" if name else "" for name in names]
    return [f"{kind}-{_hash(key, kind, name)}" if name else "" for name in names]


def _hash(key: str, kind: str, name: str) -> str:
    return hmac.new(key.encode(), f"{kind}\0{name}".encode(), hashlib.sha256).hexdigest()[:DIGITS]


def _rounded(jobs: Jobs, unit: float) -> Jobs:
    """Arrivals down, durations to the nearest multiple but not to nothing.

    Steps follow durations.
    """
    if not 0 < unit < np.inf:
        raise ConfigError(f"round = {unit!r} is not a number of seconds; give one > 0, e.g. 60")
    submitted = np.floor(jobs.submitted / unit) * unit
    duration = np.maximum(np.rint(jobs.duration / unit), 1.0) * unit
    scaled = jobs.total_steps * duration / jobs.duration
    steps = np.where(np.isnan(duration), jobs.total_steps, scaled)
    deadline = submitted + jobs.slo * duration
    return replace(
        jobs,
        submitted=submitted,
        duration=duration,
        total_steps=steps,
        deadline=np.where(np.isnan(deadline), np.inf, deadline),
    )
