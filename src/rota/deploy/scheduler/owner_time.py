"""How much of the owner's time the requests of each tenant took, and who has to wait for that.

The thread that owns the registry serves everybody. So each tenant has a bucket of its CPU seconds:
`max_scheduler_share` of a second come back every second, up to what comes back in `WINDOW_S`. What a request took is
taken off when it is done, so that no request has to be weighed before: one that turns out to be slow is paid for later.
A tenant that owes time waits until it has come back. Administrators of a tenant have a bucket of their own.

Used by the owner and by the event loop of the server.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

from rota.deploy.scheduler.node_offers import Refused
from rota.deploy.tenants import TenantSettings

WINDOW_S = 20.0
"""Wall seconds over which a tenant may have its share at once."""
_LEAST_WAIT_S = 0.05
_MOST_BUCKETS = 10_000
"""Without certificates callers name their tenant themselves, so that there is no end of tenants."""


class Payer(NamedTuple):
    """Whose time a request takes."""

    tenant: str
    admin: bool = False

    @property
    def words(self) -> str:
        """For people."""
        return f"{'administrators of ' if self.admin else ''}tenant {self.tenant!r}"


class OverShare(Refused):
    """A caller that has to wait for the time that its requests took."""

    def __init__(self, why: str, retry_after_s: float) -> None:
        super().__init__("RESOURCE_EXHAUSTED", why)
        self.retry_after_s = retry_after_s


@dataclass(slots=True)
class _Bucket:
    left_s: float
    """CPU seconds; below 0: so many are owed."""
    at: float
    """Monotonic second at which so much was left."""


def _usual_share(_: str) -> float:
    return TenantSettings().max_scheduler_share


class OwnerTime:
    """The buckets of all tenants."""

    def __init__(
        self,
        share_of: Callable[[str], float] = _usual_share,
        monotonic: Callable[[], float] = time.monotonic,
        cpu_s: Callable[[], float] = time.thread_time,
    ) -> None:
        """`share_of` says which part of the owner's time a tenant may take; `cpu_s` counts that of the owner."""
        self._share_of = share_of
        self._monotonic = monotonic
        self._cpu_s = cpu_s
        self._buckets: dict[Payer, _Bucket] = {}
        self._lock = threading.Lock()

    def left_s(self, payer: Payer) -> float:
        """CPU seconds that a caller may take at once; below 0: it owes so many."""
        with self._lock:
            return self._bucket(payer).left_s

    def charge(self, payer: Payer, seconds: float) -> None:
        """Take off what a request took."""
        with self._lock:
            self._bucket(payer).left_s -= seconds

    @contextlib.contextmanager
    def charged(self, payer: Payer | None) -> Iterator[None]:
        """Charge a caller for a block; None: it is nobody's. For the owner."""
        began = self._cpu_s()
        try:
            yield
        finally:
            if payer is not None:
                self.charge(payer, self._cpu_s() - began)

    def check(self, payer: Payer, whose: str = "") -> None:
        """Raises OverShare if a caller owes time; `whose` names it for people."""
        left_s = self.left_s(payer)
        if left_s >= 0.0:
            return
        share = self._share_of(payer.tenant)
        wait_s = max(_LEAST_WAIT_S, -left_s / share)
        why = (
            f"requests of {whose or payer.words} took more than {100 * share:.3g}% of the time of the scheduler's "
            f"deciding thread over the last {WINDOW_S:g} s (max_scheduler_share); try again in {wait_s:.1f} s"
        )
        raise OverShare(why, wait_s)

    def _bucket(self, payer: Payer) -> _Bucket:
        """The bucket of a caller, filled up to now."""
        now = self._monotonic()
        share = self._share_of(payer.tenant)
        bucket = self._buckets.get(payer)
        if bucket is None:
            self._make_room()
            bucket = self._buckets[payer] = _Bucket(share * WINDOW_S, now)
        bucket.left_s = min(share * WINDOW_S, bucket.left_s + (now - bucket.at) * share)
        bucket.at = now
        return bucket

    def _make_room(self) -> None:
        """Forget callers that owe nothing, those that were silent longest, if there are very many."""
        if len(self._buckets) >= _MOST_BUCKETS:
            paid = sorted((payer for payer, bucket in self._buckets.items() if bucket.left_s >= 0), key=self._silent)
            for payer in paid[: _MOST_BUCKETS // 2]:
                del self._buckets[payer]

    def _silent(self, payer: Payer) -> float:
        return self._buckets[payer].at
