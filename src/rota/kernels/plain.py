"""The inner loops in NumPy. Arrays named last are written to, so that nobody allocates twice.

`[J]` is one entry per active job (ids ascending), `[T]` per type, `[C, T]` per class and type, `[K]` per task.
"""

from __future__ import annotations

import math
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from rota.core.arrays import NO_JOB, BoolArray, FloatArray, IntArray, every, largest, smallest, trues

AnyArray: TypeAlias = NDArray[np.float64] | NDArray[np.int64]

FILLS = 1
"""Flag of `choose_ones`: jobs without a share fill what is left."""
SCATTERS = 2
"""Flag of `choose_ones`: ties are scattered."""
BY_SPEED = 4
"""Flag of `choose_ones`: of jobs without a share, those that are fast on a type fill first."""

_GOLDEN = 0.6180339887498949


def choose_ones(
    order: IntArray,
    capacity: IntArray,
    runs_on: BoolArray,
    job_class: IntArray,
    jobs: IntArray,
    share: FloatArray,
    received: FloatArray,
    owed: FloatArray,
    throughput: FloatArray,
    type_time: FloatArray,
    rows: IntArray,
    gpu_types: IntArray,
    flags: int,
) -> tuple[int, bool]:
    """Jobs of one GPU each: every type in `order` takes those with the largest share over fraction of time received.

    Ties go to who is owed most, then to the largest share, then to the oldest. Positions and types of the chosen are
    written to `rows` and `gpu_types`; returns how many they are, and whether somebody with a share found no room.
    """
    count = len(jobs)
    at = 0
    crowded = False
    unchosen = trues(count)
    for gpu_type in order.tolist():
        if at == count:
            break
        begin = at
        free = int(capacity[gpu_type])
        runs = runs_on[job_class, gpu_type] & unchosen
        taken = (runs & (share[gpu_type] > 0)).nonzero()[0]
        if len(taken) > free:
            crowded = True
            taken = _best(gpu_type, taken, free, jobs, share, received, owed, type_time, flags)
        unchosen[taken] = False
        at += len(taken)
        rows[begin:at] = taken
        if at - begin < free and at < count and flags & FILLS:
            idle = (runs & ~(share[gpu_type] > 0)).nonzero()[0]
            idle = _fillers(gpu_type, idle, free - len(taken), job_class, owed, throughput, flags)
            unchosen[idle] = False
            rows[at : at + len(idle)] = idle
            at += len(idle)
        gpu_types[begin:at] = gpu_type
    return at, crowded


def _best(
    gpu_type: int,
    rows: IntArray,
    free: int,
    jobs: IntArray,
    share: FloatArray,
    received: FloatArray,
    owed: FloatArray,
    type_time: FloatArray,
    flags: int,
) -> IntArray:
    """The first `free` of these rows."""
    if free <= 0:
        return rows[:0]
    behind = -priority(share[gpu_type][rows], received[gpu_type][rows], type_time[gpu_type])
    order = behind.argsort(kind="stable")
    if behind[order[free - 1]] == behind[order[free]]:
        order = ranked(behind, jobs[rows], owed[gpu_type][rows], share[gpu_type][rows], scatters=bool(flags & SCATTERS))
    best: IntArray = rows[order[:free]]
    return best


def _fillers(
    gpu_type: int,
    idle: IntArray,
    free: int,
    job_class: IntArray,
    owed: FloatArray,
    throughput: FloatArray,
    flags: int,
) -> IntArray:
    """The first `free` (at least one) of these rows without a share."""
    if len(idle) <= 1:
        return idle
    rates = throughput[job_class[idle]] if flags & BY_SPEED else None
    order = waiting(gpu_type, owed[gpu_type][idle], rates)
    fillers: IntArray = idle[order][:free]
    return fillers


def ranked(behind: FloatArray, jobs: IntArray, owed: FloatArray, share: FloatArray, *, scatters: bool) -> IntArray:
    """Positions, best first; ties by time owed, share and age, or by scattered numbers."""
    if scatters:
        return np.lexsort((np.modf(jobs * _GOLDEN)[0], behind))
    return np.lexsort((-share, -owed, behind))


def priority(share: FloatArray, received: FloatArray, total: FloatArray) -> FloatArray:
    """Share / (received / total); a share that received nothing yet counts a billion times."""
    with np.errstate(divide="ignore", invalid="ignore"):
        quotient: FloatArray = share / (received / total)
    odd = ~np.isfinite(quotient)
    if odd.any():
        quotient[odd] = (share * 1e9)[odd]
    return quotient


def waiting(gpu_type: int, owed: FloatArray, rates: FloatArray | None) -> IntArray:
    """Jobs without a share here, in the order in which they may fill."""
    if rates is None:
        return (-owed).argsort(kind="stable")
    return np.lexsort((-owed, -(rates[:, gpu_type] / np.maximum.reduce(rates, axis=1))))


