"""What the mechanisms that divide CPUs and memory by need have in common.

They put tasks on servers one after the other in the order in which they were chosen (`Packing`), and end with the
columns of a placement. Each type is laid out by itself. Two jobs that share GPUs hold one proportional share.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np

from rota import kernels
from rota.core.arrays import BoolArray, IntArray, counting, every, whole_zeros
from rota.core.placement import Placement
from rota.core.rules import Rules
from rota.core.view import View
from rota.mechanisms.choice import Choice
from rota.mechanisms.divide.packing import Columns, Packing, Slots
from rota.mechanisms.divide.slots import alone

_NONE: IntArray = np.zeros(0, dtype=np.int64)
_START: IntArray = np.zeros(1, dtype=np.int64)
_SLACK = 1e-9


class Layout:
    """The tasks of one type in the order of serving, and what they would like to hold."""

    def __init__(
        self, chosen: _Chosen, tasks: IntArray, kind: int, first_server: int, *, stays: bool, resets: bool = False
    ) -> None:
        """`stays`: jobs stay where they ran; `resets`: who is cut gets its whole proportional share."""
        self.view = view = chosen.view
        self._chosen, self._first_server = chosen, first_server
        self.kind_number = kind
        self.known = known = view.classes.configurations
        self.tasks = tasks
        """Which of the chosen tasks they are."""
        self.stay: Columns = (_START, _NONE, _NONE)
        """Where the first so many of them have to stay."""
        if stays:
            tasks = self._first_those_who_stay(chosen, tasks, first_server)
        self.rows = rows = chosen.rows if len(tasks) == len(chosen.rows) and not stays else chosen.rows[tasks]
        self.group = group = view.job_class[rows]
        full = known.full[:, kind][group]
        cut = (known.fair if resets else known.cut)[:, kind][group]
        self.shares: BoolArray | None = None
        """Which of them are two jobs on the same GPUs."""
        if chosen.partner is not None:
            self.shares, fair = chosen.partner[tasks] >= 0, known.fair[:, kind][group]
            full, cut = np.where(self.shares, fair, full), np.where(self.shares, fair, cut)
        self.most: IntArray = full
        """What makes each task as fast as it can get."""
        if chosen.wish is not None:  # a wish that costs speed is none: nobody is to be slower than with its share
            wish = chosen.wish[tasks]
            good = (wish >= 0) & (known.speed[wish] >= 1 - _SLACK)
            full = np.where(good if self.shares is None else good & ~self.shares, wish, full)
            if not resets:
                cut = self._cut_wishes(full, cut)
        self.full: IntArray = full
        """What each task is to get if it is there: the policy's wish, or else `most`."""
        self.cut: IntArray = cut
        """What it gets if that is not there."""
        self.size: IntArray = view.gpus[rows]

    def _cut_wishes(self, wishes: IntArray, cut: IntArray) -> IntArray:
        """What these wishes are cut to; `cut` is right for those that are `most`."""
        known, kind, cut = self.known, self.kind_number, cut.copy()
        for task in (wishes != self.most).nonzero()[0].tolist():
            group = int(self.group[task])
            cut[task] = known.within_share(group, kind, int(known.fair[group, kind]), int(wishes[task]))
        return cut

    def stays_at(self, task: int) -> Slots:
        """Where one of those has to stay."""
        start, server, gpus = self.stay
        part = slice(start[task], start[task + 1])
        return list(zip(server[part].tolist(), gpus[part].tolist(), strict=True))

    def last_slots(self) -> list[Slots | None]:
        """Where each task ran in the last round, with the same members on the same type; None for the others."""
        row, last = self._chosen.last_rows()[self.tasks].tolist(), self.view.placement
        if last is None or len(last.slot_server) == 0:
            return [None] * len(row)
        return [None if old < 0 else _slots_of(last, old, self._first_server) for old in row]

    def _first_those_who_stay(self, chosen: _Chosen, tasks: IntArray, first_server: int) -> IntArray:
        row = chosen.last_rows()[tasks]
        last = chosen.view.placement
        if last is None or len(last.slot_server) == 0:
            return tasks
        stays = row >= 0
        old = row[stays]
        begin, counts = last.slot_start[old], last.slot_start[old + 1] - last.slot_start[old]
        start = np.concatenate((_START, counts.cumsum()))
        at = (begin - start[:-1]).repeat(counts) + np.arange(start[-1])
        self.stay = (start, last.slot_server[at] - first_server, last.slot_gpus[at])
        self.tasks = np.concatenate([tasks[stays], tasks[~stays]])
        return self.tasks


