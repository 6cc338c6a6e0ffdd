"""Whom a task that finds no room displaces: on which servers, and who gives back what it holds beyond its share."""

from __future__ import annotations

from rota.core.arrays import IntArray
from rota.core.tolerance import TOLERANCE
from rota.mechanisms.divide.packing import Packing, Slots


def emptied(packing: Packing, size: int) -> Slots:
    """The servers on which a task that finds no room will displace others, with its GPUs on each.

    One server with all the GPUs if there is one (the first), otherwise those with the fewest free GPUs.
    """
    if size > 1:
        for server, free in enumerate(packing.gpus):
            if free >= size:
                return [(server, size)]
    slots: Slots = []
    for free, server in sorted((free, server) for server, free in enumerate(packing.gpus) if free):
        part = min(free, size)
        slots.append((server, part))
        size -= part
        if size == 0:
            break
    return slots


def givers(packing: Packing, server: int, cpus: float, memory: float, sizes: IntArray) -> list[int]:
    """Rows of tasks on a server that give back what they hold beyond their share, until so much is free there.

    Those on few servers and with much per GPU come first; the list of the server stays in that order.
    """
    lack_cpus = cpus - packing.cpus[server]
    lack_memory = memory - packing.memory[server]
    if lack_cpus <= TOLERANCE and lack_memory <= TOLERANCE:
        return []
    size = sizes[packing.task].tolist()
    config = packing.config.tolist()
    here = packing.tasks_on(server)
    here.sort(key=lambda row: _greed(packing, row, size[row], config[row]))
    chosen: list[int] = []
    for row in here:
        chosen.append(row)
        part = next(p for s, p in packing.slots(row) if s == server)
        ratio = part / size[row]
        held_cpus, held_memory = packing.holds(config[row])
        lack_cpus -= max(0.0, held_cpus * ratio - part * packing.fair_cpus)
        lack_memory -= max(0.0, held_memory * ratio - part * packing.fair_memory)
        if lack_cpus <= TOLERANCE and lack_memory <= TOLERANCE:
            break
    return chosen


def _greed(packing: Packing, row: int, size: int, config: int) -> tuple[int, float, float]:
    cpus, memory = packing.holds(config)
    return len(packing.slots(row)), -cpus / size, -memory / size
