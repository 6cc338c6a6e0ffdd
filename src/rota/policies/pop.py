"""POP: solve k small problems instead of a large one (Narayanan et al., SOSP'21).

Job i goes to part i mod k; every part gets an equal number of the GPUs of each type, and the first parts one more until
none is left over (the published code drops the remainder). The answer is the union of the parts' answers. Parts know
nothing of earlier solves. Worth it for policies whose cost grows faster than the number of jobs.
"""

from __future__ import annotations

import numpy as np

from rota.core.allocation import Allocation, Options, SolveReport, Wishes
from rota.core.arrays import FloatArray, IntArray
from rota.core.errors import ConfigError
from rota.core.horizon import UNTIL_JOBS_CHANGE
from rota.core.view import View
from rota.policies.registry import policies


@policies.register("pop")
class Pop:
    """Another policy, on `parts` random-like parts of the jobs and an equal part of the GPUs for each."""

    def __init__(self, inner: str = "max-min-fairness-perf", parts: int = 2) -> None:
        if parts < 1:
            raise ConfigError(f"policy 'pop': parts={parts} must be at least 1")
        if policies.entry(inner).factory is Pop:
            raise ConfigError("policy 'pop': inner must be another policy")
        self.inner = inner
        self.parts = parts

    def allocate(self, view: View) -> Allocation:
        """The union of the inner policy's answers for all parts; a union has no objective of its own."""
        policy = policies.create(self.inner)
        owner = view.jobs % self.parts
        answers = [
            (keep, policy.allocate(view.part(keep, capacity)))
            for part, capacity in enumerate(_divide(view.capacity, self.parts))
            for keep in [np.flatnonzero(owner == part)]
            if len(keep)
        ]
        if not answers:
            return policy.allocate(view)
        if any(answer.order is not None for _, answer in answers):
            raise ConfigError(f"policy 'pop': {self.inner!r} answers with an order of jobs, which cannot be divided")
        share = np.zeros((len(view), len(view.capacity)))
        for keep, answer in answers:
            share[keep] = answer.share[: len(keep)]
        extras, together = _extras([(len(keep), answer) for keep, answer in answers])
        return Allocation(
            horizon=UNTIL_JOBS_CHANGE,
            jobs=view.jobs,
            types=view.types,
            share=np.concatenate([share, together]),
            extras=extras,
            wish=_wishes(answers, share.shape),
            traits=answers[0][1].traits,
            report=SolveReport(size=max(answer.report.size for _, answer in answers)),
        )


def _divide(capacity: IntArray, parts: int) -> IntArray:
    """[parts, T] GPUs of each part."""
    whole, over = np.divmod(capacity, parts)
    divided: IntArray = whole + (np.arange(parts)[:, None] < over)
    return divided


def _wishes(answers: list[tuple[IntArray, Allocation]], shape: tuple[int, ...]) -> Wishes | None:
    """The wishes of all parts, one menu after the other; jobs of a part without any have none."""
    which = np.full(shape, -1, dtype=np.int64)
    menus: list[Wishes] = []
    for keep, answer in answers:
        if answer.wish is not None:
            which[keep] = answer.wish.which + sum(len(menu.cpus) for menu in menus)
            menus.append(answer.wish)
    if not menus:
        return None
    return Wishes(
        np.concatenate([menu.cpus for menu in menus]),
        np.concatenate([menu.memory_gb for menu in menus]),
        np.concatenate([menu.speed for menu in menus]),
        which,
    )


def _extras(answers: list[tuple[int, Allocation]]) -> tuple[Options, FloatArray]:
    options = [answer.extras for _, answer in answers]
    first = np.concatenate([o.first for o in options])
    second = np.concatenate([o.second for o in options])
    gpus = np.concatenate([o.gpus for o in options])
    share = np.concatenate([answer.share[alone:] for alone, answer in answers])
    order = np.lexsort((second, first))
    return Options(first=first[order], second=second[order], gpus=gpus[order]), share[order]