def stay(
    rows: IntArray, gpu_types: IntArray, last_task: IntArray, last_type: IntArray, row: IntArray, kept: BoolArray
) -> bool:
    """For each task its row among those of the last round if it is on the same type again, else -1, to `row`.

    `last_task` is [J]. Returns whether it is the last round over again, task by task.
    """
    row[:] = last_task[rows]
    row[(row >= 0) & (last_type[row] != gpu_types)] = -1
    np.greater_equal(row, 0, out=kept)
    return len(row) == len(last_type) and bool((row == np.arange(len(row))).all())


def look_up(
    first: IntArray,
    gpu_types: IntArray,
    jobs: IntArray,
    job_class: IntArray,
    throughput: FloatArray,
    total: FloatArray,
    done: FloatArray,
    speed: FloatArray,
    seconds: FloatArray,
    rate: FloatArray,
    left: FloatArray,
    chunk: FloatArray,
    types: int,  # noqa: ARG001 - the compiled one does not see the shape of arrays
    length: float,
) -> None:
    """Rates of tasks and the steps they have left; with `chunk` as long as the others, also whole steps of a round.

    `seconds` are those of a step by class and type; `speed` is how much faster each task is, or nothing.
    """
    at = jobs.searchsorted(first)
    group = job_class[at]
    left[:] = total[at] - done[at]
    rate[:] = throughput[group, gpu_types]
    if len(speed):
        rate *= speed
    if len(chunk):
        step_s = seconds[group, gpu_types]
        np.maximum(np.floor(length / (step_s / speed if len(speed) else step_s)), 1.0, out=chunk)


def book(
    rows: IntArray,
    gpu_types: IntArray,
    gpus: IntArray,
    steps: FloatArray,
    seconds: FloatArray,
    each: FloatArray,
    done: FloatArray,
    attained: FloatArray,
    last_ran: FloatArray,
    received: FloatArray,
    type_time: FloatArray,
    now: float,
) -> None:
    """Credit tasks with steps, GPU-seconds and time received on their type ([T, J]); they ran until now.

    `each` is [rounds, K] seconds; they are added one round after the other, since the last bit decides ties of the
    published simulator. Without types nothing is received.
    """
    done[rows] += steps
    attained[rows] += seconds * gpus
    last_ran[rows] = now
    if len(type_time) == 0 or len(rows) == 0:
        return
    account = received[gpu_types, rows]
    for taken in each.reshape(-1, len(rows)):
        account += taken
    received[gpu_types, rows] = account
    type_time += np.bincount(gpu_types, weights=seconds, minlength=len(type_time))


def by_gpus(queue: IntArray, gpus: IntArray, taken: IntArray, free: int) -> int:
    """Down the queue, who fits into the GPUs that are left, to `taken`; smaller jobs overtake larger ones. How many."""
    at = 0
    for row, size in zip(queue.tolist(), gpus[queue].tolist(), strict=True):
        if size <= free:
            free -= size
            taken[at] = row
            at += 1
            if free == 0:
                break
    return at


def charge(
    first: IntArray,
    second: IntArray,
    gpu_types: IntArray,
    gpus: IntArray,
    seconds: FloatArray,
    prices: FloatArray,
    cpus: FloatArray,
    memory: FloatArray,
    gpu_s: FloatArray,
    price: FloatArray,
    by_type: FloatArray,
    unsaid: FloatArray,
    beside: FloatArray,
) -> bool:
    """Charge jobs with GPU-seconds and their price, two that share with half each; columns by id.

    Types are charged with GPU-seconds, and `beside` with CPU- and memory-seconds; where tasks do not say what they
    hold, `unsaid` is charged with GPU-seconds instead. False, and nothing is done, if the columns are too short.
    """
    if len(first) and max(first.max(), second.max()) >= len(gpu_s):
        return False
    pairs = second >= 0
    part = np.where(pairs, 0.5, 1.0)
    amount = seconds * gpus
    total = np.bincount(gpu_types, weights=amount, minlength=len(by_type))
    by_type += total
    if len(cpus) != len(first):
        unsaid += total
    elif len(first):
        beside[0] += (seconds * cpus).cumsum()[-1]  # from the first to the last
        beside[1] += (seconds * memory).cumsum()[-1]
    cost = amount * prices[gpu_types] * part
    amount *= part
    for ids, which in ((first, slice(None)), (second[pairs], pairs)):
        np.add.at(gpu_s, ids, amount[which])
        np.add.at(price, ids, cost[which])
    return True


def arrange(
    rows: IntArray,
    gpu_types: IntArray,
    put: IntArray,
    config: IntArray,
    jobs: IntArray,
    gpus: IntArray,
    last: IntArray,
    cpus: FloatArray,
    memory: FloatArray,
    speed: FloatArray,
    out: IntArray,
    beside: FloatArray,
    kept: BoolArray,
) -> None:
    """What was put, by position of the job, as columns of a placement.

    `rows` and `gpu_types` are positions among the active jobs, no two alike, and types of tasks; `put` says which of
    them were put, with a configuration each; `jobs`, `gpus` and `last` are columns of the active jobs, `cpus`, `memory`
    and `speed` of configurations. Out come which of `put` it is, id, type and GPUs; CPUs, memory and speed; and who ran
    in the round before.
    """
    order = rows[put].argsort()
    at = rows[put][order]
    what = config[order]
    out[0] = order
    out[1] = jobs[at]
    out[2] = gpu_types[put][order]
    out[3] = gpus[at]
    beside[0] = cpus[what]
    beside[1] = memory[what]
    beside[2] = speed[what]
    kept[:] = last[at] >= 0


