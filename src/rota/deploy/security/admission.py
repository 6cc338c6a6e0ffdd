"""How much one caller may ask for: requests per second, and streams that are open at the same time.

Callers are counted by tenant. Administrators of a tenant are counted apart from its users, so that
a flood of the latter does not shut out whoever has to end it. A caller without a token is counted
by the name in its certificate. Agents are not counted.

Requests are a token bucket on the monotonic clock: `requests_per_s` come back per second, up to
`request_burst`. A large request or answer counts as several. A caller whose requests took too much
of the time of the scheduler's deciding thread waits, too (`owner_time`).
"""

from __future__ import annotations

import contextlib
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from rota.deploy.scheduler.owner_time import OverShare, OwnerTime, Payer
from rota.deploy.security.audit import RefusalReason
from rota.deploy.security.identity import Denied, Identity, identity_if_known
from rota.deploy.security.subjects import Role
from rota.deploy.tenants import TenantSettings, TenantTable

RETRY_AFTER = "rota-retry-after-s"
"""Metadata of a refusal: the number of seconds after which the caller should try again."""
MOST_STREAMS = 1_000
"""Streams of all tenants together; administrators may open more."""
_BYTES_PER_REQUEST = 16 * 1024
"""So many bytes of a request or of its answer count as another request."""
_MOST_BUCKETS = 10_000
"""Without certificates callers name their tenant themselves, so that there is no end of tenants."""


@dataclass(slots=True)
class _Bucket:
    left: float
    at: float
    """Monotonic second at which so much was left."""


class TooMany(Denied):
    """A caller that has to wait."""

    def __init__(self, why: str, retry_after_s: float) -> None:
        super().__init__(RefusalReason.TOO_MANY, why, known=True)
        self.retry_after_s = retry_after_s


class Admission:
    """Counts what callers do. Used by the event loop of the server."""

    def __init__(
        self,
        tenants: TenantTable,
        monotonic: Callable[[], float] = time.monotonic,
        owner_time: OwnerTime | None = None,
    ) -> None:
        """`owner_time` says who took too much of the time of the thread that decides."""
        self._owner_time = owner_time or OwnerTime()
        self._tenants = tenants
        self._monotonic = monotonic
        self._buckets: dict[Payer, _Bucket] = {}
        self._streams: Counter[Payer] = Counter()

    def request(self, identity: Identity) -> None:
        """Count a request. Raises TooMany."""
        if identity.role is Role.AGENT:
            return
        try:
            self._owner_time.check(_key(identity), _whose(identity))
        except OverShare as share:
            raise TooMany(str(share), share.retry_after_s) from share
        bucket = self._bucket(identity)
        if bucket.left >= 1.0:
            bucket.left -= 1.0
            return
        limit = self._settings(identity).requests_per_s
        wait_s = (1.0 - bucket.left) / limit
        flood = f"{_whose(identity)} made more than {limit:g} requests per second"
        raise TooMany(f"{flood}; try again in {wait_s:.1f} s", wait_s)

    def charge(self, identity: Identity, size: int) -> None:
        """Count the bytes of a request or of its answer."""
        if size >= _BYTES_PER_REQUEST and identity.role is not Role.AGENT:
            self._bucket(identity).left -= size // _BYTES_PER_REQUEST

    @contextlib.contextmanager
    def stream(self, identity: Identity) -> Iterator[None]:
        """Count a stream for as long as it is open. Raises Denied."""
        if identity.role is Role.AGENT:
            yield
            return
        key = _key(identity)
        limit = self._settings(identity).max_streams
        if self._streams[key] >= limit:
            why = f"{_whose(identity)} has {limit} streams open already (max_streams); end one"
            raise Denied(RefusalReason.TOO_MANY, why, known=True)
        if not identity.admin and self._streams.total() >= MOST_STREAMS:
            why = f"{MOST_STREAMS:,} streams are open, which is the most; try again later"
            raise Denied(RefusalReason.TOO_MANY, why, known=True)
        self._streams[key] += 1
        try:
            yield
        finally:
            self._streams[key] -= 1
            if not self._streams[key]:
                del self._streams[key]

    def _settings(self, identity: Identity) -> TenantSettings:
        return (
            self._tenants.default if identity.tenant is None else self._tenants.of(identity.tenant)
        )

    def _bucket(self, identity: Identity) -> _Bucket:
        """The bucket of a caller, filled up to now."""
        now = self._monotonic()
        settings = self._settings(identity)
        key = _key(identity)
        bucket = self._buckets.get(key)
        if bucket is None:
            self._make_room()
            bucket = self._buckets[key] = _Bucket(settings.request_burst, now)
        bucket.left = min(
            settings.request_burst, bucket.left + (now - bucket.at) * settings.requests_per_s
        )
        bucket.at = now
        return bucket

    def _make_room(self) -> None:
        """Forget the callers that were silent longest, half of all, if there are very many."""
        if len(self._buckets) >= _MOST_BUCKETS:
            newest = sorted(self._buckets.items(), key=lambda pair: pair[1].at)[
                _MOST_BUCKETS // 2 :
            ]
            self._buckets = dict(newest)


def current_payer() -> Payer | None:
    """Whose time the call takes that is being handled; None: nobody's, as it is of an agent."""
    identity = identity_if_known()
    return None if identity is None or identity.role is not Role.CLIENT else _key(identity)


def _key(identity: Identity) -> Payer:
    # No tenant has a slash in its name.
    return Payer(identity.tenant or f"client/{identity.name}", identity.admin)


def _whose(identity: Identity) -> str:
    if identity.tenant is None:
        return f"client {identity.name!r}"
    return f"{'administrators of ' if identity.admin else ''}tenant {identity.tenant!r}"
