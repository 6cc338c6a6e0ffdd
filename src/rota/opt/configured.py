"""The polytope of feasible time shares when a job may also hold different amounts of CPUs and memory.

Variables are total times y_k of columns k = (group g, type j, configuration q); a configuration is so many CPUs and GB
of the whole job, with a speed v_q relative to the proportional share. s GPUs, c CPUs, m GB, N, C, M what a type has:

    sum_k in g  T_gj v_q a_g y_k >= need_g         what each group must get
    sum_k in g  y_k              <= n_g            time of a group
    sum_k on j  s_g y_k          <= N_j            GPUs of a type
    sum_k on j  c_q y_k / c_j    <= C_j / c_j      CPUs of a type, counted in proportional shares of a GPU
    sum_k on j  m_q y_k / m_j    <= M_j / m_j      memory of a type, likewise

Storage has no row because none could bind: rates hold for the least MB/s per GPU of the type's servers (core.ports,
on_servers), so nobody reads more than its GPUs' part of it, and the GPU row times that least is at most what the
servers have together. CPUs and memory are summed over the servers of a type; that they also fit server by server is up
to the mechanism.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from rota.core.arrays import BoolArray, FloatArray, IntArray
from rota.core.configurations import Holding
from rota.core.errors import SolveError
from rota.core.view import View
from rota.opt.groups import Groups, proportional_rate, ratio, usable_rate
from rota.opt.lp import Int32Array, LinearProgram
from rota.opt.shares import HELD, INFINITY
from rota.opt.targets import CLOSE, MOST_TRIALS, Pace, first_trial

BUSY = 1e-7
"""What a GPU that is in use counts for, relative to the most that one can be worth: enough to break ties."""


@dataclass(frozen=True, slots=True, eq=False)
class Menu:
    """CPUs, memory and speed of whole jobs; the first rows are those of the view's configurations."""

    cpus: FloatArray
    memory_gb: FloatArray
    speed: FloatArray


@dataclass(frozen=True, slots=True, eq=False)
class Columns:
    """The ways to run of every group: all configurations worth choosing on every type where it has speed."""

    group: IntArray
    type: IntArray
    config: IntArray
    """What a job holds: a row of the menu."""
    menu: Menu
    rate: FloatArray
    """Steps/s of one job."""
    use: FloatArray
    """[3, K] GPUs, CPUs and memory of one job; the last two in proportional shares of a GPU."""
    room: FloatArray
    """[3, T] what there is of each, in the same units; infinite where the cluster does not say."""

    def __len__(self) -> int:
        return len(self.group)


def columns(view: View, groups: Groups) -> Columns:
    """The columns of the groups of a view."""
    up = (view.capacity > 0) & (view.classes.throughput > 0)
    menu, rows = _menu(view, np.unique(groups.kind).tolist(), up)
    none = np.zeros(0, dtype=np.int64)
    by_class = {c: np.concatenate([none, *(rows[c, t] for t in up[c].nonzero()[0].tolist())]) for c in _present(rows)}
    types = {
        c: np.concatenate([none, *(np.full(len(rows[c, t]), t) for t in up[c].nonzero()[0].tolist())])
        for c in _present(rows)
    }
    classes = groups.kind.tolist()
    group = np.repeat(np.arange(len(groups)), [len(by_class[c]) if c in by_class else 0 for c in classes])
    gpu_type = np.concatenate([none, *(types[c] for c in classes if c in types)]).astype(np.int64)
    config = np.concatenate([none, *(by_class[c] for c in classes if c in by_class)]).astype(np.int64)
    fair_cpus, cpus = _by_type(view, view.cluster.fair_cpus, view.cluster.server_cpus)
    fair_memory, memory = _by_type(view, view.cluster.fair_memory_gb, view.cluster.server_memory_gb)
    return Columns(
        group=group,
        type=gpu_type,
        config=config,
        menu=menu,
        rate=view.classes.throughput[groups.kind[group], gpu_type] * menu.speed[config],
        use=np.stack(
            [
                groups.gpus[group],
                menu.cpus[config] / fair_cpus[gpu_type],
                menu.memory_gb[config] / fair_memory[gpu_type],
            ]
        ),
        room=np.stack([view.capacity.astype(np.float64), cpus, memory]),
    )


