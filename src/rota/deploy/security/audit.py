"""What was refused.

Counted always, told at a bounded rate, so that a flood of bad messages cannot fill a disk.

Every reason has its own allowance: a thousand garbage connections a second do not hide the one
wrong token.
"""

from __future__ import annotations

import enum
import logging
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

from rota.deploy.structured_logs import about

_log = logging.getLogger(__name__)
_LONGEST = 200


class RefusalReason(str, enum.Enum):
    """Why somebody was refused."""

    NOT_TLS = "not-tls"
    NO_CERTIFICATE = "no-certificate"
    BAD_CERTIFICATE = "bad-certificate"
    NO_TOKEN = "no-token"
    BAD_TOKEN = "bad-token"
    WRONG_TENANT = "wrong-tenant"
    WRONG_ROLE = "wrong-role"
    UNKNOWN_METHOD = "unknown-method"
    MALFORMED = "malformed"
    CERTIFICATE_IN_USE = "certificate-in-use"
    TOO_MANY = "too-many"
    BAD_TICKET = "bad-ticket"


@dataclass(frozen=True)
class Refusal:
    """One refusal for the trail.

    `suppressed` more of the same reason were only counted since the last one told.
    """

    peer: str
    method: str
    reason: RefusalReason
    why: str
    suppressed: int = 0


def to_the_log(refused: Refusal) -> None:
    """Tell a refusal through `logging`."""
    more = f" ({refused.suppressed} more like it were not logged)" if refused.suppressed else ""
    ids = about(peer=refused.peer, method=refused.method, reason=refused.reason.value)
    _log.warning("refused %s %s: %s%s", refused.peer, refused.method, refused.why, more, extra=ids)


class Audit:
    """Counts refusals and hands some of them to a sink. May be called from any thread."""

    def __init__(
        self,
        sink: Callable[[Refusal], None] = to_the_log,
        *,
        burst: int = 20,
        per_minute: float = 30.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._sink = sink
        self._burst = burst
        self._per_second = per_minute / 60.0
        self._clock = clock
        self._lock = threading.Lock()
        self._counts: Counter[RefusalReason] = Counter()
        self._suppressed: Counter[RefusalReason] = Counter()
        self._allowance = {reason: (float(burst), clock()) for reason in RefusalReason}

    def refused(self, peer: str, method: str, reason: RefusalReason, why: str) -> None:
        """Somebody was turned away.

        Peer and method are the caller's words and are made harmless.
        """
        with self._lock:
            self._counts[reason] += 1
            if not self._may_tell(reason):
                self._suppressed[reason] += 1
                return
            suppressed = self._suppressed.pop(reason, 0)
        self._sink(Refusal(harmless(peer), harmless(method), reason, harmless(why), suppressed))

    def counts(self) -> dict[str, int]:
        """Refusals so far by reason."""
        with self._lock:
            return {reason.value: count for reason, count in sorted(self._counts.items())}

    def total(self) -> int:
        """Refusals so far."""
        with self._lock:
            return sum(self._counts.values())

    def flush(self) -> None:
        """Tell what was only counted: at the end, and now and then while it is quiet."""
        with self._lock:
            suppressed = dict(self._suppressed)
            self._suppressed.clear()
        for reason, count in suppressed.items():
            self._sink(Refusal("-", "-", reason, "told in total", count))

    def _may_tell(self, reason: RefusalReason) -> bool:
        left, last_time = self._allowance[reason]
        now = self._clock()
        left = min(float(self._burst), left + (now - last_time) * self._per_second)
        allowed = left >= 1.0
        self._allowance[reason] = (left - 1.0 if allowed else left, now)
        return allowed


def harmless(text: str) -> str:
    """A text of a stranger for a log: one line, printable, not long."""
    shown = "".join(c if c.isprintable() else "?" for c in text[: _LONGEST + 1])
    return shown if len(shown) <= _LONGEST else f"{shown[:_LONGEST]}..."
