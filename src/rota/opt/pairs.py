"""Two jobs on the same GPUs.

Which pairs are worth a column, and from pairs of groups to pairs of jobs.

A pair of groups (g, h) on type j runs both at reduced rates. If the rates, each divided by the
group's rate alone, add up to at most 1, time slicing gives both as much in as much GPU time and
less of their own: the pair is dropped.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rota.core.allocation import NO_OPTIONS, Options
from rota.core.arrays import BoolArray, FloatArray, IntArray
from rota.core.view import View
from rota.opt.groups import JobGroups
from rota.opt.lp import Int32Array

NOTHING = 1e-10
"""Total time of a pair of groups that is the solver's rounding."""
_INT16 = 1 << 15


@dataclass(frozen=True, slots=True, eq=False)
class Pairs:
    """Pair columns: groups first <= second that share GPUs of one type."""

    first: IntArray
    second: IntArray
    type: IntArray
    rate_first: FloatArray
    """steps/s of a job of the first group while paired."""
    rate_second: FloatArray
    gpus: FloatArray

    def __len__(self) -> int:
        return len(self.first)

    @staticmethod
    def none() -> Pairs:
        """No pair."""
        no = np.zeros(0, dtype=np.int64)
        zero = np.zeros(0)
        return Pairs(no, no, no, zero, zero, zero)

    def rows(self, keep: IntArray) -> Pairs:
        """A part of the columns."""
        return Pairs(
            self.first[keep],
            self.second[keep],
            self.type[keep],
            self.rate_first[keep],
            self.rate_second[keep],
            self.gpus[keep],
        )

    def limits(self, count: FloatArray) -> FloatArray:
        """Upper bounds of the columns: a pair inside a group needs two members."""
        return np.where((self.first != self.second) | (count[self.first] >= 2), np.inf, 0.0)

    def columns(
        self, gain: tuple[FloatArray, FloatArray], groups: int, offset: int
    ) -> tuple[Int32Array, Int32Array, FloatArray]:
        """Start, index and value of the columns in the model of shares.py.

        They begin at entry `offset`.
        """
        inside = self.first == self.second
        twice = np.where(inside, 2.0, 1.0)
        index = np.stack(
            [self.first, self.second, groups + self.first, groups + self.second, 2 * groups + self.type], axis=1
        )
        value = np.stack([gain[0] * twice, gain[1], twice, np.ones(len(self)), self.gpus], axis=1)
        keep = np.ones(index.shape, dtype=bool)
        keep[inside, 1] = keep[inside, 3] = False
        length = np.where(inside, 3, 5)
        start = offset + np.cumsum(length) - length
        return start.astype(np.int32), index[keep].astype(np.int32), value[keep]


def useful_classes(view: View, job_classes: IntArray) -> BoolArray:
    """[K, K, T] pairs of these classes that are not dominated by time slicing."""
    classes = view.classes
    alone = (classes.throughput * (view.capacity > 0))[job_classes][:, None, :]
    pair = classes.pair[job_classes[:, None], job_classes[None, :]]
    mine = np.divide(pair, alone, out=np.zeros(pair.shape), where=alone > 0)
    theirs = mine.transpose(1, 0, 2)
    gpus = classes.gpus[job_classes]
    useful: BoolArray = (mine + theirs > 1.0) & (mine > 0) & (theirs > 0)
    useful &= (gpus[:, None] == gpus[None, :])[:, :, None]
    return useful


def useful_pairs(view: View, groups: JobGroups) -> Pairs:
    """All pair columns between groups that are not dominated by time slicing."""
    present, own = np.unique(groups.job_class, return_inverse=True)
    useful = useful_classes(view, present)
    if len(present) < len(groups) or (own != np.arange(len(own))).any():
        useful = useful[own[:, None], own[None, :]]
    first, second, type_ = np.nonzero(useful)
    upper = first <= second
    first = first[upper]
    second = second[upper]
    type_ = type_[upper]
    a = groups.job_class[first]
    b = groups.job_class[second]
    pair = view.classes.pair
    return Pairs(first, second, type_, pair[a, b, type_], pair[b, a, type_], groups.gpus[first])


def spread(
    view: View,
    groups: JobGroups,
    pairs: Pairs,
    time: FloatArray,
) -> tuple[Options, FloatArray]:
    """Pairs of jobs and their shares [pairs, T] from the total times of pairs of groups.

    Every member of a group gets an equal part. Between two groups, members are laid out along a
    line of length 1 each and meet where they overlap (a north-west corner filling: n + m - 1 pairs
    at most); inside one group they form a ring. So the number of job pairs grows with the number of
    jobs, not with its square.
    """
    there = groups.count > 0
    possible = there[pairs.first] & there[pairs.second] & (pairs.limits(groups.count) > 0)
    used = np.flatnonzero((time > NOTHING) & possible)
    if len(used) == 0:
        return NO_OPTIONS, np.zeros((0, len(view.capacity)))
    key = pairs.first[used] * len(groups) + pairs.second[used]
    used_keys, column = np.unique(key, return_inverse=True)
    total = np.zeros((len(used_keys), len(view.capacity)))
    total[column, pairs.type[used]] = time[used]
    meetings = _meetings(groups, *np.divmod(used_keys, len(groups)))
    one, other, part = (np.concatenate(columns) for columns in zip(*meetings, strict=True))
    lengths = [len(part) for _, _, part in meetings]
    first = np.minimum(one, other)
    second = np.maximum(one, other)
    share = part[:, None] * total[np.repeat(np.arange(len(meetings)), lengths)]
    return Options(first=view.jobs[first], second=view.jobs[second], gpus=view.gpus[first]), share


def _meetings(
    groups: JobGroups,
    first: IntArray,
    second: IntArray,
) -> list[tuple[IntArray, IntArray, FloatArray]]:
    """For each pair of groups: which members run together, and their parts of the pair's time."""
    # Small integers are sorted by radix, not by merging.
    member = groups.member.astype(np.int16) if len(groups) < _INT16 else groups.member
    order = np.argsort(member, kind="stable")
    sizes = np.bincount(groups.member, minlength=len(groups))
    ends = np.cumsum(sizes)
    starts = ends - sizes

    def members(group: int) -> IntArray:
        return order[starts[group] : ends[group]]

    return [
        _ring(members(g)) if g == h else _line(members(g), members(h))
        for g, h in zip(first.tolist(), second.tolist(), strict=True)
    ]


def _line(mine: IntArray, theirs: IntArray) -> tuple[IntArray, IntArray, FloatArray]:
    n = len(mine)
    m = len(theirs)
    # A stable sort merges two sorted runs.
    cuts = np.sort(np.concatenate([np.arange(n) * m, np.arange(m) * n]), kind="stable")
    cuts = cuts[np.diff(cuts, prepend=-1) > 0]
    part = np.diff(cuts, append=n * m) / (n * m)
    return mine[cuts // m], theirs[cuts // n], part


def _ring(mine: IntArray) -> tuple[IntArray, IntArray, FloatArray]:
    n = len(mine)
    if n == 2:
        return mine[:1], mine[1:], np.ones(1)
    return mine, np.roll(mine, -1), np.full(n, 1 / n)
