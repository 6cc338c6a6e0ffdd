"""Jobs that a linear program cannot tell apart, counted instead of listed.

Jobs of one class have the same coefficients, so the set of feasible shares and any concave goal are
symmetric in them: averaging an optimal answer over the members of a class is again optimal. Hence
one variable for the class's total time, and every member gets an equal part. A model has some 80
classes however many jobs there are.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from rota.core.arrays import BoolArray, FloatArray, IntArray
from rota.core.view import View


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class JobGroups:
    """Interchangeable jobs: classes of the view, or a finer division of them."""

    member: IntArray
    """[J] group of each job."""
    job_class: IntArray
    """[G] class of each group."""
    count: FloatArray
    """[G] jobs in the group; groups without a job are kept, so that models keep their shape."""
    gpus: FloatArray
    """[G] GPUs of one job."""
    weight: FloatArray
    """[G] weight of one job."""

    def __len__(self) -> int:
        return len(self.count)


def by_class(view: View) -> JobGroups:
    """One group per class of the view, also for classes without an active job."""
    classes = view.classes
    size = len(classes)
    return JobGroups(
        member=view.job_class,
        job_class=np.arange(size),
        count=np.bincount(view.job_class, minlength=size).astype(np.float64),
        gpus=classes.gpus.astype(np.float64),
        weight=classes.weight,
    )


def by_job(view: View) -> JobGroups:
    """Every job is a group of its own (for goals with a number per job)."""
    return JobGroups(
        member=np.arange(len(view)),
        job_class=view.job_class,
        count=np.ones(len(view)),
        gpus=view.gpus.astype(np.float64),
        weight=view.weight,
    )


def by_class_and(view: View, label: IntArray) -> JobGroups:
    """One group per class and label, for the combinations that occur."""
    width = int(label.max(initial=0)) + 1
    labelled = view.job_class * width + label
    keys, member, count = np.unique(labelled, return_inverse=True, return_counts=True)
    job_class = keys // width
    return JobGroups(
        member=member,
        job_class=job_class,
        count=count.astype(np.float64),
        gpus=view.classes.gpus[job_class].astype(np.float64),
        weight=view.classes.weight[job_class],
    )


def usable_rate(view: View) -> FloatArray:
    """[C, T] steps/s of each class; 0 on types of which no GPU is up."""
    return view.classes.throughput * (view.capacity > 0)


def proportional_rate(rate: FloatArray, capacity: IntArray) -> FloatArray:
    """[C] rate with time divided over the types in proportion to their GPUs.

    P = sum_j T_j N_j / sum_j N_j.
    """
    proportional: FloatArray = rate @ (capacity / max(1, capacity.sum()))
    return proportional


def worth_of_a_step(rate: FloatArray, gpus: FloatArray, capacity: IntArray) -> FloatArray:
    """[C] normalised throughput of one step, s / p; 0 for a class that cannot run."""
    return _worth_of_a_step(rate.shape, rate.tobytes(), gpus.tobytes(), capacity.tobytes())


@lru_cache(maxsize=4)
def _worth_of_a_step(
    shape: tuple[int, int],
    rate: bytes,
    gpus: bytes,
    capacity: bytes,
) -> FloatArray:
    """Asked for at every solve, and the same until a new class of jobs appears."""
    rates = np.frombuffer(rate).reshape(shape)
    by_class = proportional_rate(rates, np.frombuffer(capacity, dtype=np.int64))
    worth: FloatArray = np.frombuffer(gpus) * ratio(np.ones(shape[0]), by_class)
    worth.setflags(write=False)
    return worth


def ratio(numerator: FloatArray, denominator: FloatArray) -> FloatArray:
    """Division in which x / 0 is 0: a class that cannot run anywhere has no normalised rate."""
    zeros = np.zeros(np.shape(denominator))
    return np.divide(numerator, denominator, out=zeros, where=denominator > 0)


def can_run(rate: FloatArray) -> BoolArray:
    """[C] classes with a positive rate on some type."""
    able: BoolArray = rate.max(axis=1, initial=0.0) > 0
    return able