def _slots_of(last: Placement, row: int, first_server: int) -> Slots:
    """The slots of a task, servers counted from the first of their type."""
    part = slice(int(last.slot_start[row]), int(last.slot_start[row + 1]))
    return list(zip((last.slot_server[part] - first_server).tolist(), last.slot_gpus[part].tolist(), strict=True))


class _Chosen:
    """The tasks of a round as columns, and how they end as a placement."""

    def __init__(self, view: View, choice: Choice, *, largest_first: bool) -> None:
        rows, partner, kind, wish = choice.first, choice.second, choice.type, choice.wish
        order: IntArray | None = None
        if choice.wasted is not None:
            order = (~choice.wasted).nonzero()[0]
        elif largest_first and choice.largest_first and not view.single_gpu:
            order = (-view.gpus[rows]).argsort(kind="stable")
        if order is not None:
            rows, kind = rows[order], kind[order]
            partner = None if partner is None else partner[order]
            wish = None if wish is None else wish[order]
        self.view, self.rows, self.partner, self.kind, self.wish = view, rows, partner, kind, wish
        self.steady = choice.steady
        self.arrivals_last = choice.arrivals_last

    def last_rows(self) -> IntArray:
        """For each task the row of the last placement with the same members on the same type, or -1."""
        last, tasks = self.view.placement, self.view.last_task
        if last is None or tasks is None or len(last) == 0 or last.fraction is not None:
            return np.full(len(self.rows), -1, dtype=np.int64)
        row = tasks[self.rows]
        other = (last.type[row] != self.kind) | (last.second[row] != self.partners())
        return np.where(other, -1, row)

    def partners(self) -> IntArray:
        """Ids of the jobs that share, or -1."""
        if self.partner is None:
            return alone(len(self.rows))
        return np.where(self.partner >= 0, self.view.jobs[self.partner], -1)

    def placement(self, put: IntArray, config_of: IntArray, slots: list[Columns]) -> Placement:
        """The round, tasks by job id; the last placement itself if nothing but that came out again."""
        view, count = self.view, len(put)
        known = view.classes.configurations
        columns, beside = np.empty((5, count), dtype=np.int64), np.empty((2, count))
        kept = np.empty(count, dtype=np.bool_)
        last_task = alone(len(view)) if view.last_task is None else view.last_task
        active = (view.jobs, view.gpus, last_task)
        what = (known.cpus, known.memory_gb)
        kernels.arrange(self.rows, self.kind, put, config_of, *active, *what, columns, beside, kept)
        order, first, kind, gpus, config = columns
        second = alone(count) if self.partner is None else self.partners()[put[order]]
        start, server, sizes = _ordered(slots, order)
        last = view.placement
        if (
            last is not None
            and last.config is not None
            and len(last) == count
            and last.steady == self.steady
            and every(last.config == config)
            and every(last.first == first)
            and every(last.type == kind)
            and every(last.second == second)
            and len(last.slot_server) == len(server)
            and every(last.slot_server == server)
            and every(last.slot_gpus == sizes)
            and every(last.kept)
        ):
            return last
        if slots or len(view.types) > 1 or self.partner is not None:
            kept = self._kept(put[order], start, server, sizes)
        return Placement(
            first=first,
            second=second,
            type=kind,
            gpus=gpus,
            kept=kept,
            slot_start=start,
            slot_server=server,
            slot_gpus=sizes,
            cpus=beside[0],
            memory_gb=beside[1],
            config=config,
            shared=self.partner is not None,
            steady=self.steady,
            closed=self.arrivals_last and int(gpus.sum()) == view.cluster.gpus,
        )

    def _kept(self, put: IntArray, start: IntArray, server: IntArray, sizes: IntArray) -> BoolArray:
        """Who holds the very GPUs it had in the round before (who is on the same type, if servers are left out)."""
        last = self.view.placement
        row = self.last_rows()[put]
        kept: BoolArray = row >= 0
        if last is None or len(server) == 0:
            return kept
        for task in kept.nonzero()[0].tolist():
            mine, old = slice(start[task], start[task + 1]), slice(*last.slot_start[row[task] : row[task] + 2])
            kept[task] = np.array_equal(server[mine], last.slot_server[old]) and np.array_equal(
                sizes[mine], last.slot_gpus[old]
            )
        return kept


