"""What a second of one job's work costs all jobs, and programs that weigh jobs by that.

If jobs run in the order of their remaining work (over weight: Smith's rule), a second of work of job i delays job i
itself and all behind it. With its s_i GPUs it takes s_i / N of the cluster from those, so

    h_i = w_i + s_i / N  sum of w_k over the jobs k behind i        "delay", in jobs

is what the sum of completion times falls by for every second of work of job i that is done. On one type, serving the
largest h_i / s_i is shortest remaining time first. On several types the program that maximises the sum of h_i x speed
decides who gets which: a short job is worth more there than a long one, but at most by as much as there are jobs to
wait for it, so nobody takes a fast GPU that shortens another's work much more. *Ageing* keeps long jobs from waiting
for ever: with R_i seconds of work left, A_i seconds after its arrival, a job comes as far forward as if it had
R_i / (1 + a A_i / R_i) left.

Jobs have delays of their own, so the program has a group per job while there are few. Of many jobs, those of a class
with nearly the same place in the order form a group, with the mean of their delays; its time is dealt out in order,
shortest job first and fastest way first, which is what the program with a group per job would do within a class.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rota.core.arrays import FloatArray, IntArray
from rota.core.tolerance import TOLERANCE
from rota.core.view import View
from rota.opt.groups import JobGroups, by_class_and, by_job, ratio

MOST_JOBS = 192
"""Up to so many jobs each is a group of its own."""
_FINEST = 16.0
"""Places in the order told apart for every doubling of the GPUs ahead, with few classes ..."""
_COARSEST = 2.0
"""... and with many."""
_DIVISIONS = 128.0
"""Classes times places that are told apart for every doubling, between the two."""
_FIRST = 8.0
"""Doubling begins at this part of the cluster (one over it)."""


@dataclass(frozen=True, slots=True, eq=False)
class Line:
    """All jobs in the order of Smith's rule, and groups of them for a program."""

    groups: JobGroups
    delay: FloatArray
    """[G] mean delay of the jobs of each group."""
    rank: IntArray
    """[J] place of each job in the order, from 0."""


def line_up(view: View, fastest: FloatArray, ageing: float) -> Line:
    """The jobs of a view; `fastest` [C] is the highest rate of each class, steps/s.

    Who cannot run anywhere delays nobody and comes last.
    """
    gpus = view.gpus.astype(np.float64)
    left = ratio(np.maximum(view.steps_left, 0.0), fastest[view.job_class])
    seconds = ratio(left * left, left + ageing * view.age)
    able = fastest[view.job_class] > 0
    weight = np.where(able, view.weight, 0.0)
    smith = np.where(able & (weight > 0), ratio(seconds * gpus, weight), np.inf)
    order = smith.argsort(kind="stable")
    rank = np.empty(len(order), dtype=np.int64)
    rank[order] = np.arange(len(order))
    total = max(1.0, float(view.capacity.sum()))
    delay = weight + gpus / total * _behind(smith[order], weight[order])[rank]
    groups = _grouped(view, rank, np.cumsum(gpus[order])[rank] / total)
    mean = np.bincount(groups.member, weights=delay, minlength=len(groups)) / np.maximum(groups.count, 1.0)
    return Line(groups, mean, rank)


def _behind(smith: FloatArray, weight: FloatArray) -> FloatArray:
    """Total weight of the jobs with a larger key, for sorted keys: of equals none is behind the other."""
    up_to = np.cumsum(weight)
    last_equal = np.searchsorted(smith, smith, side="right") - 1
    behind: FloatArray = up_to[-1:] - up_to[last_equal]
    return behind


def _grouped(view: View, rank: IntArray, ahead: FloatArray) -> JobGroups:
    """Jobs that a program tells apart; `ahead` are the GPUs up to each job in the order, as parts of the cluster."""
    if len(rank) <= MOST_JOBS:
        return by_job(view)
    classes = len(np.unique(view.job_class))
    fineness = min(max(_DIVISIONS / classes, _COARSEST), _FINEST)
    return by_class_and(view, np.floor(fineness * np.log2(1 + _FIRST * ahead)).astype(np.int64))


@dataclass(frozen=True, slots=True, eq=False)
class Dealt:
    """Times of jobs: one entry for every job and way to run that it gets time on."""

    job: IntArray
    way: IntArray
    """Which of the ways that were dealt out."""
    time: FloatArray


def deal(line: Line, group: IntArray, times: FloatArray, rate: FloatArray) -> Dealt:
    """Deal out the times of ways to run (of these groups, at these rates) to jobs.

    In every group the first jobs of the line get the fastest ways, each job as much as fits into all of its time.
    """
    used = (times > TOLERANCE).nonzero()[0]
    used = used[np.lexsort((used, -rate[used], group[used]))]
    owner = group[used]
    end = _since_group_began(times[used], owner)
    begin = end - times[used]
    jobs = np.lexsort((line.rank, line.groups.member))
    first_of_group = np.cumsum(line.groups.count).astype(np.int64) - line.groups.count.astype(np.int64)
    low = np.floor(begin + TOLERANCE).astype(np.int64)
    high = np.minimum(np.ceil(end - TOLERANCE), line.groups.count[owner]).astype(np.int64)
    many = np.maximum(high - low, 0)
    entry = np.repeat(np.arange(len(used)), many)
    place = np.arange(len(entry)) - np.repeat(np.cumsum(many) - many, many) + low[entry]
    overlap = np.minimum(end[entry], place + 1) - np.maximum(begin[entry], place)
    return Dealt(
        job=jobs[first_of_group[owner[entry]] + place],
        way=used[entry],
        time=np.clip(overlap, 0.0, 1.0),
    )


def _since_group_began(amounts: FloatArray, group: IntArray) -> FloatArray:
    """Running sums that begin anew with every group; groups stand together."""
    total = np.cumsum(amounts)
    starts = np.flatnonzero(np.diff(group, prepend=-1))
    before = np.repeat(total[starts] - amounts[starts], np.diff(np.append(starts, len(group))))
    running: FloatArray = total - before
    return running
