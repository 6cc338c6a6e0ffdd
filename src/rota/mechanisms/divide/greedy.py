"""First fit with what every job would like to have (Synergy-Greedy; Mohan et al., OSDI 2022).

A job starts only where its GPUs, CPUs and memory are free together; otherwise it waits and the next one in the queue
is tried. GPUs stay idle while CPUs or memory are short, and a demanding job may starve: share policies and the rule
`starvation_s` put it in front in the end, but it still needs a round in which everything fits. On a cluster with
several types, the type of each job is settled by GPU counts before servers are looked at.

Who runs follows from the queue: those who find room when they are put on empty servers one after the other. Under the
default rules those of them who run already stay on their GPUs and the others go where room is left, if all of them
find some; otherwise as many stay as the order of the queue allows. Synergy's simulator lays out every round afresh
(rule `repack`).
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from rota.core.arrays import BoolArray, IntArray, some
from rota.mechanisms.divide.by_need import ByNeed
from rota.mechanisms.divide.layout import Layout
from rota.mechanisms.divide.packing import Columns, Packing, Slots
from rota.mechanisms.dividing import Abilities
from rota.mechanisms.registry import mechanisms


@mechanisms.register("greedy", from_run=("slots",))
class Greedy(ByNeed):
    """Every job gets the CPUs and memory it would like, or waits; may starve demanding jobs.

    Parameters: consolidate - keep jobs on few servers (where it is not said: if it costs speed not to); slots -
    whether to report the servers.
    """

    abilities: ClassVar[Abilities] = Abilities(by_need=True, walks=True)

    def lay_out(self, layout: Layout, packing: Packing) -> None:
        """Put the tasks of one type on its servers."""
        packing.walk(0, layout.size, layout.full, None, layout.cut)
        if self._rules.repack:
            return
        runs = packing.task.copy()
        ran, slots = layout.who_ran(runs)
        if not some(ran) or _nobody_moves(packing, ran, slots):
            return
        if not (_all_stay(layout, packing, runs, ran, slots) or _most_stay(layout, packing, runs, ran, slots)):
            packing.again()
            packing.walk(0, layout.size, layout.full, None, layout.cut)

    def lay_out_around(self, layout: Layout, packing: Packing) -> None:
        """Who runs goes on with what it holds; the others start where their GPUs, CPUs and memory are free."""
        staying = len(layout.stay[0]) - 1
        for task in range(packing.settle(layout.size, layout.full, layout.full, layout.stay), staying):
            packing.put(task, int(layout.size[task]), int(layout.full[task]), layout.stays_at(task))
        packing.walk(staying, layout.size, layout.full, None, layout.full)


def _nobody_moves(packing: Packing, ran: BoolArray, slots: Columns) -> bool:
    """Whether the layout leaves those who ran where they were."""
    start, server, gpus = packing.columns
    counts = np.diff(start)
    mine = ran.repeat(counts)
    return np.array_equal(server[mine], slots[1]) and np.array_equal(gpus[mine], slots[2])


def _all_stay(layout: Layout, packing: Packing, runs: IntArray, ran: BoolArray, slots: Columns) -> bool:
    """Those who ran stay, the others go where there is room; whether all find some."""
    packing.again()
    order = np.concatenate([runs[ran], runs[~ran]])
    size = layout.size[order]
    full = layout.full[order]
    staying = len(slots[0]) - 1
    for task in range(packing.settle(size, full, full, slots), staying):
        place = _place(slots, task)
        if not packing.fits_at(place, int(size[task]), int(full[task])):
            return False
        packing.put(task, int(size[task]), int(full[task]), place)
    packing.walk(staying, size, full, None, full)
    packing.rename(order)
    return packing.rows == len(order)


def _most_stay(layout: Layout, packing: Packing, runs: IntArray, ran: BoolArray, slots: Columns) -> bool:
    """One after the other, each where it was if there is room; whether all find some."""
    packing.again()
    old = (ran.cumsum() - 1).tolist()
    for number, (task, stays) in enumerate(zip(runs.tolist(), ran.tolist(), strict=True)):
        size = int(layout.size[task])
        wish = int(layout.full[task])
        place = _place(slots, old[number]) if stays else None
        if place is None or not packing.fits_at(place, size, wish):
            place = packing.fit(size, wish)
        if place is None:
            return False
        packing.put(task, size, wish, place)
    return True


def _place(slots: Columns, row: int) -> Slots:
    start, server, gpus = slots
    part = slice(start[row], start[row + 1])
    return list(zip(server[part].tolist(), gpus[part].tolist(), strict=True))
