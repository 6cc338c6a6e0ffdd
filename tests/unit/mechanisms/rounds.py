"""Playing rounds with a mechanism and fixed shares."""

import numpy as np

from builders import a_state, assert_fits, ids, shares, some_jobs
from rota.core.events import Allocated, Planned, RoundsRan
from rota.core.placement import Plan
from rota.core.rules import Rules
from rota.mechanisms.registry import build

ROUND = 360.0


def promised(rows, *, jobs=None, at=0.0, pairs=(), traits=None, **parts):
    """A state in which the jobs (as many as rows) have been promised these shares."""
    state = a_state(jobs if jobs is not None else some_jobs(len(rows), steps=1e12), **parts)
    state.apply(Allocated(at=at, allocation=shares(state.view(at), rows, pairs=pairs, traits=traits)))
    return state


def play(state, rounds, *, mechanism="proportional", check=None):
    """Turns by job and type over so many full rounds; `check(turns, rounds so far)` looks after each."""
    placer = build(mechanism, state.rules, 0)
    turns = np.zeros((len(state), len(state.cluster.types)))
    for number in range(rounds):
        view = state.view(number * ROUND)
        placement = placer.place(view, state.allocation)
        assert_fits(placement, view)
        turn(state, placement, view.now)
        np.add.at(turns, (placement.first, placement.type), 1)
        shared = placement.second >= 0
        np.add.at(turns, (placement.second[shared], placement.type[shared]), 1)
        if check is not None:
            check(turns, number + 1)
    return turns


def turn(state, placement, now):
    """One whole round of a placement, without any steps."""
    nothing = np.zeros(len(placement))
    state.apply(Planned(at=now, plan=Plan(round=state.round, start=now, placement=placement)))
    state.apply(
        RoundsRan(
            at=now + ROUND,
            start=now,
            rounds=1,
            steps=nothing,
            partner_steps=nothing,
            seconds=np.full(len(placement), ROUND),
            lost=ids(),
        )
    )


def random_shares(rng, gpus, capacity):
    """Shares that use up every type on which somebody has one, and nobody's time more than once."""
    rows = rng.random((len(gpus), len(capacity))) * (rng.random((len(gpus), len(capacity))) < 0.7)
    rows /= np.maximum(1, rows.sum(axis=1))[:, None]
    return rows * np.minimum(1, capacity / np.maximum(gpus @ rows, 1e-9))


CALM = Rules(stay_rounds=0.0)
