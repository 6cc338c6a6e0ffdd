"""First fit with what every job would like to have (Synergy-Greedy; Mohan et al., OSDI 2022).

A job starts only where its GPUs, CPUs and memory are free together; otherwise it waits and the next one in the queue
is tried. GPUs stay idle while CPUs or memory are short, and a demanding job may starve: the share policies and
`starvation_s` put it in front in the end, but it still needs a round in which everything fits.
"""

from __future__ import annotations

from rota.mechanisms.divide.by_need import ByNeed, Layout
from rota.mechanisms.divide.packing import Packing
from rota.mechanisms.registry import mechanisms


@mechanisms.register("greedy")
class Greedy(ByNeed):
    """Every job gets the CPUs and memory it would like, or waits; may starve demanding jobs.

    Parameters: consolidate - keep jobs on few servers; slots - whether to report the servers.
    """

    walks = True

    def lay_out(self, layout: Layout, packing: Packing, tasks: list[int]) -> None:
        """Put the tasks of one type on its servers."""
        cpus, memory = layout.known.cpus.tolist(), layout.known.memory_gb.tolist()
        sizes, wishes = layout.size, layout.full
        hopeless: set[int] = set()
        for task in tasks:
            size, wish = sizes[task], wishes[task]
            if packing.free < size:
                if packing.free == 0:
                    break
                continue
            if wish in hopeless:  # room only shrinks
                continue
            slots = packing.fit(size, cpus[wish], memory[wish])
            if slots is None:
                hopeless.add(wish)
                continue
            packing.put(task, size, cpus[wish], memory[wish], slots)
            layout.config[task] = wish
