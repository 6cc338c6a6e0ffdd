"""The same problems, one row per job and one column per pair, written plainly for cvxpy: a second opinion."""

from __future__ import annotations

import cvxpy as cp
import numpy as np
from views import classes_of, view_of


def random_view(rng, *, jobs=9, classes=4, types=3, sizes=(1, 2), weights=(1.0, 2.0), zeros=0.15, load=1.5, **more):
    """A small instance with repeated classes, pair rates, and types on which some classes cannot run."""
    rate = rng.uniform(0.5, 2, (classes, 1)) * rng.uniform(0.3, 3, (classes, types))
    rate[rng.random((classes, types)) < zeros] = 0.0
    rate[:, -1] = np.maximum(rate[:, -1], 0.2)
    gpus = rng.choice(sizes, classes)
    slow = rng.uniform(0.3, 0.95, (classes, classes, types)) * (rng.random((classes, classes, types)) > 0.2)
    pair = slow * rate[:, None, :] * (gpus[:, None] == gpus[None, :])[:, :, None]
    job_class = rng.integers(0, classes, jobs)
    capacity = np.maximum(1, rng.multinomial(int(gpus[job_class].sum() / load), np.ones(types) / types))
    return view_of(
        classes_of(rate, gpus, rng.choice(weights, classes), pair),
        job_class,
        capacity,
        steps_left=10 ** rng.uniform(2, 4, jobs),
        now=5000.0,
        submitted=np.sort(rng.uniform(0, 5000, jobs)),
        **more,
    )


class PerJob:
    """Variables x over jobs alone and, if asked, over all pairs of jobs with equal GPUs and positive rates."""

    def __init__(self, view, rate=None, *, packed=False):
        rate = view.throughput if rate is None else rate
        count, types = rate.shape
        members, rates = [(i,) for i in range(count)], [(rate[i],) for i in range(count)]
        if packed:
            pair = view.classes.pair[view.job_class[:, None], view.job_class[None, :]]
            for a in range(count):
                for b in range(a + 1, count):
                    if view.gpus[a] == view.gpus[b]:
                        good = (pair[a, b] > 0) & (pair[b, a] > 0)
                        members.append((a, b))
                        rates.append((pair[a, b] * good, pair[b, a] * good))
        self.x = cp.Variable((len(members), types), nonneg=True)
        gpus = np.array([view.gpus[m[0]] for m in members])
        self.limits = [gpus @ self.x <= view.capacity]
        self.speed = []
        for i in range(count):
            mine = [(k, m.index(i)) for k, m in enumerate(members) if i in m]
            self.limits.append(sum(cp.sum(self.x[k]) for k, _ in mine) <= 1)
            self.speed.append(sum(self.x[k] @ rates[k][place] for k, place in mine))

    def best(self, goal, more=(), solver=cp.CLARABEL):
        problem = cp.Problem(goal, [*self.limits, *more])
        problem.solve(solver=solver)
        return problem.value


def proportional(view, rate):
    return rate @ (view.capacity / view.capacity.sum())


def normal(view, rate):
    """[J] what one step/s counts: s / (w p)."""
    return view.gpus / (view.weight * proportional(view, rate))


def max_min(view, rate=None, *, packed=False):
    rate = view.throughput if rate is None else rate
    problem, t = PerJob(view, rate, packed=packed), cp.Variable()
    scale = normal(view, rate)
    return problem.best(cp.Maximize(t), [s * k >= t for s, k in zip(problem.speed, scale, strict=True)])


def makespan(view, rate=None, *, packed=False):
    problem, t = PerJob(view, rate, packed=packed), cp.Variable()
    steps = view.steps_left / view.steps_left.max()
    needs = [s >= r * t for s, r in zip(problem.speed, steps, strict=True)]
    return view.steps_left.max() / problem.best(cp.Maximize(t), needs)


def finish_time_ratio(view, rate=None, *, packed=False):
    rate = view.throughput if rate is None else rate
    problem, rho = PerJob(view, rate, packed=packed), cp.Variable()
    weight = view.weight if packed else np.ones(len(view))
    part = view.capacity / len(view) / view.gpus[:, None]
    part = part / np.maximum(1, part.sum(axis=1))[:, None]
    expected = view.steps_left / (rate * part).sum(axis=1)
    finish = [
        (a + r * w * cp.inv_pos(s)) / e <= rho
        for s, a, r, e, w in zip(problem.speed, view.age, view.steps_left, expected, weight, strict=True)
    ]
    return problem.best(cp.Minimize(rho), finish)


def total(view, value, needs=None, *, packed=False):
    problem = PerJob(view, packed=packed)
    by_type = PerJob(view, view.throughput * value) if not packed else None
    goal = sum(by_type.speed) if by_type else sum(problem.speed)
    if by_type:
        problem.x, problem.limits = by_type.x, by_type.limits
        problem.speed = [problem.x[i] @ view.throughput[i] for i in range(len(view))]
    more = [] if needs is None else [s >= n for s, n in zip(problem.speed, needs, strict=True)]
    return problem.best(cp.Maximize(goal), more)


def nash(view, keep=None):
    problem = PerJob(view)
    keep = range(len(view)) if keep is None else keep
    scale = normal(view, view.throughput)
    mine = [problem.speed[i] * scale[i] for i in keep]
    others = [problem.x[i] == 0 for i in range(len(view)) if i not in keep]
    value = problem.best(cp.Maximize(sum(cp.log(s) for s in mine)), others)
    return value, np.array([float(s.value) for s in mine])


def water_levels(view, rate, effective_weights, *, packed=False):
    """[J] levels by the published procedure, finding jobs that cannot rise one by one with a linear program each."""
    count = len(view)
    problem = PerJob(view, rate, packed=packed)
    e = [s / p for s, p in zip(problem.speed, proportional(view, rate), strict=True)]
    level, final = np.zeros(count), np.zeros(count, dtype=bool)
    for _ in range(3 * count):
        weight = effective_weights(final)
        active = ~final & (weight > 0)
        if not active.any():
            break
        c = cp.Variable()
        rise = np.where(active, weight / view.gpus, 0.0)
        problem.best(cp.Maximize(c), [e[i] >= level[i] + rise[i] * c for i in range(count)], solver=cp.HIGHS)
        level = level + rise * float(c.value)
        for i in np.flatnonzero(active):
            held = [e[k] >= level[k] * (1 - 1e-9) for k in range(count)]
            if problem.best(cp.Maximize(e[i]), held, solver=cp.HIGHS) <= level[i] * (1 + 1e-6) + 1e-7:
                final[i] = True
    return level