def append(top: AnyArray, bottom: AnyArray, new: AnyArray, out: AnyArray, rows: IntArray, *values: AnyArray) -> None:
    """The columns of both blocks and after them those that are new.

    They are like `new`, but for these rows, whose values are given.
    """
    count = top.shape[1]
    out[: len(top), :count] = top
    out[len(top) :, :count] = bottom
    out[:, count:] = new
    for row, value in zip(rows.tolist(), values, strict=True):
        out[row, count:] = value


def without(top: AnyArray, bottom: AnyArray, gone: IntArray, out: AnyArray, rows: int) -> None:  # noqa: ARG001
    """The columns of both blocks, which have so many rows together, but for these, which ascend."""
    keep = trues(top.shape[1])
    keep[gone] = False
    out[: len(top)] = top[:, keep]
    out[len(top) :] = bottom[:, keep]


def seat(
    jobs: IntArray,
    group: IntArray,
    first: IntArray,
    gpu_types: IntArray,
    best: FloatArray,
    given: FloatArray,
    rows: IntArray,
    last: IntArray,
    speed: FloatArray,
    types: int,
    divided: bool,
) -> int:
    """Where the jobs of tasks stand among the active ones, and which task each of these has ([J], -1 for none).

    If CPUs and memory are divided, jobs get the speed that is `given` to their task; those who wait, the best of their
    class (1 where no class has one). Returns how many tasks make sense (a job and a type that are there, a speed that
    is a number above 0), up to the first one that does not.
    """
    rows[:] = jobs.searchsorted(first)
    sound = (gpu_types >= 0) & (gpu_types < types)
    sound &= np.append(jobs, NO_JOB)[rows] == first
    if divided:
        sound &= (given > 0) & (given < np.inf)
    count = len(first) if every(sound) else int(sound.argmin())
    last[:] = -1
    last[rows[:count]] = np.arange(count)
    if divided:
        speed[:] = best[group] if len(best) else 1.0
        speed[rows[:count]] = given[:count]
    return count


def is_permutation(order: IntArray, count: int) -> bool:
    """Whether these are the numbers from 0 on, so many of them, each once."""
    if len(order) != count:
        return False
    if count == 0:
        return True
    if int(order.min()) < 0 or int(order.max()) >= count:
        return False
    return every(np.bincount(order, minlength=count) == 1)


def slowest_full(rate: FloatArray, left: FloatArray, length: float) -> tuple[float, float]:
    """Rounds of whole steps in which nobody comes to the end, and how long the slowest takes for one.

    0 rounds if somebody cannot do a single step in a round.
    """
    chunk = np.floor(rate * length)
    if smallest(chunk) <= 0:
        return 0.0, 0.0
    return float(max(0, math.ceil(smallest(left / chunk)) - 1)), largest(chunk / rate)


def slowest_many(
    rate: FloatArray,
    left: FloatArray,
    starts: FloatArray,
    each: FloatArray,
    steps: FloatArray,
    seconds: FloatArray,
    length: float,
    start: float,
) -> None:
    """Rounds that begin at `starts`, all alike; the first one counts from `start`."""
    chunk = np.floor(rate * length)
    rounds = len(starts)
    began = starts.copy()
    np.add(starts[:, None], chunk / rate, out=each[:rounds])
    began[0] = start
    each[:rounds] -= began[:, None]
    steps[:] = chunk * rounds
    left -= steps
    np.add.reduce(each[:rounds], out=seconds)


def slowest_one(
    rate: FloatArray,
    left: FloatArray,
    gpus: IntArray,
    steps: FloatArray,
    seconds: FloatArray,
    finish: FloatArray,
    length: float,
    now: float,
    start: float,
    split_fails: bool,
) -> tuple[float, int] | None:
    """One round of whole steps; when its slowest task ends, and how many are through.

    None, and nothing is done, if a task would fail because one of its GPUs gets no step.
    """
    np.minimum(np.floor(rate * length), left, out=steps)
    if split_fails and ((steps <= 0) | ((gpus > 1) & (steps < gpus))).any():
        return None
    np.divide(steps, rate, out=finish)
    finish += now
    np.subtract(finish, start, out=seconds)
    left -= steps
    return largest(finish), int(np.count_nonzero(left <= 0))


def whole(chunk: FloatArray, left: FloatArray, steps: FloatArray, rounds: float) -> int:
    """So many rounds of `chunk` steps; how many tasks are through."""
    np.minimum(chunk * rounds, left, out=steps)
    left -= steps
    return 0 if every(left > 0) else int(np.count_nonzero(left <= 0))
