"""A view in which some jobs may use fewer types than their class, for the selecting half alone.

What such a job was promised on types that it may not use counts on the fastest type that it may.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from rota.core.arrays import BoolArray, FloatArray, IntArray
from rota.core.classes import Classes, PairTable
from rota.core.view import Accounts, Terms, View


def narrowed(view: View, allowed: BoolArray) -> View:
    """The view with `allowed` [J, T] types only; the same one if that takes nothing from anybody."""
    off = view.classes.runs_on[view.job_class] & ~allowed
    jobs = np.flatnonzero(off.any(axis=1))
    if len(jobs) == 0:
        return view
    kinds, kind = np.unique(
        np.column_stack([view.job_class[jobs], off[jobs]]).astype(np.int64), axis=0, return_inverse=True
    )
    job_class = view.job_class.copy()
    job_class[jobs] = len(view.classes) + kind.reshape(-1)
    part = view.some_jobs(np.arange(len(view)), view.capacity)
    part.staying = view.staying
    part.classes = _more_classes(view.classes, kinds[:, 0], kinds[:, 1:] > 0)
    part.job_class = job_class
    if view.accounts is not None:
        part.accounts = _moved(view.accounts, part, off)
    return part


@dataclass(frozen=True, slots=True)
class _Pairs:
    """Rates of pairs for classes that are the same as others on fewer types."""

    pairs: PairTable
    which: IntArray
    runs_on: BoolArray

    @property
    def known(self) -> FloatArray:
        """[C, C, T] as it is believed."""
        return self._of(self.pairs.known)

    @property
    def true(self) -> FloatArray:
        """[C, C, T] as it is in truth."""
        return self._of(self.pairs.true)

    def _of(self, rates: FloatArray) -> FloatArray:
        both = self.runs_on[:, None] & self.runs_on[None, :]
        return np.where(both, rates[np.ix_(self.which, self.which)], 0.0)


def _more_classes(classes: Classes, of: IntArray, off: BoolArray) -> Classes:
    """The classes, and those `of` some of them [K] without the types that are `off` [K, T]."""
    which = np.concatenate([np.arange(len(classes)), of])
    here = np.concatenate([np.ones_like(classes.runs_on), ~off])
    runs_on = classes.runs_on[which] & here
    return replace(
        classes,
        profile=tuple(classes.profile[at] for at in which.tolist()),
        gpus=classes.gpus[which],
        weight=classes.weight[which],
        throughput=np.where(here, classes.throughput[which], 0.0),
        spread=np.where(here, classes.spread[which], 0.0),
        step_s=np.where(here, classes.step_s[which], np.inf),
        best_step_s=classes.best_step_s[which],
        runs_on=runs_on,
        pairs=_Pairs(classes.pairs, which, runs_on),
        bound=None if classes.bound is None else classes.bound[which],
        priority=None if classes.priority is None else classes.priority[which],
    )


def _moved(accounts: Accounts, view: View, off: BoolArray) -> Accounts:
    """The accounts with what jobs have on types that are `off` [J, T] on their fastest type."""
    terms = accounts.terms
    fastest = view.classes.throughput[view.job_class].argmax(axis=1)

    def moved(column: FloatArray) -> FloatArray:
        there = np.where(off.T, 0.0, column)
        there[fastest, np.arange(len(fastest))] += np.where(off.T, column, 0.0).sum(axis=0)
        return there

    return replace(
        accounts,
        terms=Terms(moved(terms.share), terms.promised, terms.newcomers, view.classes, view.job_class),
        received=moved(accounts.received),
        owed=moved(accounts.owed),
    )
