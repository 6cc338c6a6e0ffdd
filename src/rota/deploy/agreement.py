"""How the ranks of a gang agree on the step to stop at. No input or output, no clock: messages in, messages out.

    asking      everybody is asked how many steps it has begun
    proposing   a step is proposed that nobody should have passed; one refusal leads to a higher one
    committed   all accepted: each ends when it has finished that many steps
    broken      a rank was lost, did not answer, or ended elsewhere; the gang has to be killed

A rank that accepted waits at the step, so a higher proposal always finds it. Steps ahead grow with every refusal
(0, 1, 2, 4 ...), so that ranks which do not wait for each other are caught as well. An agent uses this for a gang on
its server, the scheduler for one that spans several.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import Enum
from typing import Any, NamedTuple

from rota.client.wire import whole

RETRY_S = 1.0
LIMIT_S = 60.0


class AgreementState(str, Enum):
    """How far an agreement is."""

    ASKING = "asking"
    PROPOSING = "proposing"
    COMMITTED = "committed"
    BROKEN = "broken"


class Send(NamedTuple):
    """A message to one rank."""

    rank: int
    message: dict[str, Any]


class Agreement:
    """One attempt to stop a gang. Feed it answers and time; send what it returns."""

    def __init__(
        self,
        ranks: Iterable[int],
        *,
        margin: int = 0,
        retry_s: float = RETRY_S,
        limit_s: float = LIMIT_S,
        first_id: int = 1,
    ) -> None:
        self.ranks = frozenset(ranks)
        self.state = AgreementState.ASKING
        self.step: int | None = None
        self.reason: str | None = None
        self.ended: dict[int, int] = {}
        self._done: set[int] = set()
        self._id = first_id - 1
        self._margin = margin
        self._retry_s = retry_s
        self._limit_s = limit_s
        self._begun: dict[int, int] = {}
        self._accepted: set[int] = set()
        self._since = self._sent_at = 0.0

    @property
    def broken(self) -> bool:
        """Whether the ranks cannot agree any more: the gang has to be killed."""
        return self.state is AgreementState.BROKEN

    @property
    def finished(self) -> bool:
        """Whether every rank has ended on the step that was agreed."""
        return self.state is AgreementState.COMMITTED and set(self.ended) == self.ranks

    def begin(self, now: float) -> list[Send]:
        """The first messages."""
        self._since = self._sent_at = now
        return [Send(rank, {"op": "where"}) for rank in self._open()]

    def answer(self, rank: int, message: Mapping[str, Any], now: float) -> list[Send]:
        """Take in what a rank said. What is not about this agreement changes nothing."""
        if rank not in self.ranks or self.broken:
            return []
        operation = message.get("op")
        if operation == "failed":
            self.lost(rank)
        ended = {"stopped": "lease", "done": "done"}.get(str(operation), message.get("ended"))
        begun = whole(message, "step" if operation in {"stopped", "done"} else "begun")
        if begun is None or self.broken:
            return []
        if ended is not None:
            return self._end(rank, begun, done=ended == "done", now=now)
        return self._position(rank, message, begun, now)

    def lost(self, rank: int) -> None:
        """A rank died or failed. Unless it had ended before, the others would wait for it for ever."""
        if rank in self.ranks and rank not in self.ended:
            self._break(f"rank {rank} died or failed")

    def rejoined(self, rank: int, now: float) -> list[Send]:
        """A rank has a new connection: repeat what it may have missed."""
        self._since = self._sent_at = now
        return self._repeat(rank) if rank in self._open() else []

    def tick(self, now: float) -> list[Send]:
        """Time passed: ask the silent ones again, and give up when one is silent for too long."""
        if self.broken or self.finished or now - self._sent_at < self._retry_s:
            return []
        silent = self._silent()
        if self.state is not AgreementState.COMMITTED and silent and now - self._since >= self._limit_s:
            self._break(f"no answer from rank {min(silent)} in {self._limit_s:g} s")
            return []
        self._sent_at = now
        return [send for rank in silent for send in self._repeat(rank)]

    def _position(self, rank: int, message: Mapping[str, Any], begun: int, now: float) -> list[Send]:
        if message.get("op") == "at" and self.state is AgreementState.ASKING:
            self._begun[rank] = begun
            return self._propose_when_known(now)
        if message.get("op") == "will" and self.state is AgreementState.PROPOSING and message.get("id") == self._id:
            self._begun[rank] = max(begun, self._begun.get(rank, 0))
            return self._accept(rank, now) if message.get("ok") is True else self._propose(now)
        return []

    def _open(self) -> list[int]:
        return sorted(self.ranks - set(self.ended))

    def _silent(self) -> list[int]:
        known: Iterable[int] = {AgreementState.ASKING: self._begun, AgreementState.PROPOSING: self._accepted}.get(
            self.state, ()
        )
        return sorted(set(self._open()) - set(known))

    def _repeat(self, rank: int) -> list[Send]:
        if self.state is AgreementState.ASKING:
            return [Send(rank, {"op": "where"})]
        if self.state is AgreementState.PROPOSING:
            return [self._proposal(rank)]
        return [Send(rank, {"op": "commit", "id": self._id})] if self.state is AgreementState.COMMITTED else []

    def _proposal(self, rank: int) -> Send:
        return Send(rank, {"op": "stop_at", "id": self._id, "step": self.step})

    def _propose_when_known(self, now: float) -> list[Send]:
        return [] if self._silent() else self._propose(now)

    def _propose(self, now: float) -> list[Send]:
        """Propose the lowest step that nobody has passed, and some more after refusals."""
        stopped = {step for rank, step in self.ended.items() if rank not in self._done}
        furthest = max([*self._begun.values(), *self.ended.values()], default=0)
        if stopped:
            # A rank ended by itself: there is only its own step to meet at.
            self.step = min(stopped)
            if furthest > self.step:
                self._break(f"one rank stopped at step {self.step}, another is at step {furthest}")
                return []
        else:
            self.step = furthest + self._margin
            self._margin = max(2 * self._margin, 1)
        self.state = AgreementState.PROPOSING
        self._id += 1
        self._accepted.clear()
        self._since = self._sent_at = now
        return [self._proposal(rank) for rank in self._open()] or self._commit()

    def _accept(self, rank: int, now: float) -> list[Send]:
        self._accepted.add(rank)
        self._sent_at = now
        return [] if self._silent() else self._commit()

    def _commit(self) -> list[Send]:
        self.state = AgreementState.COMMITTED
        if not self._open():
            self._check_same()
        return [Send(rank, {"op": "commit", "id": self._id}) for rank in self._open()]

    def _end(self, rank: int, step: int, *, done: bool, now: float) -> list[Send]:
        """A rank ended, by order, by itself, or because its work is done."""
        if rank in self.ended:
            return []
        self.ended[rank] = step
        if done:
            self._done.add(rank)
        if self.state is AgreementState.COMMITTED:
            if step != self.step and not done:
                self._break(f"rank {rank} stopped at step {step}, but {self.step} was agreed")
            elif not self._open():
                self._check_same()
            return []
        if self.state is AgreementState.ASKING:
            return self._propose_when_known(now)
        if (done and self.step is not None and step <= self.step) or step == self.step:
            return [] if self._silent() else self._commit()
        return self._propose(now)

    def _check_same(self) -> None:
        if len(set(self.ended.values())) > 1:
            self._break(f"ranks ended at different steps: {dict(sorted(self.ended.items()))}")

    def _break(self, reason: str) -> None:
        self.state = AgreementState.BROKEN
        self.reason = reason
