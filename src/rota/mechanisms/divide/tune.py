"""Synergy-Tune (Mohan et al., OSDI 2022): what every job would like if it is there, never less than its share.

For one job after the other:

1. Put it where its GPUs, CPUs and memory are free together.
2. Otherwise cut its wish to the proportional share, if it goes beyond that, and try again.
3. Otherwise choose servers with enough free GPUs. Jobs there that hold more than their share give back the excess, as
   many as it takes, those with most per GPU first; they stay on their GPUs. Then there is room.

So every chosen job runs, and none is slower than with the proportional mechanism. Under the default rules a job that
goes on stays on its GPUs, and CPUs and memory that nobody wants in the end go to jobs that were cut; Synergy's
simulator lays out every round afresh and leaves the rest unused (rules `repack` and `spare_is_shared`).
"""

from __future__ import annotations

import math

from rota.mechanisms.divide.by_need import ByNeed, Layout
from rota.mechanisms.divide.packing import Packing, Slots
from rota.mechanisms.registry import mechanisms

_SLACK = 1e-9


@mechanisms.register("tune")
class Tune(ByNeed):
    """CPUs and memory by need, never less than the proportional share; others give back their excess.

    Parameters: consolidate - keep jobs on few servers; slots - whether to report the servers.
    """

    largest_first = True

    def lay_out(self, layout: Layout, packing: Packing, tasks: list[int]) -> None:
        """Put the tasks of one type on its servers."""
        if not self._rules.repack:
            where = layout.last_slots(packing.first)
            stay = [t for t in tasks if where[t] is not None]
            for task in stay:
                self._stay(layout, packing, task, where[task] or [])
            tasks = [t for t in tasks if where[t] is None]
        for task in tasks:
            if packing.free < layout.size[task]:
                continue
            self._place(layout, packing, task)
        if self._rules.spare_is_shared:
            _share_spare(layout, packing)

    def _place(self, layout: Layout, packing: Packing, task: int) -> None:
        known, size, wish = layout.known, layout.size[task], layout.full[task]
        cpus, memory = float(known.cpus[wish]), float(known.memory_gb[wish])
        slots = packing.fit(size, cpus, memory)
        if slots is None and _beyond(packing, size, cpus, memory):
            wish = layout.fair[task]
            cpus, memory = float(known.cpus[wish]), float(known.memory_gb[wish])
            slots = packing.fit(size, cpus, memory)
        if slots is None:
            target = packing.emptied(size)
            _make_room(layout, packing, target, size, cpus, memory)
            slots = packing.fit(size, cpus, memory) or target
        packing.put(task, size, cpus, memory, slots)
        layout.config[task] = wish

    def _stay(self, layout: Layout, packing: Packing, task: int, slots: Slots) -> None:
        """The same for a job that goes on on its GPUs."""
        known, size = layout.known, layout.size[task]
        for wish in (layout.full[task], layout.fair[task]):
            cpus, memory = float(known.cpus[wish]), float(known.memory_gb[wish])
            if packing.fits_at(slots, size, cpus, memory):
                break
        else:
            _make_room(layout, packing, slots, size, cpus, memory)
        packing.put(task, size, cpus, memory, slots)
        layout.config[task] = wish


def _beyond(packing: Packing, size: int, cpus: float, memory: float) -> bool:
    """Whether a wish goes beyond the proportional share in anything."""
    return cpus > size * packing.fair_cpus + _SLACK or memory > size * packing.fair_memory + _SLACK


def _make_room(layout: Layout, packing: Packing, target: Slots, size: int, cpus: float, memory: float) -> None:
    """Let others on these servers give back their excess."""
    for server, part in target:
        for task in packing.givers(server, cpus * part / size, memory * part / size):
            _cut(layout, packing, task)


def _cut(layout: Layout, packing: Packing, task: int) -> None:
    """Take a task back to its proportional share, if it holds more than that of anything."""
    wish = layout.full[task]
    cpus, memory = float(layout.known.cpus[wish]), float(layout.known.memory_gb[wish])
    if _beyond(packing, layout.size[task], cpus, memory):
        wish = layout.fair[task]
        cpus, memory = float(layout.known.cpus[wish]), float(layout.known.memory_gb[wish])
    packing.change(task, cpus, memory)
    layout.config[task] = wish


def _share_spare(layout: Layout, packing: Packing) -> None:
    """Give whole CPUs and whole GB that are left to jobs that were cut, in the order of serving."""
    known = layout.known
    for task, slots in packing.slots.items():
        wish, got = layout.full[task], layout.config[task]
        if wish == got:
            continue
        size, (cpus, memory) = packing.size[task], packing.held[task]
        more_cpus = min(packing.cpus[s] * size / part for s, part in slots)
        more_memory = min(packing.memory[s] * size / part for s, part in slots)
        cpus = max(cpus, min(float(known.cpus[wish]), cpus + math.floor(more_cpus + _SLACK)))
        memory = max(memory, min(float(known.memory_gb[wish]), memory + math.floor(more_memory + _SLACK)))
        if (cpus, memory) == packing.held[task]:
            continue
        better = known.number(int(layout.group[task]), int(layout.kind[task]), cpus, memory)
        if known.speed[better] > known.speed[got] + _SLACK:
            packing.change(task, cpus, memory)
            layout.config[task] = better
