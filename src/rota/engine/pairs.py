"""Accounts of extra options (pairs of jobs): a sparse table beside the columns of single jobs.

`value` is what views see. It is replaced as a whole whenever something changes, never written to.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from rota.core.allocation import NO_OPTIONS, Options
from rota.core.arrays import BoolArray, FloatArray, IntArray, frozen
from rota.core.view import PairAccounts

_SHIFT = 1 << 31


def pair_key(first: IntArray, second: IntArray) -> IntArray:
    """One number per option."""
    return first * _SHIFT + (second + 1)


class PairLedger:
    """Options that have a share now or have run: time received, time owed, share. Columns are [T, P]."""

    def __init__(self, types: int) -> None:
        none = frozen(np.zeros((types, 0)))
        self.value = PairAccounts(NO_OPTIONS, none, none, none)

    def __len__(self) -> int:
        return len(self.value)

    def credit(self, ran: Options, gpu_type: IntArray, seconds: FloatArray, opening: tuple[float, float]) -> None:
        """Add time that options received, [rounds, options]; a new row opens with `opening` = (received, owed)."""
        rows = self._rows(ran)
        new = rows < 0
        if new.any():
            self._append(ran.rows(new), *opening)
            rows = self._rows(ran)
        old = self.value
        received = old.received.copy()
        account = received[gpu_type, rows]
        for row in seconds:
            account += row
        received[gpu_type, rows] = account
        self._replace(old.options, received, old.owed, old.share)

    def settle(self, elapsed: float, credit: float) -> None:
        """Close the period: what was promised and not received is owed."""
        old = self.value
        owed = old.owed + (old.share * elapsed - (old.received - credit))
        self._replace(old.options, np.full_like(old.received, credit), owed, old.share)

    def promise(self, extras: Options, share: FloatArray, opening: tuple[float, float], keep_all: bool) -> None:
        """Take over the shares of a new allocation; options without one are forgotten unless `keep_all`."""
        rows = self._rows(extras)
        if not keep_all:
            self._take(rows[rows >= 0])
            rows = self._rows(extras)
        new = rows < 0
        if new.any():
            self._append(extras.rows(new), *opening)
            rows = self._rows(extras)
        old = self.value
        promised = np.zeros_like(old.share)
        promised[:, rows] = share
        self._replace(old.options, old.received, old.owed, promised)

    def drop(self, jobs: IntArray) -> None:
        """Forget options with a member that left."""
        options = self.value.options
        if len(options) == 0:
            return
        gone = np.isin(options.first, jobs) | np.isin(options.second, jobs)
        if gone.any():
            self._take(~gone)

    def saved(self) -> dict[str, Any]:
        """The table as plain values; accounts are by type, in the order of the cluster's types."""
        options = self.value.options
        return {
            "first": options.first.tolist(),
            "second": options.second.tolist(),
            "gpus": options.gpus.tolist(),
            "received": self.value.received.tolist(),
            "owed": self.value.owed.tolist(),
            "share": self.value.share.tolist(),
        }

    def restore(self, saved: Mapping[str, Any]) -> None:
        """Take over a table that was saved."""
        types = len(self.value.received)
        first, second, gpus = (np.array(saved[name], dtype=np.int64) for name in ("first", "second", "gpus"))
        columns = [
            np.array(saved[n], dtype=np.float64).reshape(types, len(first)) for n in ("received", "owed", "share")
        ]
        self._replace(Options(first=first, second=second, gpus=gpus), *columns)

    def _rows(self, wanted: Options) -> IntArray:
        """Where options stand in the table; -1 for those that are not there."""
        keys = pair_key(wanted.first, wanted.second)
        mine = pair_key(self.value.options.first, self.value.options.second)
        if len(mine) == 0:
            return np.full(len(keys), -1, dtype=np.int64)
        order = np.argsort(mine)
        at = np.minimum(np.searchsorted(mine, keys, sorter=order), len(mine) - 1)
        rows = order[at]
        return np.where(mine[rows] == keys, rows, -1)

    def _take(self, keep: BoolArray | IntArray) -> None:
        old = self.value
        self._replace(old.options.rows(keep), old.received[:, keep], old.owed[:, keep], old.share[:, keep])

    def _append(self, more: Options, received: float, owed: float) -> None:
        old = self.value
        types = len(old.received)
        count = len(more)
        options = Options(
            first=np.concatenate([old.options.first, more.first]),
            second=np.concatenate([old.options.second, more.second]),
            gpus=np.concatenate([old.options.gpus, more.gpus]),
        )
        self._replace(
            options,
            np.hstack([old.received, np.full((types, count), received)]),
            np.hstack([old.owed, np.full((types, count), owed)]),
            np.hstack([old.share, np.zeros((types, count))]),
        )

    def _replace(self, options: Options, received: FloatArray, owed: FloatArray, share: FloatArray) -> None:
        self.value = PairAccounts(options, frozen(received), frozen(owed), frozen(share))
