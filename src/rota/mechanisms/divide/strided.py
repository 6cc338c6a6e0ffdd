"""Gavel's placement: who goes on keeps its GPUs, the others take the lowest-numbered free ones, server by server."""

from __future__ import annotations

from rota.core.placement import Placement
from rota.core.view import View
from rota.mechanisms.choice import Choice
from rota.mechanisms.divide.slots import ServerSlots, in_order, walk
from rota.mechanisms.dividing import Divide
from rota.mechanisms.registry import mechanisms


@mechanisms.register("strided", from_run=("slots",))
class Strided(Divide):
    """Lowest-numbered free GPUs first; a job may straddle servers (Gavel's published simulator).

    Parameters: slots - whether to work out the servers, or only who runs on which type (faster).
    """

    def __init__(self, slots: bool = True) -> None:
        self._slots = slots

    def divide(self, view: View, choice: Choice) -> Placement:
        """Servers for the chosen options."""
        return ServerSlots(view, choice).lay_out(in_order, walk, slots=self._slots)
