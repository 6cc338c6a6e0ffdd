"""The gate before every step.

It may begin, or the loop ends, or a gang is about to agree where to stop.

Two threads meet here. The training thread asks before each step; the thread of the link hands in
what the agent says and sends back the answers, also while the training thread hangs in a
collective. Steps are counts: `step` have been finished, `begun` have been begun. To stop at n means
that n steps are finished and the next is never begun.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from enum import Enum
from typing import Any

from rota.client.clock import machine_s
from rota.client.wire import whole

LONGEST_HOLD_S = 120.0
"""A rank that accepted a step to stop at and then hears nothing more ends there after this time."""


class Verdict(Enum):
    """What the loop does at the gate; HOLD is to wait until a gang has agreed."""

    GO = "go"
    HOLD = "hold"
    STOP = "stop"


class Gate:
    """Where the loop is, and how far it may go."""

    def __init__(
        self,
        step: int = 0,
        lease_s: float | None = None,
        clock: Callable[[], float] = machine_s,
    ) -> None:
        self.step = step
        self.begun = step
        self.step_at = clock()
        """When the last step was finished, in seconds since boot."""
        self.ended: str | None = None
        self._clock = clock
        self._changed = threading.Condition()
        self._lease_end = None if lease_s is None else clock() + lease_s
        self._ordered = False
        self._target: int | None = None
        self._proposal: int | None = None
        self._committed = False
        self._held_since: float | None = None

    def begin(self) -> bool:
        """Begin a step; False when the loop has to end here instead.

        Waits while a gang is agreeing on this step.
        """
        with self._changed:
            while True:
                verdict = self._verdict()
                if verdict is Verdict.GO:
                    self._held_since = None
                    self.begun += 1
                    return True
                if verdict is Verdict.STOP:
                    self.ended = self.ended or "lease"
                    return False
                self._changed.wait(self._patience())

    def complete(self) -> None:
        """The body of the step that was begun is finished."""
        with self._changed:
            self.step = self.begun
            self.step_at = self._clock()

    def last_step(self) -> tuple[int, float]:
        """How many steps are finished, and when the last of them was."""
        with self._changed:
            return self.step, self.step_at

    def abandon(self) -> None:
        """The step that was begun does not count: there was no item, or its body gave up."""
        with self._changed:
            self.begun = self.step

    def end(self, reason: str) -> None:
        """No step will begin any more."""
        with self._changed:
            self.ended = self.ended or reason
            self._changed.notify_all()

    def must_stop(self) -> bool:
        """Whether the loop ends at the next boundary, whatever a gang agrees on."""
        with self._changed:
            return self._now_or_never()

    def wait(self, seconds: float) -> bool:
        """Sleep, but wake at once when the loop has to stop; True if it has to."""
        until = self._clock() + seconds
        with self._changed:
            while not self._now_or_never():
                left = until - self._clock()
                if left <= 0:
                    return False
                if self._lease_end is not None:
                    left = min(left, max(self._lease_end - self._clock(), 0.0) + 0.001)
                self._changed.wait(left)
            return True

    def receive(self, message: Mapping[str, Any]) -> dict[str, Any] | None:
        """Take in what the agent says; the answer to send, if it is owed one."""
        with self._changed:
            answer = self._receive(message)
            self._changed.notify_all()
            return answer

    def _receive(self, message: Mapping[str, Any]) -> dict[str, Any] | None:
        operation = message["op"]
        if operation == "lease":
            seconds = message.get("seconds")
            if (
                isinstance(seconds, (int, float))
                and not isinstance(seconds, bool)
                and 0 <= seconds < 1e12
            ):
                self._lease_end = self._clock() + seconds
        elif operation == "stop":
            self._ordered = True
        elif operation == "where":
            return self._signed({"op": "at", "begun": self.begun})
        elif operation == "stop_at":
            return self._consider(whole(message, "id"), whole(message, "step"))
        elif (
            operation == "commit"
            and self._proposal is not None
            and message.get("id") == self._proposal
        ):
            self._committed = True
        return None

    def _consider(self, number: int | None, step: int | None) -> dict[str, Any] | None:
        if number is None or step is None:
            return None
        if self.ended is not None:
            accepted = step == self.step or (self.ended == "done" and step > self.step)
        else:
            accepted = self.begun <= step
        if accepted:
            self._proposal = number
            self._target = step
            self._committed = False
        return self._signed(
            {"op": "will", "id": number, "stop_at": step, "ok": accepted, "begun": self.begun}
        )

    def _signed(self, answer: dict[str, Any]) -> dict[str, Any]:
        """An ended rank says so, because then only its own step is left to agree on."""
        return answer if self.ended is None else {**answer, "begun": self.step, "ended": self.ended}

    def _verdict(self) -> Verdict:
        if self.ended is not None or self._ordered:
            return Verdict.STOP
        if self._target is not None:
            # Others may have been told to stop there already: never before it, and never beyond.
            if self.begun < self._target:
                return Verdict.GO
            if self._committed or self._expired() or self._held_too_long():
                return Verdict.STOP
            return Verdict.HOLD
        return Verdict.STOP if self._expired() else Verdict.GO

    def _now_or_never(self) -> bool:
        return self.ended is not None or self._ordered or (self._target is None and self._expired())

    def _expired(self) -> bool:
        return self._lease_end is not None and self._clock() >= self._lease_end

    def _held_too_long(self) -> bool:
        if self._held_since is None:
            self._held_since = self._clock()
        return self._clock() - self._held_since >= LONGEST_HOLD_S

    def _patience(self) -> float:
        ends = [
            LONGEST_HOLD_S
            if self._held_since is None
            else self._held_since + LONGEST_HOLD_S - self._clock()
        ]
        if self._lease_end is not None:
            ends.append(self._lease_end - self._clock())
        return max(min(ends), 0.0) + 0.001
