"""Priorities over any policy: levels are served in order, each by the policy on what those above it leave.

A ranking keeps its order within a level. Shares are worked out level by level, from the highest on: a level has the
GPUs by type that the shares above it do not take, in whole numbers. Mechanisms choose jobs level by level, too
(`mechanisms/registry.py`), so a job never waits for one of a lower priority that may be preempted.

Without priorities the policy answers as it is; but whoever arrives may have one, and then comes before those who are
there, so no answer outlasts an arrival.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from rota.core.allocation import Allocation, Options, Wishes
from rota.core.arrays import IntArray
from rota.core.events import JobsSubmitted
from rota.core.horizon import EVERY_ROUND
from rota.core.ports import Policy
from rota.core.tolerance import TOLERANCE
from rota.core.view import View


class ByPriority:
    """A policy that serves jobs of higher priority first."""

    def __init__(self, policy: Policy) -> None:
        self.policy = policy

    def allocate(self, view: View) -> Allocation:
        """The answer of the policy, level by level."""
        return _until_somebody_arrives(self._by_level(view))

    def _by_level(self, view: View) -> Allocation:
        priority = view.priority
        if priority is None or len(view) == 0 or int(priority.min()) == int(priority.max()):
            return self.policy.allocate(view)
        levels = [np.flatnonzero(priority == level) for level in np.unique(priority)[::-1].tolist()]
        first = self.policy.allocate(view.some_jobs(levels[0], view.capacity))
        if first.order is not None:
            return _sorted(self.policy.allocate(view), priority)
        capacity = _left(view, view.capacity, levels[0], first)
        answers = [first]
        for rows in levels[1:]:
            answers.append(self._level(view, rows, capacity))
            capacity = _left(view, capacity, rows, answers[-1])
        return _together(view, levels, answers)

    def _level(self, view: View, rows: IntArray, capacity: IntArray) -> Allocation:
        """The shares of a level; none if nothing is left for it."""
        part = view.some_jobs(rows, capacity)
        part.previous = None
        if part.accounts is not None and bool(np.any(part.accounts.share @ part.gpus > capacity + TOLERANCE)):
            part = view.part(rows, capacity)  # what the level had is more than is left: nothing of it is promised
        if int(capacity.sum()) == 0:
            nothing = np.zeros((len(rows), len(view.types)))
            return Allocation(jobs=part.jobs, types=view.types, share=nothing, horizon=EVERY_ROUND)
        return self.policy.allocate(part)


def _until_somebody_arrives(allocation: Allocation) -> Allocation:
    """The same answer, ended by arrivals: the policy may say that newcomers come last, and does not know priorities."""
    horizon = allocation.horizon
    if horizon.arrivals_end_it:
        return allocation
    return replace(allocation, horizon=horizon._replace(ended_by=horizon.ended_by | {JobsSubmitted}))


def _sorted(allocation: Allocation, priority: IntArray) -> Allocation:
    """A ranking with higher priorities first; its key alone does not say its order any more."""
    order = allocation.order
    assert order is not None  # it is a ranking
    by_level = order[np.argsort(-priority[order], kind="stable")]
    return replace(allocation, order=by_level, linear_key=None)


def _left(view: View, capacity: IntArray, rows: IntArray, allocation: Allocation) -> IntArray:
    """GPUs by type that the shares of a level leave, whole ones."""
    alone = len(rows)
    used = view.gpus[rows] @ allocation.share[:alone] + allocation.extras.gpus @ allocation.share[alone:]
    return np.maximum(np.floor(capacity - used + TOLERANCE), 0).astype(np.int64)


def _together(view: View, levels: list[IntArray], answers: list[Allocation]) -> Allocation:
    """One allocation of the answers for all levels; it holds as long as all of them do."""
    share = np.zeros((len(view), len(view.types)))
    for rows, answer in zip(levels, answers, strict=True):
        share[rows] = answer.share[: len(rows)]
    extras = [answer.extras for answer in answers]
    more = [answer.share[len(rows) :] for rows, answer in zip(levels, answers, strict=True)]
    pressing = [answer.pressing for answer in answers if answer.pressing is not None]
    traits = answers[0].traits
    ended_by = frozenset().union(*(answer.horizon.ended_by for answer in answers))
    until = min(answer.horizon.until for answer in answers)
    return Allocation(
        jobs=view.jobs,
        types=view.types,
        share=np.concatenate([share, *more]),
        extras=Options(
            first=np.concatenate([part.first for part in extras]),
            second=np.concatenate([part.second for part in extras]),
            gpus=np.concatenate([part.gpus for part in extras]),
        ),
        horizon=answers[0].horizon._replace(until=until, ended_by=ended_by),
        wish=_wishes(view, levels, answers),
        pressing=np.concatenate(pressing) if pressing else None,
        traits=replace(traits, packs=any(answer.traits.packs for answer in answers)),
        report=answers[0].report,
    )


def _wishes(view: View, levels: list[IntArray], answers: list[Allocation]) -> Wishes | None:
    """One menu of the menus of all levels."""
    known = [answer.wish for answer in answers if answer.wish is not None]
    if not known:
        return None
    which = np.full((len(view), len(view.types)), -1, dtype=np.int64)
    offset = 0
    for rows, answer in zip(levels, answers, strict=True):
        if answer.wish is not None:
            which[rows] = np.where(answer.wish.which >= 0, answer.wish.which + offset, -1)
            offset += len(answer.wish.cpus)
    return Wishes(
        cpus=np.concatenate([wish.cpus for wish in known]),
        memory_gb=np.concatenate([wish.memory_gb for wish in known]),
        speed=np.concatenate([wish.speed for wish in known]),
        which=which,
    )
