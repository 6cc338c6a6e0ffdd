"""Which CPUs a task gets: on as few NUMA nodes as possible, near its GPUs where that is known.

Whole CPUs are given to one task alone; the fraction that remains shares a CPU with other fractions.
A machine that is believed to have more CPUs than it has (an emulated server) still gives out what
is asked: the least used CPUs are given again, and the answer says `virtual`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from rota.core.tolerance import TOLERANCE


@dataclass(frozen=True, slots=True)
class Pinning:
    """CPUs of a task, a divided one last.

    `quota` (in CPUs) is given where a part of a CPU was really set apart.
    """

    cpus: tuple[int, ...]
    quota: float | None = None
    nodes: tuple[int, ...] = ()
    virtual: bool = False


class CpuAllocator:
    """Who has which CPUs. `nodes` maps NUMA nodes to CPU ids that may be used."""

    def __init__(self, nodes: Mapping[int, Iterable[int]]) -> None:
        self._node_of = {cpu: node for node, cpus in nodes.items() for cpu in cpus}
        self._load = dict.fromkeys(sorted(self._node_of), 0.0)
        self._held: dict[str, dict[int, float]] = {}

    def take(self, task: str, wanted: float, near: Iterable[int] = ()) -> Pinning:
        """Give a task its CPUs; `near` names the nodes of its GPUs."""
        whole = math.floor(wanted + TOLERANCE)
        rest = wanted - whole if wanted - whole > TOLERANCE else 0.0
        held = self._exclusive(whole, rest, set(near))
        virtual = held is None
        if held is None:
            held = self._again(whole, rest)
        self.restore(task, held)
        cpus = tuple(held)  # the divided one last
        nodes = tuple(sorted({self._node_of[cpu] for cpu in cpus}))
        return Pinning(cpus, wanted if rest and not virtual else None, nodes, virtual)

    def restore(self, task: str, held: Mapping[int, float]) -> None:
        """Enter what a task already has, as after a restart of the agent.

        CPUs that are gone are left out.
        """
        self.release(task)
        self._held[task] = {cpu: part for cpu, part in held.items() if cpu in self._load}
        for cpu, part in self._held[task].items():
            self._load[cpu] += part

    def release(self, task: str) -> None:
        """Take back what a task has; nothing happens if it has nothing."""
        for cpu, part in self._held.pop(task, {}).items():
            self._load[cpu] = max(0.0, self._load[cpu] - part)
            if self._load[cpu] < TOLERANCE:
                self._load[cpu] = 0.0

    def free(self) -> float:
        """CPUs that nobody has."""
        return sum(max(0.0, 1.0 - load) for load in self._load.values())

    def _exclusive(self, whole: int, rest: float, near: set[int]) -> dict[int, float] | None:
        """CPUs nobody else has, and a part of one.

        None if the machine has not got that much left.
        """
        idle: dict[int, list[int]] = {}
        for cpu, load in self._load.items():
            if load == 0.0:
                idle.setdefault(self._node_of[cpu], []).append(cpu)
        chosen: list[int] = []
        while len(chosen) < whole:
            node = _next_node(idle, whole - len(chosen), near)
            if node is None:
                return None
            chosen += idle.pop(node)[: whole - len(chosen)]
        held = dict.fromkeys(chosen, 1.0)
        if rest:
            divided = self._cpu_to_divide(held, rest, near)
            if divided is None:
                return None
            held[divided] = rest
        return held

    def _cpu_to_divide(self, held: Mapping[int, float], part: float, near: set[int]) -> int | None:
        """A CPU with this part free: near the others, then one that is already divided.

        None if there is none.
        """
        homes = {self._node_of[cpu] for cpu in held} or near
        fitting = [
            cpu
            for cpu, load in self._load.items()
            if cpu not in held and load + part <= 1 + TOLERANCE
        ]

        def preference(cpu: int) -> tuple[bool, float, int]:
            return bool(homes) and self._node_of[cpu] not in homes, -self._load[cpu], cpu

        return min(fitting, key=preference, default=None)

    def _again(self, whole: int, rest: float) -> dict[int, float]:
        """The least used CPUs, round and round."""
        parts = [1.0] * whole + ([rest] if rest else [])
        held: dict[int, float] = {}
        for part in parts:
            cpu = min(self._load, key=lambda c: (self._load[c] + held.get(c, 0.0), c))
            held[cpu] = held.get(cpu, 0.0) + part
        return held


def shares(wanted: float, cpus: tuple[int, ...]) -> dict[int, float]:
    """How much of each CPU a task of this size holds, for entering it again after a restart."""
    if len(cpus) >= wanted - TOLERANCE:
        held = dict.fromkeys(cpus, 1.0)
        if cpus and len(cpus) > wanted + TOLERANCE:
            held[cpus[-1]] = 1.0 - (len(cpus) - wanted)
        return held
    return dict.fromkeys(cpus, wanted / len(cpus)) if cpus else {}


def _next_node(idle: Mapping[int, list[int]], wanted: int, near: set[int]) -> int | None:
    """The nearest and then smallest node that has all of it, else the one with most."""
    nodes = [node for node in idle if idle[node]]
    if not nodes:
        return None
    enough = [node for node in nodes if len(idle[node]) >= wanted]
    if enough:
        return min(
            enough, key=lambda node: (bool(near) and node not in near, len(idle[node]), node)
        )
    return min(nodes, key=lambda node: (bool(near) and node not in near, -len(idle[node]), node))
