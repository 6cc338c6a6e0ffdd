"""When the policy is asked again: something changed, and the last answer is old enough."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from rota.core.events import (
    Allocated,
    CapacityChanged,
    ClusterChanged,
    Event,
    JobsDropped,
    JobsFinished,
    JobsParked,
    JobsRejected,
    JobsReturned,
    JobsSubmitted,
    RoundsRan,
)
from rota.core.rules import Rules

_CHANGES = frozenset(
    {
        JobsSubmitted,
        JobsFinished,
        JobsDropped,
        JobsRejected,
        JobsParked,
        JobsReturned,
        CapacityChanged,
        ClusterChanged,
    }
)


class Trigger:
    """Remembers whether the queue or the cluster changed since the last solve."""

    def __init__(self, rules: Rules) -> None:
        self._every = rules.resolve_every_s
        self._free_at_zero = rules.resolve_free_at_zero
        self._half_round = rules.round_s / 2
        self.changed = True
        self.ages = False
        """The last answer is a ranking by progress: out of date as soon as a round has run."""
        self.last = 0.0
        self.asked = False

    def observe(self, event: Event) -> None:
        """Note a change, or that an allocation was made."""
        handler = self.handler(type(event))
        if handler is not None:
            handler(event)

    def handler(self, kind: type) -> Callable[[Any], None] | None:
        """The part of `observe` for events of a kind."""
        if kind is Allocated:
            return self._allocated
        if kind is RoundsRan:
            return self._ran
        return self._changed if kind in _CHANGES else None

    def _changed(self, event: Event) -> None:
        self.changed = True
        self.asked = self.asked and type(event) is not ClusterChanged  # no answer is left that could stay in force

    def _ran(self, event: RoundsRan) -> None:
        self.changed = self.changed or len(event.lost) > 0

    def _allocated(self, event: Allocated) -> None:
        self.ages = event.allocation.order is not None and not event.allocation.static_order
        self.changed, self.last, self.asked = False, event.at, True

    def due(self, now: float) -> bool:
        """Whether to ask the policy now."""
        return (self.changed or self.ages) and now >= self.next_due()

    def nobody_there(self, now: float) -> None:
        """A solve that is due falls to an empty cluster: whoever arrives next waits for the one after it.

        Only where there is a least time between two solves; Gavel's simulator does so.
        """
        if self._every > 0 and self.due(now):
            self.changed, self.last, self.asked = False, now, True

    def next_due(self) -> float:
        """The earliest time for the next solve, given what is known now; infinity if nothing changed."""
        if not self.changed:
            return self.last + max(self._every, self._half_round) if self.ages else math.inf
        if not self.asked or (self._free_at_zero and self.last == 0.0):
            return 0.0
        return self.last + self._every
