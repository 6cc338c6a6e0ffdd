"""From times by configuration to shares by type, and one configuration per job and type.

A program may divide the time of a class on a type between configurations. A job can hold only one at a time, so the
jobs of the class stand in line (those that the program wants fastest first, otherwise by id) and take the
configurations in turn, fastest first, each as far as its part of the time reaches. The parts come out up to one job;
the same answer of the program gives the same wishes, and a job that comes or goes moves few of the others.
"""

from __future__ import annotations

import numpy as np

from rota.core.allocation import Wishes
from rota.core.arrays import FloatArray, IntArray
from rota.core.view import View
from rota.opt.configured import Columns
from rota.opt.groups import Groups

NOTHING = 1e-9
"""Part of a class's time on a type that is the solver's rounding."""


def shares(groups: Groups, columns: Columns, times: FloatArray, types: int) -> FloatArray:
    """[J, T] equal parts of each group's time on a type, whatever the configuration."""
    total = np.zeros((len(groups), types))
    np.add.at(total, (columns.group, columns.type), times)
    part: FloatArray = (total / np.maximum(groups.count, 1.0)[:, None])[groups.member]
    return part


def wishes(view: View, groups: Groups, columns: Columns, times: FloatArray) -> Wishes:
    """What each job should hold on each type; all that makes it fast where it has no time."""
    known = view.classes.configurations
    menu = columns.menu
    types = len(view.capacity)
    used = (times > NOTHING).nonzero()[0]
    used = used[np.argsort(times[used], kind="stable")]
    group, kind, config = columns.group[used], columns.type[used], columns.config[used]
    by_group: IntArray = known.full[groups.kind]
    by_group[group, kind] = config
    wish: IntArray = by_group[groups.member]
    place = groups.kind[group] * types + kind
    places = np.unique(np.stack([place, config]), axis=1)[0]
    mixed, first = np.unique(places, return_counts=True)
    for each in mixed[first > 1].tolist():
        mine = place == each
        job, rows, time = _by_job(groups, group[mine], config[mine], times[used[mine]])
        wish[job, each % types] = _in_line(job, rows, time, menu.speed[rows])
    return Wishes(menu.cpus, menu.memory_gb, menu.speed, wish)


def _by_job(
    groups: Groups, group: IntArray, config: IntArray, time: FloatArray
) -> tuple[IntArray, IntArray, FloatArray]:
    """Jobs of these groups, configurations, and [jobs, configurations] their times."""
    rows, column = np.unique(config, return_inverse=True)
    owners, row = np.unique(group, return_inverse=True)
    table = np.zeros((len(owners), len(rows)))
    np.add.at(table, (row, column), time)
    table /= groups.count[owners][:, None]
    jobs = np.isin(groups.member, owners).nonzero()[0]
    return jobs, rows, table[np.searchsorted(owners, groups.member[jobs])]


def _in_line(jobs: IntArray, rows: IntArray, time: FloatArray, speed: FloatArray) -> IntArray:
    """The configuration of each job."""
    total = time.sum(axis=1)
    wanted = np.round(time @ speed / total, 9)
    line = np.lexsort((jobs, -wanted))
    order = np.argsort(-speed, kind="stable")
    middle = np.cumsum(total[line]) - total[line] / 2
    ends = np.cumsum(time.sum(axis=0)[order])
    taken = np.empty(len(jobs), dtype=np.int64)
    taken[line] = rows[order[np.minimum(np.searchsorted(ends, middle, side="right"), len(order) - 1)]]
    return taken