def _present(rows: dict[tuple[int, int], IntArray]) -> list[int]:
    return sorted({group for group, _ in rows})


def _menu(view: View, present: list[int], up: BoolArray) -> tuple[Menu, dict[tuple[int, int], IntArray]]:
    """All that jobs of these classes may hold, and the rows of each class and type."""
    known = view.classes.configurations
    more: list[Holding] = []
    rows: dict[tuple[int, int], IntArray] = {}
    for group in present:
        for gpu_type in up[group].nonzero()[0].tolist():
            own = {
                known.holding(int(table[group, gpu_type])): int(table[group, gpu_type])
                for table in (known.full, known.fair)
            }
            numbers = []
            for holding in known.choices(group, gpu_type):
                if holding in own:
                    numbers.append(own[holding])
                else:
                    numbers.append(len(known.cpus) + len(more))
                    more.append(holding)
            rows[group, gpu_type] = np.array(numbers, dtype=np.int64)
    menu = Menu(
        cpus=np.concatenate([known.cpus, [holding.cpus for holding in more]]),
        memory_gb=np.concatenate([known.memory_gb, [holding.memory_gb for holding in more]]),
        speed=np.concatenate([known.speed, [holding.speed for holding in more]]),
    )
    return menu, rows


def total_worth(view: View) -> FloatArray:
    """[C] what a step counts in the total of a second stage: s / p with p the proportional rate at full speed.

    With the rates of the proportional share, a class that CPUs speed up twice would count twice as much as the others,
    and take fast GPUs from classes that lose more time without them than it gains.
    """
    known = view.classes.configurations
    best = proportional_rate(usable_rate(view) * known.speed[known.full], view.capacity)
    return view.classes.gpus * ratio(np.ones(len(best)), best)


def _by_type(view: View, fair: FloatArray, server: FloatArray) -> tuple[FloatArray, FloatArray]:
    """[T] the unit of a resource and how many units there are beside the GPUs that are up."""
    cluster = view.cluster
    total = np.bincount(cluster.server_type, weights=server, minlength=len(cluster.types))
    unit = np.where(fair > 0, fair, 1.0)
    return unit, np.where(fair > 0, total / unit * view.capacity / cluster.capacity, INFINITY)


@dataclass(frozen=True, eq=False)
class Configured:
    """Coefficients of the feasible set; the last column of a program is the level of max-min fairness."""

    groups: Groups
    columns: Columns
    scale: FloatArray
    """[G] what a group gets by step, in the unit of its need."""

    @cached_property
    def gain(self) -> FloatArray:
        """[K] what a group gets per unit of time."""
        return self.columns.rate * self.scale[self.columns.group]

    @cached_property
    def fastest(self) -> FloatArray:
        """[G] the largest gain of each group; 0 for one that cannot run."""
        best = np.zeros(len(self.groups))
        np.maximum.at(best, self.columns.group, self.gain)
        return best

    def program(
        self, cost: FloatArray, need: FloatArray, level: FloatArray, bounds: tuple[float, float], name: str
    ) -> LinearProgram:
        """The linear program; `level` are the coefficients of its last column in the need rows."""
        many, groups, types = len(self.columns), len(self.groups), self.columns.room.shape[1]
        first = 2 * groups + self.columns.type
        index = np.stack(
            [self.columns.group, groups + self.columns.group, first, first + types, first + 2 * types], axis=1
        )
        value = np.stack([self.gain, np.ones(many), *self.columns.use], axis=1)
        free = np.full(groups + 3 * types, -INFINITY)
        lower, upper = np.zeros(many + 1), np.full(many + 1, INFINITY)
        lower[-1], upper[-1] = bounds
        return LinearProgram(
            cost=cost,
            lower=lower,
            upper=upper,
            row_lower=np.concatenate([need, free]),
            row_upper=np.concatenate([-free[:groups], self.groups.count, self.columns.room.ravel()]),
            start=np.arange(0, 5 * many + 1, 5, dtype=np.int32),
            index=np.concatenate([index.ravel(), np.arange(groups)]).astype(np.int32),
            value=np.concatenate([value.ravel(), -level]),
            name=name,
        )

    def costs(self, value: FloatArray) -> FloatArray:
        """Costs that maximise the sum of value [G] x steps and, where that makes no difference, GPU time.

        A job that waits for its CPUs does as much in all the time with 4 of them as in half the time with 8; the
        former leaves no GPU idle.
        """
        worth = self.columns.rate * value[self.columns.group]
        busy = BUSY * float((worth / self.columns.use[0]).max(initial=0.0))
        return np.append(-worth - busy * self.columns.use[0], 0.0)

    def level_only(self) -> FloatArray:
        """Costs that maximise the level."""
        return np.append(np.zeros(len(self.columns)), -1.0)


