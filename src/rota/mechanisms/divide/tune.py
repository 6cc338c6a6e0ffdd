"""Synergy-Tune (Mohan et al., OSDI 2022): what every job would like if it is there, never less than its share.

What a job would like is what the policy wishes for it, if it does (`Allocation.wish`), otherwise the least that makes
it as fast as it can get. For one job after the other:

1. Put it where its GPUs, CPUs and memory are free together.
2. Otherwise cut its wish to the proportional share in whatever goes beyond that, and try again.
3. Otherwise choose servers with enough free GPUs. Jobs there that hold more than their share give back the excess, as
   many as it takes, those with most per GPU first; they stay on their GPUs. Then there is room.

So every chosen job runs, and none is slower than with the proportional mechanism. Under the default rules a job that
goes on stays on its GPUs, and CPUs and memory that nobody wants in the end go to jobs that were cut; Synergy's
simulator lays out every round afresh and leaves the rest unused (rules `repack` and `spare_is_shared`). Only where the
policy has wishes, jobs change places so that more of them come true, if a round makes up for the restarts (trading.py).
"""

from __future__ import annotations

import math

from rota.core.arrays import IntArray
from rota.core.placement import Placement
from rota.core.tolerance import TOLERANCE
from rota.core.view import View
from rota.mechanisms.choice import Choice
from rota.mechanisms.divide.by_need import ByNeed
from rota.mechanisms.divide.displacing import emptied, givers
from rota.mechanisms.divide.layout import Layout
from rota.mechanisms.divide.packing import Packing, Slots
from rota.mechanisms.divide.proportional import Proportional
from rota.mechanisms.divide.trading import Trading
from rota.mechanisms.registry import mechanisms


@mechanisms.register("tune", from_run=("slots",))
class Tune(ByNeed):
    """CPUs and memory by need, never less than the proportional share; others give back their excess.

    Parameters: consolidate - keep jobs on few servers (where it is not said: if it costs speed not to); slots -
    whether to report the servers.
    """

    largest_first = True
    stays = True

    def __init__(self, consolidate: bool | None = None, slots: bool = True) -> None:
        super().__init__(consolidate, slots)
        self._plain = Proportional()

    def divide(self, view: View, choice: Choice) -> Placement:
        """Servers, CPUs and memory; as few servers as possible where it is they that matter, and nobody needs more."""
        if not view.classes.configurations.sensitive and self._together(view):
            return self._plain.divide(view, choice)
        return super().divide(view, choice)

    def lay_out(self, layout: Layout, packing: Packing) -> None:
        """Put the tasks of one type on its servers."""
        packing.walk(0, layout.size, layout.full, _Squeeze(layout, packing), layout.cut, layout.stay)
        if packing.balance:
            Trading(layout, packing, self._rules).run()
        self._hand_out_spare(layout, packing)

    def lay_out_around(self, layout: Layout, packing: Packing) -> None:
        """The same, and nobody changes places."""
        packing.walk(0, layout.size, layout.full, _Squeeze(layout, packing), layout.cut, layout.stay)
        self._hand_out_spare(layout, packing)

    def _hand_out_spare(self, layout: Layout, packing: Packing) -> None:
        if self._rules.spare_is_shared:
            _share_spare(layout, packing, layout.full)
            if layout.most is not layout.full:
                _share_spare(layout, packing, layout.most)


class _Squeeze:
    """What happens to a task whose wish does not fit."""

    def __init__(self, layout: Layout, packing: Packing) -> None:
        self._layout = layout
        self._packing = packing

    def __call__(self, task: int, size: int, wish: int) -> None:
        layout = self._layout
        packing = self._packing
        slots = None
        if _beyond(packing, size, wish):
            wish = int(layout.cut[task])
            slots = packing.fit(size, wish)
        if slots is None:
            target = emptied(packing, size)
            _make_room(layout, packing, target, size, wish)
            slots = packing.fit(size, wish) or target
        packing.put(task, size, wish, slots)

    def stay(self, task: int) -> None:
        """The same for a job that goes on on its GPUs."""
        layout = self._layout
        packing = self._packing
        slots = layout.stays_at(task)
        size = int(layout.size[task])
        wish = int(layout.full[task])
        if not packing.fits_at(slots, size, wish):
            wish = int(layout.cut[task])
            if not packing.fits_at(slots, size, wish):
                _make_room(layout, packing, slots, size, wish)
        packing.put(task, size, wish, slots)


def _beyond(packing: Packing, size: int, wish: int) -> bool:
    """Whether a wish goes beyond the proportional share in anything."""
    cpus, memory = packing.holds(wish)
    return cpus > size * packing.fair_cpus + TOLERANCE or memory > size * packing.fair_memory + TOLERANCE


def _make_room(layout: Layout, packing: Packing, target: Slots, size: int, wish: int) -> None:
    """Let others on these servers give back their excess, server by server."""
    cpus, memory = packing.holds(wish)
    for server, part in target:
        for row in givers(packing, server, cpus * part / size, memory * part / size, layout.size):
            task = int(packing.task[row])
            full = int(layout.full[task])
            size_of_giver = int(layout.size[task])
            beyond = _beyond(packing, size_of_giver, full)
            packing.change(row, size_of_giver, int(layout.cut[task]) if beyond else full)


def _share_spare(layout: Layout, packing: Packing, wishes: IntArray) -> None:
    """Give whole CPUs and whole GB that are left to jobs that have less than their wish, in the order of serving."""
    holdings = layout.holdings
    wanted = wishes[packing.task]
    sizes = layout.size[packing.task]
    for row in (wanted != packing.config).nonzero()[0].tolist():
        got = int(packing.config[row])
        size = int(sizes[row])
        slots = packing.slots(row)
        more_cpus = min(packing.cpus[server] * size / part for server, part in slots)
        more_memory = min(packing.memory[server] * size / part for server, part in slots)
        have_cpus, have_memory = packing.holds(got)
        most_cpus, most_memory = packing.holds(int(wanted[row]))
        cpus = max(have_cpus, min(most_cpus, have_cpus + math.floor(more_cpus)))
        memory = max(have_memory, min(most_memory, have_memory + math.floor(more_memory)))
        if (cpus, memory) == (have_cpus, have_memory):
            continue
        better = holdings.number(int(layout.group[packing.task[row]]), layout.gpu_type, cpus, memory)
        if holdings.speed[better] > holdings.speed[got] + TOLERANCE:
            packing.know(holdings)
            packing.change(row, size, better)
