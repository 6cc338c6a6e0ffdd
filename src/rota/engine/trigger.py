"""When the policy is asked again: its last answer no longer holds, and it is old enough."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from rota.core.events import Allocated, ClusterChanged, Event, RoundsRan
from rota.core.horizon import CHANGES
from rota.core.ports import Handler
from rota.core.rules import Rules
from rota.core.tolerance import TOLERANCE


class Trigger:
    """Remembers whether something ended the last answer, and when it was given."""

    def __init__(self, rules: Rules) -> None:
        self._every = rules.resolve_every_s
        self._free_at_zero = rules.resolve_free_at_zero
        self._half_round = rules.round_s / 2
        self._round_s = rules.round_s if rules.at_once else 0.0
        self._until = math.inf
        """When the last answer ends by itself."""
        self._tried = 0.0
        """When the policy was asked last, whether it answered or not; between two rounds, the start of that one."""
        self.changed = True
        """Whether other jobs or servers are there than when the policy was asked."""
        self.last = 0.0
        self.asked = False

    def observe(self, event: Event) -> None:
        """Note a change, or that an allocation was made."""
        handler = self.handler(type(event))
        if handler is not None:
            handler(event)

    def handler(self, kind: type[Event]) -> Handler | None:
        """The part of `observe` for events of a kind."""
        if kind is Allocated:
            return self._allocated
        if kind is RoundsRan:
            return self._ran
        return self._changed if kind in CHANGES else None

    def _changed(self, event: Event) -> None:
        self.changed = True
        self.asked = self.asked and type(event) is not ClusterChanged  # no answer is left that could stay in force

    def _ran(self, event: RoundsRan) -> None:
        self.changed = self.changed or len(event.lost) > 0

    def _allocated(self, event: Allocated) -> None:
        self._until = event.allocation.horizon.until
        self._answered(event.at)

    def _answered(self, now: float) -> None:
        self.changed = False
        self.last = now
        self._tried = self._start_of_round(now)
        self.asked = True

    def failed(self, now: float, *, ask_again: bool) -> None:
        """The policy did not answer. Unless it may in the next round, it is asked when something changes."""
        self.changed = ask_again
        self._tried = self._start_of_round(now)

    def _start_of_round(self, now: float) -> float:
        return math.floor(now / self._round_s + TOLERANCE) * self._round_s if self._round_s else now

    def nobody_there(self, now: float) -> None:
        """A solve that is due falls to an empty cluster: whoever arrives next waits for the one after it.

        Only where there is a least time between two solves; Gavel's simulator does so.
        """
        if self._every > 0 and self.due(now):
            self._answered(now)

    def due(self, now: float) -> bool:
        """Whether to ask the policy now."""
        return now >= self.next_due()

    def next_due(self) -> float:
        """The earliest time for the next solve, as far as is known now."""
        return self.after_change() if self.changed else self._when_over()

    def after_change(self) -> float:
        """The earliest time for the next solve after a change; infinity without one."""
        if not self.changed:
            return math.inf
        if not self.asked or (self._free_at_zero and self.last == 0.0):
            return 0.0
        return self.last + self._every

    def _when_over(self) -> float:
        """When the last answer ends by itself: never in the round in which it was given."""
        return max(self._until, self._tried + max(self._every, self._half_round))

    def saved(self) -> dict[str, Any]:
        """What it remembers, as plain values."""
        return {
            "until": self._until,
            "tried": self._tried,
            "changed": self.changed,
            "last": self.last,
            "asked": self.asked,
        }

    def restore(self, saved: Mapping[str, Any]) -> None:
        """Remember what was saved."""
        self._until = float(saved["until"])
        self._tried = float(saved["tried"])
        self.changed = bool(saved["changed"])
        self.last = float(saved["last"])
        self.asked = bool(saved["asked"])