def _joined(parts: list[IntArray]) -> IntArray:
    return np.concatenate(parts) if len(parts) > 1 else parts[0] if parts else _NONE


def _ordered(slots: list[Columns], order: IntArray) -> Columns:
    """Start, server and GPUs of the slots, task by task in this order; nothing if servers are left out."""
    if not slots:
        return whole_zeros(len(order) + 1), _NONE, _NONE
    counts = _joined([start[1:] - start[:-1] for start, _, _ in slots])
    server, sizes = _joined([part for _, part, _ in slots]), _joined([part for _, _, part in slots])
    start = np.zeros(len(order) + 1, dtype=np.int64)
    counts[order].cumsum(out=start[1:])
    old = counts.cumsum() - counts
    at = (old[order] - start[:-1]).repeat(counts[order]) + np.arange(start[-1])
    return start, server[at], sizes[at]


class ByNeed(ABC):
    """Lays out a round type by type; the mechanisms say what to do with the tasks of one."""

    by_need = True
    walks = False
    """Whether a job that does not fit is passed over for the next one in the queue."""
    largest_first = False
    stays = False
    """Whether jobs stay on their servers, unless the rules lay out every round afresh."""

    def __init__(self, consolidate: bool | None = None, slots: bool = True) -> None:
        """Unless it is said, jobs are kept on few servers where it costs them speed not to be."""
        self._consolidate = consolidate
        self._slots = slots
        self._rules = Rules()
        self._packings: list[Packing] = []
        self._made: Placement | None = None
        self._asked = self._asked_kind = _NONE

    def follow(self, rules: Rules) -> None:
        """The rules of the run; without servers there is no staying on them."""
        self._rules = rules
        self._slots = self._slots or not rules.repack

    def divide(self, view: View, choice: Choice) -> Placement:
        """Servers, CPUs and memory for the chosen options."""
        asked = view.jobs[choice.first]
        again = self._again(view, choice, asked)
        if again is not None:
            return again
        chosen = _Chosen(view, choice, largest_first=self.largest_first)
        stays = self.stays and not self._rules.repack
        put: list[IntArray] = []
        config: list[IntArray] = []
        slots: list[Columns] = []
        for kind, packing in enumerate(self._empty(view)):
            tasks = counting(len(chosen.rows)) if len(view.types) == 1 else (chosen.kind == kind).nonzero()[0]
            if len(tasks) == 0:
                continue
            layout = Layout(chosen, tasks, kind, packing.first, stays=stays, resets=self._rules.reset_to_share)
            packing.know(layout.known)
            packing.balance = choice.wish is not None
            packing.consolidate = self._together(view)
            packing.begin()
            self.lay_out(layout, packing)
            put.append(packing.task if layout.rows is chosen.rows else layout.tasks[packing.task])
            config.append(packing.config)
            if self._slots:
                start, server, sizes = packing.columns
                slots.append((start, server + packing.first, sizes))
        self._made = chosen.placement(_joined(put), _joined(config), slots)
        self._asked, self._asked_kind = asked, choice.type
        return self._made

    def _together(self, view: View) -> bool:
        if self._consolidate is None:
            return self._rules.spread_costs and view.classes.spreading_costs
        return self._consolidate

    def _again(self, view: View, choice: Choice, asked: IntArray) -> Placement | None:
        """The last answer, if the same jobs are chosen in the same order and all of them just go on."""
        last = self._made
        if (
            last is None
            or last is not view.placement
            or last.shared
            or choice.second is not None
            or choice.wasted is not None
            or choice.wish is not None
            or last.steady != choice.steady
            or len(asked) != len(self._asked)
            or not every(asked == self._asked)
            or not every(choice.type == self._asked_kind)
            or not every(last.kept)
        ):
            return None
        return last

    def _empty(self, view: View) -> list[Packing]:
        """The servers of each type; kept between rounds for what they remember."""
        if not self._packings:
            cluster = view.cluster
            for kind in range(len(view.types)):
                lo, hi = cluster.server_bounds[kind], cluster.server_bounds[kind + 1]
                self._packings.append(
                    Packing(
                        cluster.server_gpus[lo:hi],
                        cluster.server_cpus[lo:hi],
                        cluster.server_memory_gb[lo:hi],
                        (float(cluster.fair_cpus[kind]), float(cluster.fair_memory_gb[kind])),
                        first=lo,
                    )
                )
        return self._packings

    @abstractmethod
    def lay_out(self, layout: Layout, packing: Packing) -> None:
        """Put the tasks of one type on its empty servers."""
