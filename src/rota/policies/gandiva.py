"""Random packing under pressure (Gandiva, OSDI'18, as modelled by Gavel).

While all jobs fit (GPUs wanted <= GPUs there), nobody shares and every job gets an equal part. Otherwise jobs of equal
size are paired at random; a pair stays as long as both members are there and its normalised throughput, the sum over
types and members of shared / alone, is at least 1 (0 if any shared rate is 0). Every scheduled combination gets an
equal part of each type.

The pairs and the state of the random generator are carried from one allocation to the next in its state.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any

import numpy as np

from rota.core.allocation import NO_OPTIONS, Allocation, Options, Traits
from rota.core.arrays import FloatArray, IntArray
from rota.core.horizon import UNTIL_JOBS_CHANGE
from rota.core.view import View
from rota.policies.isolated import equal_shares
from rota.policies.registry import policies


@policies.register("gandiva", from_run=("seed",))
class Gandiva:
    """Equal parts; jobs are packed at random in pairs when GPUs are short."""

    def __init__(self, seed: int = 0) -> None:
        self._seed = seed

    def allocate(self, view: View) -> Allocation:
        """Equal shares of all combinations that are scheduled."""
        state = view.previous.state if view.previous is not None else {}
        rng = generator_of(self._seed, state)
        kept = self._keep(view, state.get("pairs", []))
        traits = Traits(packs=True, pairs_fill=True)
        crowded = int(view.gpus.sum()) > int(view.capacity.sum())
        if not crowded:
            share = equal_shares(view.capacity, view.gpus, len(view))
            saved = {"pairs": kept, "random": rng.getstate()}
            return Allocation(
                horizon=UNTIL_JOBS_CHANGE, jobs=view.jobs, types=view.types, share=share, traits=traits, state=saved
            )
        pairs = kept + self._draw(view, kept, rng)
        share, extras = _combinations(view, pairs)
        saved = {"pairs": pairs, "random": rng.getstate()}
        return Allocation(
            horizon=UNTIL_JOBS_CHANGE,
            jobs=view.jobs,
            types=view.types,
            share=share,
            extras=extras,
            traits=traits,
            state=saved,
        )

    def _keep(self, view: View, pairs: list[tuple[int, int]]) -> list[tuple[int, int]]:
        """Pairs whose members are still here and gain from sharing."""
        if not pairs:
            return []
        at = view.position(np.array(pairs, dtype=np.int64).ravel()).reshape(-1, 2)
        here = np.flatnonzero((at >= 0).all(axis=1))
        good = here[_gain(view, at[here]) >= 1]
        return [pairs[k] for k in good.tolist()]

    def _draw(self, view: View, kept: list[tuple[int, int]], rng: random.Random) -> list[tuple[int, int]]:
        """Random pairs among jobs without a partner; a draw of unequal sizes is lost."""
        taken = {job for pair in kept for job in pair}
        free = [(j, g) for j, g in zip(view.jobs.tolist(), view.gpus.tolist(), strict=True) if j not in taken]
        pairs = []
        for _ in range(len(free)):
            if len(free) <= 1:
                break
            (a, size), (b, other) = chosen = rng.sample(free, 2)
            if size == other:
                for job in chosen:
                    free.remove(job)
                pairs.append((min(a, b), max(a, b)))
        return pairs


def generator_of(seed: int, state: Mapping[str, Any]) -> random.Random:
    """The generator where the last allocation left it."""
    rng = random.Random(seed)
    if "random" in state:
        version, words, gauss = state["random"]
        rng.setstate((version, tuple(words), gauss))
    return rng


def _gain(view: View, at: IntArray) -> FloatArray:
    """[P] sum of normalised throughputs of each pair over all types; 0 if the two cannot share on one of them."""
    groups = view.job_class[at]
    one = groups[:, 0]
    two = groups[:, 1]
    shared = np.stack([view.classes.pair[one, two], view.classes.pair[two, one]], axis=1)
    able = (shared != 0).all(axis=(1, 2))
    alone = view.classes.throughput[groups]
    parts = np.divide(shared, alone, out=np.zeros_like(shared), where=able[:, None, None])
    total: FloatArray = parts.reshape(len(at), 2 * parts.shape[2]).sum(axis=1)
    return total


def _combinations(view: View, pairs: list[tuple[int, int]]) -> tuple[np.ndarray[Any, Any], Options]:
    """Equal shares of pairs and of the jobs that stayed alone."""
    count = len(view)
    share = np.zeros((count + len(pairs), len(view.types)))
    single = np.ones(count, dtype=np.bool_)
    extras = NO_OPTIONS
    scheduled = count - len(pairs)
    if pairs:
        ids = np.array(pairs, dtype=np.int64)
        at = view.position(ids.ravel()).reshape(-1, 2)
        single[at.ravel()] = False
        gpus = view.gpus[at[:, 0]]
        extras = Options(first=ids[:, 0], second=ids[:, 1], gpus=gpus)
        share[count:] = equal_shares(view.capacity, gpus, scheduled)
    share[:count][single] = equal_shares(view.capacity, view.gpus[single], scheduled)
    return share, extras