@dataclass(frozen=True, slots=True, eq=False)
class Found:
    """The value of the goal, the times [K] that reach it, and where the stages of the next solve may start."""

    value: float
    times: FloatArray
    memory: dict[str, Int32Array]


def fairest(problem: Configured, value: FloatArray, start: dict[str, Int32Array | None]) -> Found:
    """Maximise the lowest gain of a job, then the sum of value [G] x steps with that held.

    The second stage is there because the first has many optima, and a vertex of it may leave most GPUs idle.
    """
    counted = np.where(problem.fastest > 0, problem.groups.count, 0.0)
    if not counted.any():
        return Found(0.0, np.zeros(len(problem.columns)), {})
    own = float(problem.fastest[counted > 0].min())
    program = problem.program(
        problem.level_only(), np.zeros(len(counted)), counted, (0.0, own), "max-min fairness over configurations"
    )
    first = program.solve(start.get("basis"), check=False)
    level = float(first.x[-1])
    program.change(cost=problem.costs(value), column=(len(problem.columns), level * HELD, INFINITY))
    second = program.improve(start.get("second_basis"))
    return Found(level, _times(second.x), {"basis": first.basis, "second_basis": second.basis})


def most(problem: Configured, value: FloatArray, start: dict[str, Int32Array | None]) -> Found:
    """Maximise the sum of value [G] x steps."""
    nothing = np.zeros(len(problem.groups))
    program = problem.program(
        problem.costs(value), nothing, nothing, (0.0, 0.0), "most total throughput over configurations"
    )
    found = program.solve(start.get("basis"))
    times = _times(found.x)
    total = float((problem.columns.rate * value[problem.columns.group]) @ times)
    return Found(total, times, {"basis": found.basis})


def highest(problem: Configured, pace: Pace, value: FloatArray, trial: float) -> Found:
    """The highest common target v with gain_g >= r_g(v), then the most of value [G] x steps (see paced.py).

    r is convex: the program with its tangents at a trial overestimates the optimum, and its answer is the next trial.
    Every group is one job, and the pace is in the unit of the gains.
    """
    limit = pace.limit()
    if limit == INFINITY:  # nobody needs anything any more
        return Found(0.0, most(problem, value, {}).times, {})
    v, basis = first_trial(trial, limit), None
    for _ in range(MOST_TRIALS):
        program = _tangent(problem, pace, v, limit)
        found = program.solve(basis)
        basis, reached = found.basis, v * float(found.x[-1])
        if abs(reached - v) <= CLOSE * v:
            break
        v = reached
    else:
        raise SolveError(f"no common target after {MOST_TRIALS} trials; last {v!r}, {reached!r}")
    target = min(v, reached)
    program = _tangent(problem, pace, target, INFINITY)
    program.change(cost=problem.costs(value), column=(len(problem.columns), HELD, INFINITY))
    return Found(target, _times(program.solve(basis).x), {})


def _tangent(problem: Configured, pace: Pace, v: float, limit: float) -> LinearProgram:
    """The program with tangents at v; its level is in units of v, so that it is about 1."""
    slope = pace.slope(v) * v
    return problem.program(
        problem.level_only(), pace.rate(v) - slope, slope, (0.0, limit / v), "common target over configurations"
    )


def _times(x: FloatArray) -> FloatArray:
    return np.maximum(x[:-1], 0.0)
