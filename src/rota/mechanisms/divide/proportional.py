"""Plain GPU placement: every job gets its GPUs and the same part of everything else, on as few servers as it can.

Who goes on stays where it is. Newcomers are placed from large to small: on the fullest server that still has all
the GPUs wanted, otherwise over the emptiest servers, so that gangs span few machines.
"""

from __future__ import annotations

import numpy as np

from rota.core.arrays import IntArray
from rota.core.placement import Placement
from rota.core.view import View
from rota.mechanisms.choice import Choice
from rota.mechanisms.divide.slots import ServerSlots, in_order, walk
from rota.mechanisms.dividing import Divide
from rota.mechanisms.registry import mechanisms


@mechanisms.register("proportional", from_run=("slots",))
class Proportional(Divide):
    """GPUs on as few servers as possible, other resources in proportion to GPUs (the default).

    Parameters: consolidate - false to take the first free GPUs in the order of servers instead.
    """

    def __init__(self, consolidate: bool = True, slots: bool = True) -> None:
        self._order = _fullest_first if consolidate else in_order
        self._spread = _fewest_servers if consolidate else walk
        self._slots = slots

    def divide(self, view: View, choice: Choice) -> Placement:
        """Servers for the chosen options."""
        return ServerSlots(view, choice).lay_out(self._order, self._spread, slots=self._slots)


def _fullest_first(free: IntArray) -> IntArray:
    """Server offsets, once per free GPU, those with the fewest free GPUs first."""
    order = np.argsort(free, kind="stable")
    return np.repeat(order, free[order])


def _fewest_servers(free: IntArray, wanted: int) -> list[tuple[int, int]]:
    whole = np.flatnonzero(free >= wanted)
    if len(whole):
        return [(int(whole[np.argmin(free[whole])]), wanted)]
    slots = []
    for server in np.argsort(-free, kind="stable").tolist():
        size = min(wanted, int(free[server]))
        slots.append((server, size))
        wanted -= size
        if wanted == 0:
            break
    return slots
