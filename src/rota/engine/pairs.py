"""Accounts of extra options (pairs of jobs): a sparse table beside the columns of single jobs."""

from __future__ import annotations

import numpy as np

from rota.core.allocation import NO_OPTIONS, Options
from rota.core.arrays import BoolArray, FloatArray, IntArray

_SHIFT = 1 << 31


def pair_key(first: IntArray, second: IntArray) -> IntArray:
    """One number per option."""
    return first * _SHIFT + (second + 1)


class PairAccounts:
    """Options that have a share now or have run: time received, time owed, share. Columns are [T, P]."""

    def __init__(self, types: int) -> None:
        self.options: Options = NO_OPTIONS
        self.received: FloatArray = np.zeros((types, 0))
        self.owed: FloatArray = np.zeros((types, 0))
        self.share: FloatArray = np.zeros((types, 0))

    def __len__(self) -> int:
        return len(self.options)

    def credit(self, ran: Options, kind: IntArray, seconds: FloatArray, opening: tuple[float, float]) -> None:
        """Add time that options received, [rounds, options]; a new row opens with `opening` = (received, owed)."""
        rows = self._rows(pair_key(ran.first, ran.second))
        new = rows < 0
        if new.any():
            self._append(ran.rows(new), *opening)
            rows = self._rows(pair_key(ran.first, ran.second))
        account = self.received[kind, rows]
        for row in seconds:
            account += row
        self.received[kind, rows] = account

    def settle(self, elapsed: float, credit: float) -> None:
        """Close the period: what was promised and not received is owed."""
        self.owed += self.share * elapsed - (self.received - credit)
        self.received[:] = credit

    def promise(self, extras: Options, share: FloatArray, opening: tuple[float, float], keep_all: bool) -> None:
        """Take over the shares of a new allocation; options without one are forgotten unless `keep_all`."""
        self.share = np.zeros_like(self.share)
        rows = self._rows(pair_key(extras.first, extras.second))
        if not keep_all:
            found = rows >= 0
            self._take(rows[found])
            rows = self._rows(pair_key(extras.first, extras.second))
        new = rows < 0
        if new.any():
            self._append(extras.rows(new), *opening)
            rows = self._rows(pair_key(extras.first, extras.second))
        self.share[:, rows] = share

    def drop(self, jobs: IntArray) -> None:
        """Forget options with a member that left."""
        if len(self.options) == 0:
            return
        gone = np.isin(self.options.first, jobs) | np.isin(self.options.second, jobs)
        if gone.any():
            self._take(~gone)

    def _rows(self, keys: IntArray) -> IntArray:
        mine = pair_key(self.options.first, self.options.second)
        if len(mine) == 0:
            return np.full(len(keys), -1, dtype=np.int64)
        order = np.argsort(mine)
        at = np.minimum(np.searchsorted(mine, keys, sorter=order), len(mine) - 1)
        rows = order[at]
        return np.where(mine[rows] == keys, rows, -1)

    def _take(self, keep: BoolArray | IntArray) -> None:
        self.options = self.options.rows(keep)
        self.received = self.received[:, keep]
        self.owed = self.owed[:, keep]
        self.share = self.share[:, keep]

    def _append(self, options: Options, received: float, owed: float) -> None:
        types, count = len(self.received), len(options)
        old = self.options
        self.options = Options(
            first=np.concatenate([old.first, options.first]),
            second=np.concatenate([old.second, options.second]),
            gpus=np.concatenate([old.gpus, options.gpus]),
        )
        self.received = np.hstack([self.received, np.full((types, count), received)])
        self.owed = np.hstack([self.owed, np.full((types, count), owed)])
        self.share = np.hstack([self.share, np.zeros((types, count))])
