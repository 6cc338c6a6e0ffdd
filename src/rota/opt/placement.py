"""Which CPUs and memory jobs should hold so that the sum of their speeds is as large as it can be.

Jobs of a class are interchangeable, so both programs count jobs instead of naming them:

1. `most_speed`: how many jobs of each class hold which option, with all servers of a type taken as
   one. Its linear relaxation is the bound that everything is measured against. The number of
   variables does not depend on the number of jobs.
2. `most_speed_on_servers`: the same server by server, where a job of several GPUs is either whole
   on one server or cut at GPUs. Only for a few servers at a time: equal servers can be exchanged,
   which makes the search long.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from rota.core.arrays import FloatArray, IntArray
from rota.core.errors import InfeasibleError
from rota.core.tolerance import TOLERANCE
from rota.opt.lp import Int32Array, LinearProgram
from rota.opt.whole import is_whole, solve_whole


@dataclass(frozen=True, slots=True, eq=False)
class Menu:
    """The options of the jobs of one class, for a whole job each."""

    count: int
    gpus: int
    cpus: FloatArray
    memory_gb: FloatArray
    speed: FloatArray


@dataclass(frozen=True, slots=True, eq=False)
class Counts:
    """How many jobs of each class hold which option."""

    chosen: tuple[IntArray, ...]
    """By menu and option."""
    total: float
    """The sum of their speeds."""
    bound: float
    """The sum that not even a linear relaxation exceeds."""
    worth: FloatArray
    """What another job of each class would add to the bound."""
    cpu_price: float
    """What another CPU would add to it."""
    memory_price: float
    seconds: float
    """How long the search for whole numbers took."""


def most_speed(
    menus: Sequence[Menu], cpus: float, memory_gb: float, *, time_limit_s: float, gap: float
) -> Counts | None:
    """The most total speed with this number of CPUs and this much memory.

    None without a solution in time.
    """
    program = _by_option(menus, cpus, memory_gb)
    try:
        relaxed = program.solve()
    except InfeasibleError:
        return None
    x = relaxed.x
    seconds = 0.0
    if time_limit_s <= 0:
        return None
    if not is_whole(x):
        whole = solve_whole(program, time_limit_s=time_limit_s, gap=gap)
        if whole is None:
            return None
        x = whole.x
        seconds = whole.seconds
    x = np.rint(x)
    bounds = np.cumsum([len(m.speed) for m in menus])[:-1]
    return Counts(
        chosen=tuple(part.astype(np.int64) for part in np.split(x, bounds)),
        total=float(-program.cost @ x),
        bound=-relaxed.objective,
        worth=-relaxed.row_dual[: len(menus)],
        cpu_price=max(0.0, -float(relaxed.row_dual[-2]) / max(cpus, 1.0)),
        memory_price=max(0.0, -float(relaxed.row_dual[-1]) / max(memory_gb, 1.0)),
        seconds=seconds,
    )


def _by_option(menus: Sequence[Menu], cpus: float, memory_gb: float) -> LinearProgram:
    """The program with a column for each option. Rows: the jobs of each menu, CPUs, memory.

    The last two are scaled by what there is, so that the solver's tolerances mean the same for CPUs
    and memory.
    """
    speed = np.concatenate([m.speed for m in menus])
    menu = np.repeat(np.arange(len(menus)), [len(m.speed) for m in menus])
    count = np.array([m.count for m in menus], dtype=np.float64)
    cpu_scale = max(cpus, 1.0)
    memory_scale = max(memory_gb, 1.0)
    cpu_need = np.concatenate([m.cpus for m in menus]) / cpu_scale
    memory_need = np.concatenate([m.memory_gb for m in menus]) / memory_scale
    value = np.stack([np.ones(len(speed)), cpu_need, memory_need], axis=1)
    cpu_row = np.full(len(menu), len(menus))
    index = np.stack([menu, cpu_row, cpu_row + 1], axis=1)
    room = [cpus / cpu_scale + TOLERANCE, memory_gb / memory_scale + TOLERANCE]
    return LinearProgram(
        cost=-speed,
        lower=np.zeros(len(speed)),
        upper=count[menu],
        row_lower=np.concatenate([count, [-np.inf, -np.inf]]),
        row_upper=np.concatenate([count, room]),
        start=np.arange(0, value.size, 3, dtype=np.int32),
        index=index.ravel().astype(np.int32),
        value=value.ravel(),
        name="options of a round",
    )


@dataclass(frozen=True, slots=True, eq=False)
class ServerCounts:
    """What each server holds, by menu, option and server."""

    whole: IntArray
    """[variable] jobs that are whole on one server; the variables are `place`."""
    parts: IntArray
    """[variable] GPUs there of jobs that are on several servers."""
    place: IntArray
    """[variable, 3] menu, option, server."""
    seconds: float


def most_speed_on_servers(
    menus: Sequence[Menu],
    servers: Sequence[tuple[int, float, float]],
    *,
    split_cost: float,
    time_limit_s: float,
    gap: float = 0.0,
    nodes: int = 1_000_000,
) -> ServerCounts | None:
    """The most total speed on servers with (GPUs, CPUs, GB), less `split_cost` per cut job.

    Cutting a job gives each server a part in proportion to its GPUs there. None if nothing was
    found in time.
    """
    model = _ByServer(menus, servers)
    solution = solve_whole(
        model.program(split_cost),
        time_limit_s=time_limit_s,
        gap=gap,
        nodes=nodes,
    )
    if solution is None:
        return None
    x = solution.x.astype(np.int64)
    many = len(model.place)
    return ServerCounts(
        whole=x[:many],
        parts=x[many : 2 * many],
        place=model.place,
        seconds=solution.seconds,
    )


class _ByServer:
    """The program server by server.

    Columns: whole jobs by place, GPUs of cut jobs by place, cut jobs by option.

    Rows: the jobs of each menu; for each option, GPUs of cut jobs against their number; three
    resources by server.
    """

    def __init__(self, menus: Sequence[Menu], servers: Sequence[tuple[int, float, float]]) -> None:
        self.room = np.array(servers, dtype=np.float64)
        self.owner = np.repeat(np.arange(len(menus)), [len(m.speed) for m in menus])
        """[option] its menu."""
        option = np.concatenate([np.arange(len(m.speed)) for m in menus])
        self.gpus = np.array([m.gpus for m in menus], dtype=np.float64)[self.owner]
        self.count = np.array([m.count for m in menus], dtype=np.float64)
        self.speed = np.concatenate([m.speed for m in menus])
        self.need = np.stack(
            [self.gpus, np.concatenate([m.cpus for m in menus]), np.concatenate([m.memory_gb for m in menus])], axis=1
        )
        self.pair = np.repeat(np.arange(len(self.owner)), len(servers))
        """[place] its option, counted over all menus."""
        self.server = np.tile(np.arange(len(servers)), len(self.owner))
        self.place = np.stack([self.owner[self.pair], option[self.pair], self.server], axis=1)

    def program(self, split_cost: float) -> LinearProgram:
        pair = self.pair
        server = self.server
        gangs = self.gpus > 1
        fits = (self.need[pair] <= self.room[server] + TOLERANCE).all(axis=1)
        upper = [
            np.where(fits, self.count[self.owner[pair]], 0.0),
            np.where(gangs[pair], self.room[server, 0], 0.0),
            np.where(gangs, self.count[self.owner], 0.0),
        ]
        scale = np.maximum(self.room.max(axis=0), 1.0)
        counted = np.concatenate([self.count, np.zeros(len(self.owner))])
        start, index, value = self._matrix(scale)
        columns = 2 * len(pair) + len(self.owner)
        return LinearProgram(
            cost=np.concatenate([-self.speed[pair], np.zeros(len(pair)), split_cost - self.speed]),
            lower=np.zeros(columns),
            upper=np.concatenate(upper),
            row_lower=np.concatenate([counted, np.full(self.room.size, -np.inf)]),
            row_upper=np.concatenate([counted, (self.room / scale).ravel() + TOLERANCE]),
            start=start,
            index=index,
            value=value,
            name="options of a round by server",
        )

    def _matrix(self, scale: FloatArray) -> tuple[Int32Array, Int32Array, FloatArray]:
        """By columns; the rows of servers are scaled by what the largest one has."""
        pair = self.pair
        many = len(self.pair)
        options = len(self.owner)
        menus = len(self.count)
        at = np.arange(many)
        ones = np.ones(many)
        number = np.arange(options)
        entries = [
            (self.owner[pair], at, ones),
            (self.owner, 2 * many + number, np.ones(options)),
            (menus + pair, many + at, ones),
            (menus + number, 2 * many + number, -self.gpus),
        ]
        for resource in range(3):
            row = menus + options + 3 * self.server + resource
            need = self.need[pair, resource] / scale[resource]
            entries += [(row, at, need), (row, many + at, need / self.gpus[pair])]
        rows, columns, values = (np.concatenate(part) for part in zip(*entries, strict=True))
        order = np.argsort(columns, kind="stable")
        start = np.searchsorted(columns[order], np.arange(2 * many + options))
        return start.astype(np.int32), rows[order].astype(np.int32), values[order]
