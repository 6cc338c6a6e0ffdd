"""What the mechanisms that divide CPUs and memory by need have in common.

They put tasks on servers one after the other in the order in which they were chosen (`Packing`), and end with the
columns of a placement (`Chosen`). Each type is laid out by itself (`Layout`). Two jobs that share GPUs hold one
proportional share.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import ClassVar

import numpy as np

from rota.core.arrays import IntArray, counting, every
from rota.core.cluster import Cluster
from rota.core.horizon import WITH_RANKING, WITH_RANKING_ONCE_REPEATED
from rota.core.placement import Placement
from rota.core.rules import Rules
from rota.core.view import View
from rota.mechanisms.choice import Choice
from rota.mechanisms.divide.chosen import Chosen, joined
from rota.mechanisms.divide.holdings import Holdings
from rota.mechanisms.divide.layout import Layout
from rota.mechanisms.divide.packing import Columns, Packing
from rota.mechanisms.dividing import Abilities, Divide

_NONE: IntArray = np.zeros(0, dtype=np.int64)


class ByNeed(Divide):
    """Lays out a round type by type; the mechanisms say what to do with the tasks of one."""

    abilities: ClassVar[Abilities] = Abilities(by_need=True)
    largest_first: ClassVar[bool] = False
    stays: ClassVar[bool] = False
    """Whether jobs stay on their servers, unless the rules lay out every round afresh."""

    def __init__(self, consolidate: bool | None = None, slots: bool = True) -> None:
        """Unless it is said, jobs are kept on few servers where it costs them speed not to be."""
        self._consolidate = consolidate
        self._slots = slots
        self._rules = Rules()
        self._servers: _Servers | None = None
        self._last_made: Placement | None = None
        self._last_asked: IntArray = _NONE
        self._last_types: IntArray = _NONE

    def follow(self, rules: Rules) -> None:
        """The rules of the run; without servers there is no staying on them."""
        self._rules = rules
        self._slots = self._slots or not rules.repack

    def divide(self, view: View, choice: Choice) -> Placement:
        """Servers, CPUs and memory for the chosen options."""
        asked = view.jobs[choice.first]
        again = self._again(view, choice, asked)
        if again is not None:
            return again
        self._last_made = self._laid_out(view, choice)
        self._last_asked = asked
        self._last_types = choice.type
        return self._last_made

    def _laid_out(self, view: View, choice: Choice) -> Placement:
        servers = self._servers_of(view)
        holdings = servers.holdings
        chosen = Chosen(view, choice, largest_first=self.largest_first)
        put: list[IntArray] = []
        rows: list[IntArray] = []
        slots: list[Columns] = []
        free = view.cluster.gpus
        for gpu_type, packing in enumerate(servers.packings):
            tasks = _of_type(chosen, gpu_type, len(view.types))
            if len(tasks) == 0:
                continue
            layout = self._layout(chosen, tasks, gpu_type, packing.first, holdings)
            packing.begin(holdings, consolidate=self._together(view), balance=choice.wish is not None)
            lay_out = self.lay_out if view.staying is None else self.lay_out_around
            lay_out(layout, packing)
            free -= packing.taken
            put.append(packing.task if layout.rows is chosen.rows else layout.tasks[packing.task])
            rows.append(packing.config)
            if self._slots:
                start, server, sizes = packing.columns
                slots.append((start, server + packing.first, sizes))
        horizon = choice.horizon_with(free)
        if horizon is WITH_RANKING and not self._rules.repack:  # not laid out afresh, jobs may be shifted once more
            horizon = WITH_RANKING_ONCE_REPEATED
        return chosen.placement(joined(put), joined(rows), holdings, slots, horizon)

    def _layout(self, chosen: Chosen, tasks: IntArray, gpu_type: int, first_server: int, holdings: Holdings) -> Layout:
        """The tasks of one type."""
        stays = chosen.view.staying is not None or (self.stays and not self._rules.repack)
        resets = self._rules.reset_to_share
        return Layout(chosen, tasks, gpu_type, first_server, holdings, stays=stays, resets=resets)

    def _together(self, view: View) -> bool:
        if self._consolidate is None:
            return self._rules.spread_costs and view.classes.spreading_costs
        return self._consolidate

    def _again(self, view: View, choice: Choice, asked: IntArray) -> Placement | None:
        """The last answer, if the same jobs are chosen in the same order and all of them just go on."""
        last = self._last_made
        if last is None or last is not view.placement or last.shared:
            return None
        if choice.second is not None or choice.wasted is not None or choice.wish is not None:
            return None
        same_tasks = (
            last.horizon.until == choice.horizon.until
            and len(asked) == len(self._last_asked)
            and every(asked == self._last_asked)
            and every(choice.type == self._last_types)
        )
        return last if same_tasks and every(last.kept) else None

    def _servers_of(self, view: View) -> _Servers:
        """The servers of each type, kept between rounds for as long as the cluster is the same."""
        servers = self._servers
        if servers is None or servers.cluster is not view.cluster:
            servers = self._servers = _Servers(view)
            self.cluster_changed()
        elif servers.holdings.known is not view.classes.configurations:
            servers.holdings.follow(view.classes.configurations)
        return servers

    def cluster_changed(self) -> None:
        """Forget what was true of the servers of before."""

    @abstractmethod
    def lay_out(self, layout: Layout, packing: Packing) -> None:
        """Put the tasks of one type on its empty servers."""

    @abstractmethod
    def lay_out_around(self, layout: Layout, packing: Packing) -> None:
        """The same with everybody who runs on its GPUs (`layout.stay`): some of them have to stay."""


class _Servers:
    """The servers of one cluster, by type."""

    def __init__(self, view: View) -> None:
        cluster = view.cluster
        self.cluster: Cluster = cluster
        self.holdings = Holdings(view.classes.configurations)
        self.packings: list[Packing] = []
        for gpu_type in range(len(cluster.types)):
            lo = cluster.server_bounds[gpu_type]
            hi = cluster.server_bounds[gpu_type + 1]
            self.packings.append(
                Packing(
                    cluster.server_gpus[lo:hi],
                    cluster.server_cpus[lo:hi],
                    cluster.server_memory_gb[lo:hi],
                    (float(cluster.fair_cpus[gpu_type]), float(cluster.fair_memory_gb[gpu_type])),
                    first=lo,
                )
            )


def _of_type(chosen: Chosen, gpu_type: int, types: int) -> IntArray:
    if types == 1:
        return counting(len(chosen.rows))
    tasks: IntArray = (chosen.gpu_type == gpu_type).nonzero()[0]
    return tasks
