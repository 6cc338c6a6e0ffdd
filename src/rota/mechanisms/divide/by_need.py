"""What the mechanisms that divide CPUs and memory by need have in common.

They put tasks on servers one after the other in the order in which they were chosen (`Packing`), and end with the
columns of a placement. Each type is laid out by itself. Two jobs that share GPUs hold one proportional share.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from rota.core.arrays import BoolArray, IntArray, counting, every
from rota.core.placement import Placement
from rota.core.rules import Rules
from rota.core.view import View
from rota.mechanisms.choice import Choice
from rota.mechanisms.divide.packing import Packing, Slots, slot_columns
from rota.mechanisms.divide.slots import alone


class Layout:
    """Tasks of one round, the configurations they would like and those they get."""

    def __init__(self, view: View, choice: Choice, *, largest_first: bool) -> None:
        rows, partner, kind = choice.first, choice.second, choice.type
        if choice.wasted is not None:
            runs = (~choice.wasted).nonzero()[0]
            rows, kind = rows[runs], kind[runs]
            partner = None if partner is None else partner[runs]
        if largest_first and choice.largest_first:
            order = np.argsort(-view.gpus[rows], kind="stable")
            rows, kind = rows[order], kind[order]
            partner = None if partner is None else partner[order]
        self.view, self.rows, self.partner, self.kind = view, rows, partner, kind
        known, group = view.classes.configurations, view.job_class[rows]
        self.group = group
        self.known = known
        self.fair: list[int] = known.fair[group, kind].tolist()
        full = known.full[group, kind]
        if partner is not None:
            full = np.where(partner >= 0, known.fair[group, kind], full)
        self.full: list[int] = full.tolist()
        self.size: list[int] = view.gpus[rows].tolist()
        self.steady = choice.steady
        self.config: list[int] = [-1] * len(rows)
        self.slots: list[Slots] = [[]] * len(rows)

    def last_slots(self, first_server: int) -> list[Slots | None]:
        """Where each task ran in the last round, with the same members on the same type; None for the others.

        Servers are counted from the first of the type.
        """
        last, tasks = self.view.placement, self.view.last_task
        nowhere: list[Slots | None] = [None] * len(self.rows)
        if last is None or tasks is None or len(last) == 0 or last.fraction is not None:
            return nowhere
        row = tasks[self.rows]
        here = (row >= 0) & (last.type[row] == self.kind)
        second = np.full(len(row), -1) if self.partner is None else self._partners()
        here &= last.second[row] == second
        start, sizes = last.slot_start.tolist(), last.slot_gpus.tolist()
        servers = (last.slot_server - first_server).tolist()
        for task in here.nonzero()[0].tolist():
            part = slice(start[row[task]], start[row[task] + 1])
            nowhere[task] = list(zip(servers[part], sizes[part], strict=True)) or None
        return nowhere

    def _partners(self) -> IntArray:
        assert self.partner is not None  # noqa: S101 - the callers have looked
        return np.where(self.partner >= 0, self.view.jobs[self.partner], -1)

    def placement(self, *, slots: bool) -> Placement:
        """The round, tasks by job id; the last placement itself if nothing but that came out again."""
        config = np.array(self.config, dtype=np.int64)
        put = (config >= 0).nonzero()[0]
        put = put[np.argsort(self.rows[put])]
        rows, config, kind = self.rows[put], config[put], self.kind[put]
        first, last = self.view.jobs[rows], self.view.placement
        second = alone(len(rows)) if self.partner is None else self._partners()[put]
        start, servers, sizes = slot_columns([self.slots[t] for t in put.tolist()] if slots else [])
        columns: dict[str, Any] = {
            "slot_start": np.array(start) if slots else np.zeros(len(put) + 1, dtype=np.int64),
            "slot_server": np.array(servers, dtype=np.int64),
            "slot_gpus": np.array(sizes, dtype=np.int64),
        }
        same = last is not None and len(last) == len(rows) and last.config is not None
        if same and last is not None and last.steady == self.steady and _again(last, first, second, config, columns):
            return last
        return Placement(
            first=first,
            second=second,
            type=kind,
            gpus=self.view.gpus[rows],
            kept=self._kept(rows, second, kind, columns, slots=slots),
            cpus=self.known.cpus[config],
            memory_gb=self.known.memory_gb[config],
            config=config,
            shared=self.partner is not None,
            steady=self.steady,
            **columns,
        )

    def _kept(
        self, rows: IntArray, second: IntArray, kind: IntArray, columns: dict[str, Any], *, slots: bool
    ) -> BoolArray:
        """Who holds the very GPUs it had in the round before."""
        last, tasks = self.view.placement, self.view.last_task
        if last is None or tasks is None or len(last) == 0 or last.fraction is not None:
            return np.zeros(len(rows), dtype=np.bool_)
        row = tasks[rows]
        kept: BoolArray = (row >= 0) & (last.type[row] == kind) & (last.second[row] == second)
        if not slots:
            return kept
        start, server, size = columns["slot_start"], columns["slot_server"], columns["slot_gpus"]
        for task in kept.nonzero()[0].tolist():
            mine, old = slice(start[task], start[task + 1]), slice(*last.slot_start[row[task] : row[task] + 2])
            kept[task] = np.array_equal(server[mine], last.slot_server[old]) and np.array_equal(
                size[mine], last.slot_gpus[old]
            )
        return kept


def _again(last: Placement, first: IntArray, second: IntArray, config: IntArray, columns: dict[str, Any]) -> bool:
    return (
        last.config is not None
        and every(last.first == first)
        and every(last.config == config)
        and every(last.second == second)
        and len(last.slot_server) == len(columns["slot_server"])
        and every(last.slot_server == columns["slot_server"])
        and every(last.slot_gpus == columns["slot_gpus"])
        and every(last.kept)
    )


class ByNeed:
    """Lays out a round type by type; the mechanisms say what to do with one task."""

    by_need = True
    walks = False
    """Whether a job that does not fit is passed over for the next one in the queue."""
    largest_first = False

    def __init__(self, consolidate: bool = False, slots: bool = True) -> None:
        self._consolidate = consolidate
        self._slots = slots
        self._rules = Rules()

    def follow(self, rules: Rules) -> None:
        """The rules of the run; without servers there is no staying on them."""
        self._rules = rules
        self._slots = self._slots or not rules.repack

    def divide(self, view: View, choice: Choice) -> Placement:
        """Servers, CPUs and memory for the chosen options."""
        layout = Layout(view, choice, largest_first=self.largest_first)
        cluster = view.cluster
        for kind in range(len(view.types)):
            tasks = counting(len(layout.rows)) if len(view.types) == 1 else (layout.kind == kind).nonzero()[0]
            if len(tasks) == 0:
                continue
            lo, hi = cluster.server_bounds[kind], cluster.server_bounds[kind + 1]
            packing = Packing(
                cluster.server_gpus[lo:hi],
                cluster.server_cpus[lo:hi],
                cluster.server_memory_gb[lo:hi],
                (float(cluster.fair_cpus[kind]), float(cluster.fair_memory_gb[kind])),
                first=lo,
                consolidate=self._consolidate,
            )
            self.lay_out(layout, packing, tasks.tolist())
            for task, slots in packing.slots.items():
                layout.slots[task] = slots if lo == 0 else [(lo + server, part) for server, part in slots]
        return layout.placement(slots=self._slots)

    def lay_out(self, layout: Layout, packing: Packing, tasks: list[int]) -> None:
        """Put the tasks of one type on its servers."""
        raise NotImplementedError
