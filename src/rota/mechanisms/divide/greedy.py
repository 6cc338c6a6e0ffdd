"""First fit with what every job would like to have (Synergy-Greedy; Mohan et al., OSDI 2022).

A job starts only where its GPUs, CPUs and memory are free together; otherwise it waits and the next one in the queue
is tried. GPUs stay idle while CPUs or memory are short, and a demanding job may starve: share policies and the rule
`starvation_s` put it in front in the end, but it still needs a round in which everything fits. On a cluster with
several types, the type of each job is settled by GPU counts before servers are looked at.
"""

from __future__ import annotations

from typing import ClassVar

from rota.mechanisms.divide.by_need import ByNeed
from rota.mechanisms.divide.layout import Layout
from rota.mechanisms.divide.packing import Packing
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
