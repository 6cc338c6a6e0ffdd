"""The tasks of one type in the order of serving, and what they would like to hold."""

from __future__ import annotations

import numpy as np

from rota.core.allocation import Wishes
from rota.core.arrays import BoolArray, IntArray
from rota.core.configurations import Holding
from rota.core.placement import Placement
from rota.core.tolerance import TOLERANCE
from rota.mechanisms.divide.chosen import Chosen
from rota.mechanisms.divide.holdings import Holdings
from rota.mechanisms.divide.packing import NOBODY, Columns, Slots

_START: IntArray = np.zeros(1, dtype=np.int64)


class Layout:
    """What a mechanism that divides by need knows about the tasks of one type."""

    def __init__(
        self,
        chosen: Chosen,
        tasks: IntArray,
        gpu_type: int,
        first_server: int,
        holdings: Holdings,
        *,
        stays: bool,
        resets: bool = False,
    ) -> None:
        """`stays`: jobs stay where they ran; `resets`: a job that is cut gets its whole proportional share."""
        view = chosen.view
        known = holdings.known
        self.view = view
        self.holdings = holdings
        self.gpu_type = gpu_type
        self._chosen = chosen
        self._first_server = first_server
        self.tasks = tasks
        """Which of the chosen tasks they are."""
        self.stay: Columns = NOBODY
        """Where the first so many of them have to stay."""
        if stays:
            self._put_those_who_stay_first(chosen, first_server)
        everybody = len(tasks) == len(chosen.rows) and not stays
        self.rows: IntArray = chosen.rows if everybody else chosen.rows[self.tasks]
        self.group: IntArray = view.job_class[self.rows]
        self.size: IntArray = view.gpus[self.rows]
        self.shares: BoolArray | None = None
        """Which of them are two jobs on the same GPUs."""
        full = known.full[:, gpu_type][self.group]
        cut = (known.fair if resets else known.cut)[:, gpu_type][self.group]
        if chosen.partner is not None:
            fair = known.fair[:, gpu_type][self.group]
            self.shares = chosen.partner[self.tasks] >= 0
            full = np.where(self.shares, fair, full)
            cut = np.where(self.shares, fair, cut)
        self.most: IntArray = full
        """What makes each task as fast as it can get."""
        self.full: IntArray = full
        """What each task is to get if it is there: the policy's wish, or else `most`."""
        self.cut: IntArray = cut
        """What it gets if that is not there."""
        wishes = chosen.choice.wishes
        if chosen.wish is not None and wishes is not None:
            self.full = self._wished(chosen.wish[self.tasks], wishes)
            if not resets:
                self.cut = self._cut_wishes()

    def _wished(self, wish: IntArray, wishes: Wishes) -> IntArray:
        """The rows of the policy's wishes. One that costs speed is none: nobody is to be slower than with its share."""
        full = self.full.copy()
        for entry in np.unique(wish[wish >= 0]).tolist():
            holding = wishes.holding(entry)
            if holding.speed < 1 - TOLERANCE:
                continue
            mine = wish == entry
            if self.shares is not None:
                mine &= ~self.shares
            for group in np.unique(self.group[mine]).tolist():
                row = self.holdings.row(group, self.gpu_type, holding)
                full[mine & (self.group == group)] = row
        return full

    def _cut_wishes(self) -> IntArray:
        """What wishes are cut to; that of `most` is known."""
        cut = self.cut.copy()
        holdings = self.holdings
        for task in (self.full != self.most).nonzero()[0].tolist():
            group = int(self.group[task])
            row = int(self.full[task])
            wish = self.holding(row)
            cut[task] = holdings.row(group, self.gpu_type, holdings.known.within_share(group, self.gpu_type, wish))
        return cut

    def holding(self, row: int) -> Holding:
        """CPUs, memory and speed of a row."""
        holdings = self.holdings
        return Holding(float(holdings.cpus[row]), float(holdings.memory_gb[row]), float(holdings.speed[row]))

    def stays_at(self, task: int) -> Slots:
        """Where one of those has to stay."""
        start, server, gpus = self.stay
        part = slice(start[task], start[task + 1])
        return list(zip(server[part].tolist(), gpus[part].tolist(), strict=True))

    def last_slots(self) -> list[Slots | None]:
        """Where each task ran in the last round, with the same members on the same type; None for the others."""
        row = self._chosen.last_rows()[self.tasks].tolist()
        last = self.view.placement
        if last is None or len(last.slot_server) == 0:
            return [None] * len(row)
        return [None if old < 0 else _slots_of(last, old, self._first_server) for old in row]

    def _put_those_who_stay_first(self, chosen: Chosen, first_server: int) -> None:
        stays, self.stay = _who_ran(chosen, self.tasks, first_server)
        self.tasks = np.concatenate([self.tasks[stays], self.tasks[~stays]])

    def who_ran(self, tasks: IntArray) -> tuple[BoolArray, Columns]:
        """Which of these tasks ran in the last round, with the same members on the same type, and where."""
        return _who_ran(self._chosen, self.tasks[tasks], self._first_server)


def _who_ran(chosen: Chosen, tasks: IntArray, first_server: int) -> tuple[BoolArray, Columns]:
    """Which of the chosen tasks go on, and their slots in the last round; servers count from `first_server`."""
    row = chosen.last_rows()[tasks]
    last = chosen.view.placement
    if last is None or len(last.slot_server) == 0:
        return np.zeros(len(row), dtype=np.bool_), NOBODY
    stays: BoolArray = row >= 0
    old = row[stays]
    begin = last.slot_start[old]
    counts = last.slot_start[old + 1] - begin
    start = np.concatenate((_START, counts.cumsum()))
    at = (begin - start[:-1]).repeat(counts) + np.arange(start[-1])
    return stays, (start, last.slot_server[at] - first_server, last.slot_gpus[at])


def _slots_of(last: Placement, row: int, first_server: int) -> Slots:
    """The slots of a task, servers counted from the first of their type."""
    part = slice(int(last.slot_start[row]), int(last.slot_start[row + 1]))
    return list(zip((last.slot_server[part] - first_server).tolist(), last.slot_gpus[part].tolist(), strict=True))
