"""Column generation: which pairs of groups would improve a linear program, given its prices.

With n jobs there are some n^2/2 pairs per type, of which an optimum uses about n. The program
starts with few pairs; its duals price all others at once. The worth of a pair is a sum of one term
per member, so the best partner in a class is found once for every class it may meet, and pricing
costs (groups x classes x types), not (groups^2 x types).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rota.core.arrays import FloatArray, IntArray
from rota.core.view import View
from rota.opt.groups import JobGroups
from rota.opt.lp import Solution
from rota.opt.pairs import Pairs, useful_classes

IMPROVES = 1e-8
"""Worth above its cost, relative to the largest price, that makes a pair worth adding."""


@dataclass(frozen=True, slots=True, eq=False)
class PairSource:
    """All useful pairs of the groups, unlisted."""

    groups: JobGroups
    slices: tuple[tuple[int, int], ...]
    """Where the groups of each present class stand in `order`."""
    order: IntArray
    """Groups by class."""
    own: IntArray
    """[G] which of the present classes a group (in `order`) is of."""
    rate: FloatArray
    """[P, P, T] rate of the first of two present classes beside the second; 0 if that pair is of no
    use."""

    def improving(self, solution: Solution, reward: FloatArray) -> Pairs:
        """The best pair of every group, where it improves the program.

        Args:
            solution: of the program, for its prices of time and GPUs.
            reward: [G, T] worth of one step: value in the cost plus price of the need it serves.

        """
        count, types = reward.shape
        time = solution.row_dual[count : 2 * count][self.order]
        price = solution.row_dual[2 * count :]
        worth = self.rate[self.own] * reward[self.order][:, None, :]
        score = np.where(self.rate[self.own] > 0, worth + time[:, None, None], -np.inf)  # [G, P, T]
        best, who, next_best, next_who = self._best_members(score)
        # [G, P, T]: best partner of each class for this group's class.
        partner = best.transpose(1, 0, 2)[self.own]
        chosen = who.transpose(1, 0, 2)[self.own]
        here = np.arange(count)
        alone = self.groups.count[self.order] < 2
        itself = (chosen == here[:, None, None]) & alone[:, None, None]
        partner = np.where(itself, next_best.transpose(1, 0, 2)[self.own], partner)
        chosen = np.where(itself, next_who.transpose(1, 0, 2)[self.own], chosen)
        gpus = self.groups.gpus[self.order]
        total = (score + partner + gpus[:, None, None] * price).reshape(count, -1)
        pick = total.argmax(axis=1)
        good = total[here, pick] > IMPROVES * np.abs(solution.row_dual[count:]).max()
        mates = chosen.reshape(count, -1)[here, pick]
        return self._pairs(here[good], mates[good], pick[good] % types)

    def _best_members(self, score: FloatArray) -> tuple[FloatArray, IntArray, FloatArray, IntArray]:
        """Best and second best member of every class towards every class, by type.

        Scores and places in `order`.
        """
        shape = (len(self.slices), *score.shape[1:])
        best = np.full(shape, -np.inf)
        next_best = np.full(shape, -np.inf)
        who = np.zeros(shape, dtype=np.int64)
        next_who = np.zeros(shape, dtype=np.int64)
        for c, (start, stop) in enumerate(self.slices):
            block = score[start:stop]
            top = block.argmax(axis=0)[None]
            best[c] = np.take_along_axis(block, top, axis=0)[0]
            who[c] = top[0] + start
            if stop - start > 1:
                rest = block.copy()
                np.put_along_axis(rest, top, -np.inf, axis=0)
                second = rest.argmax(axis=0)[None]
                next_best[c] = np.take_along_axis(rest, second, axis=0)[0]
                next_who[c] = second[0] + start
        return best, who, next_best, next_who

    def _pairs(self, one: IntArray, other: IntArray, type_: IntArray) -> Pairs:
        a = self.order[one]
        b = self.order[other]
        return self.between(a, b, type_)

    def between(self, one: IntArray, other: IntArray, type_: IntArray) -> Pairs:
        """Pairs of these groups on these types, each once; those of no use are left out."""
        first = np.minimum(one, other)
        second = np.maximum(one, other)
        types = self.rate.shape[2]
        key = np.unique((first * len(self.groups) + second) * types + type_)
        couple, type_ = np.divmod(key, types)
        first, second = np.divmod(couple, len(self.groups))
        place = np.empty(len(self.groups), dtype=np.int64)
        place[self.order] = self.own
        a = place[first]
        b = place[second]
        mine = self.rate[a, b, type_]
        theirs = self.rate[b, a, type_]
        keep = np.flatnonzero((mine > 0) & (theirs > 0))
        return Pairs(first, second, type_, mine, theirs, self.groups.gpus[first]).rows(keep)


def pair_source(view: View, groups: JobGroups) -> PairSource:
    """The useful pairs among groups of the view's classes."""
    order = np.argsort(groups.job_class, kind="stable")
    sorted_classes = groups.job_class[order]
    present, starts, own = np.unique(sorted_classes, return_index=True, return_inverse=True)
    stops = np.append(starts[1:], len(order))[: len(starts)]
    useful = useful_classes(view, present)
    rate = np.where(useful, view.classes.pair[present[:, None], present[None, :]], 0.0)
    slices = tuple(zip(starts.tolist(), stops.tolist(), strict=True))
    return PairSource(groups, slices, order, own, rate)


def joined(old: Pairs, new: Pairs, groups: int, types: int) -> Pairs:
    """Old pairs followed by those of the new ones that are not among them."""
    keys = [(p.first * groups + p.second) * types + p.type for p in (old, new)]
    fresh = new.rows(np.flatnonzero(~np.isin(keys[1], keys[0])))
    return Pairs(
        np.concatenate([old.first, fresh.first]),
        np.concatenate([old.second, fresh.second]),
        np.concatenate([old.type, fresh.type]),
        np.concatenate([old.rate_first, fresh.rate_first]),
        np.concatenate([old.rate_second, fresh.rate_second]),
        np.concatenate([old.gpus, fresh.gpus]),
    )
