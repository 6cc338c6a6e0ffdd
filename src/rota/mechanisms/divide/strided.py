"""Gavel's placement: who goes on keeps its GPUs, the others take the lowest-numbered free ones, server by server."""

from __future__ import annotations

import numpy as np

from rota.core.arrays import IntArray
from rota.core.placement import Placement
from rota.core.view import View
from rota.mechanisms.choice import Choice
from rota.mechanisms.divide.slots import Board
from rota.mechanisms.registry import mechanisms


@mechanisms.register("strided")
class Strided:
    """Lowest-numbered free GPUs first; a job may straddle servers (Gavel's published simulator).

    Parameters: slots - whether to work out the servers, or only who runs on which type (faster).
    """

    def __init__(self, slots: bool = True) -> None:
        self._slots = slots

    def divide(self, view: View, choice: Choice) -> Placement:
        """Servers for the chosen options."""
        return Board(view, choice).lay_out(_in_order, _walk, slots=self._slots)


def _in_order(free: IntArray) -> IntArray:
    """Server offsets, once per free GPU."""
    return np.repeat(np.arange(len(free)), free)


def _walk(free: IntArray, wanted: int) -> list[tuple[int, int]]:
    slots = []
    for server in np.flatnonzero(free).tolist():
        size = min(wanted, int(free[server]))
        slots.append((server, size))
        wanted -= size
        if wanted == 0:
            break
    return slots
