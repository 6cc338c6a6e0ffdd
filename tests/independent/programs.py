"""Linear programs of Gavel's policies, written from their definitions (`rota policies NAME`) for scipy's solver.

x[i, j] is the share of time of job i on type j; T steps/s (0: cannot run there), s GPUs of a job, N GPUs of a type.
"""

from dataclasses import dataclass

import numpy as np
from scipy.optimize import linprog


@dataclass
class Situation:
    """What a policy sees. All arrays have a row per job; `rate` has a column per type."""

    rate: np.ndarray
    gpus: np.ndarray
    weight: np.ndarray
    left: np.ndarray
    capacity: np.ndarray
    age_s: np.ndarray
    isolated_so_far_s: np.ndarray

    def __post_init__(self):
        self.rate = np.where(self.gpus[:, None] <= self.capacity, self.rate, 0.0)

    def proportional(self):
        """p: steps/s with time on all types in proportion to their GPUs."""
        return self.rate @ self.capacity / self.capacity.sum()

    def isolated(self):
        """q: steps/s in an isolated n-th of the cluster."""
        share = self.capacity / (len(self.rate) * self.gpus[:, None])
        share /= np.maximum(share.sum(axis=1, keepdims=True), 1.0)
        return (self.rate * share).sum(axis=1)


def solve(gain, situation, floors=(), level=None):
    """Maximise sum(gain * x) + level * z over shares x and a number z; None if nothing satisfies all.

    `floors` are pairs (c, d) of c [J, T] and d [J]: for every job  sum_j c_ij x_ij >= d_i z  (>= d_i without `level`).
    """
    jobs, types = situation.rate.shape
    extra = level is not None
    rows, bounds = [], []
    for job in range(jobs):
        row = np.zeros((jobs, types))
        row[job] = 1
        rows.append(np.append(row, 0.0))
        bounds.append(1.0)
    for name in range(types):
        row = np.zeros((jobs, types))
        row[:, name] = situation.gpus
        rows.append(np.append(row, 0.0))
        bounds.append(situation.capacity[name])
    for speed, least in floors:
        for job in range(jobs):
            row = np.zeros((jobs, types))
            row[job] = -speed[job]
            rows.append(np.append(row, least[job] if extra else 0.0))
            bounds.append(0.0 if extra else -least[job])
    most = np.append(np.where(situation.rate > 0, 1.0, 0.0), np.inf)
    cost = -np.append(gain, level if extra else 0.0)
    found = linprog(cost, A_ub=np.array(rows), b_ub=bounds, bounds=[(0, m) for m in most], method="highs")
    return None if found.x is None else -found.fun


def max_min_fairness(s, share=None):
    """max min_i sum_j T_ij s_i / (w_i p_i) x_ij: the optimum, or the value of `share`."""
    speed = s.rate * (s.gpus / (s.weight * s.proportional()))[:, None]
    if share is not None:
        return (speed * share).sum(axis=1).min()
    return solve(np.zeros_like(speed), s, [(speed, np.ones(len(speed)))], level=1.0)


def max_min_fairness_beyond(s, least, share=None):
    """The most total normalised throughput sum_ij T_ij s_i / p_i x_ij with nobody below `least`; or that of `share`."""
    total = s.rate * (s.gpus / s.proportional())[:, None]
    if share is not None:
        return (total * share).sum()
    speed = total / s.weight[:, None]
    return solve(total, s, [(speed, np.full(len(speed), least))])


def min_total_duration(s, share=None):
    """min D with sum_j T_ij x_ij >= R_i / D, seconds."""
    if share is not None:
        return (s.left / (s.rate * share).sum(axis=1)).max()
    return 1.0 / solve(np.zeros_like(s.rate), s, [(s.rate, s.left)], level=1.0)


def max_sum_throughput(s, share=None):
    """max sum_ij T_ij x_ij."""
    return (s.rate * share).sum() if share is not None else solve(s.rate, s)


def finish_time_fairness(s, share=None):
    """min max_i (a_i + R_i / sum_j T_ij x_ij) / E_i by bisection; E_i = C_i + R_i / q_i."""
    alone_s = s.isolated_so_far_s + s.left / s.isolated()
    if share is not None:
        return ((s.age_s + s.left / (s.rate * share).sum(axis=1)) / alone_s).max()
    low, high = (s.age_s / alone_s).max(), 1e4
    for _ in range(50):
        ratio = (low + high) / 2
        seconds = ratio * alone_s - s.age_s
        enough = (seconds > 0).all() and solve(np.zeros_like(s.rate), s, [(s.rate, s.left / seconds)]) is not None
        low, high = (low, ratio) if enough else (ratio, high)
    return high
