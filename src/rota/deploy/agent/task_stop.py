"""The end of a task on this server: asked, left alone while it saves, then TERM and KILL."""

from __future__ import annotations

import contextlib
import time
from pathlib import Path
from typing import Protocol

from rota.core.errors import RotaError
from rota.deploy.agent.saving import CLIENT_GRACE_S, COMMAND_GRACE_S, SaveWatch
from rota.deploy.worker.endpoint import Endpoint
from rota.deploy.worker.host import Host
from rota.deploy.worker.ranks import AttemptId, Rank
from rota.deploy.worker.spec import TaskId
from rota.deploy.worker.stopping import Ending

_BEYOND_LEASE_S = 10.0
"""Seconds beyond its lease that a task may take to stop by itself if it listens and nobody asked it before."""
_GANG_BEYOND_LEASE_S = 30.0
"""The same for a gang."""
_TERM_S = 5.0
"""Seconds that a task may take after TERM if it had time to stop by itself before."""
_LEASE_OVER = "its lease has ended"


class StopHost(Protocol):
    """What stops share: the machine, the socket of the training code, what the operator allows."""

    host: Host
    endpoint: Endpoint
    longest_save_s: float
    """Seconds that a task may take to save, however much it writes."""


class TaskStop:
    """Ends the ranks of one task. `spread`: others of the gang are elsewhere, so somebody else asks them."""

    def __init__(
        self,
        shared: StopHost,
        attempt: AttemptId,
        ids: list[TaskId],
        *,
        gang: bool,
        spread: bool,
        grace_s: float = 0.0,
    ) -> None:
        self.began = False
        self.reason = ""
        """Why it ends, for people."""
        self.grace_s = grace_s
        """Seconds that it may take to save, as the scheduler says; 0: nothing was said."""
        self._shared = shared
        self._attempt = attempt
        self._ids = ids
        self._gang = gang
        self._spread = spread
        self._hurried = False
        self._expired = False
        self._watch: SaveWatch | None = None
        self._endings: dict[TaskId, Ending] = {}

    @property
    def listens(self) -> bool:
        """Whether training code inside can be asked by its line."""
        return any(rank.connected for rank in self._shared.endpoint.ranks(self._attempt))

    @property
    def forced(self) -> bool:
        """Whether a signal was sent: it did not leave because it was done."""
        return any(ending.forced for ending in self._endings.values())

    @property
    def signs(self) -> int:
        """How often it was seen that it saves, since it was asked to stop."""
        return 0 if self._watch is None else self._watch.signs

    @property
    def beyond_lease_s(self) -> float:
        """How long beyond its lease it may take to stop by itself: not at all if it was asked before."""
        if self.began or not self.listens:
            return 0.0
        longest_s = _GANG_BEYOND_LEASE_S if self._gang else _BEYOND_LEASE_S
        return min(longest_s, self.grace_s or longest_s)

    # Asking

    def ask(self, reason: str) -> None:
        """Ask it to save and end; TERM and KILL follow if it does not."""
        if self.began or self._hurried:
            return
        longest_s = self._shared.longest_save_s
        default_s = CLIENT_GRACE_S if self.listens else COMMAND_GRACE_S
        self._ask(reason, min(self.grace_s or default_s, longest_s), longest_s)

    def end_now(self, reason: str = "") -> None:
        """End it without asking: TERM, then KILL."""
        self.began = self.began or bool(reason)
        self.reason = self.reason or reason
        if not self._hurried:
            self._hurried = True
            self._watch = None
            self._endings.clear()
            self._begin(0.0, _TERM_S)

    def lease_over(self) -> None:
        """Whoever was asked before is killed, others are asked now and get little time."""
        if self._expired or self._hurried:
            return
        self._expired = True
        if self.began:
            self.reason = _LEASE_OVER
            self._watch = None
            for ending in self._endings.values():
                ending.expire(time.monotonic())
        else:
            time_s = self.beyond_lease_s or _TERM_S
            self._ask(_LEASE_OVER, time_s, time_s)

    def _ask(self, reason: str, grace_s: float, longest_s: float) -> None:
        listens = self.listens
        self.began = True
        self.reason = reason
        self._watch = SaveWatch(asked=time.monotonic(), grace_s=grace_s, longest_s=longest_s, listens=listens)
        if listens and not self._spread:
            with contextlib.suppress(RotaError):
                self._shared.endpoint.stop(self._attempt)
        for rank in self._shared.endpoint.ranks(self._attempt):
            self.heard(rank)
        self._begin(*((grace_s, _TERM_S) if listens else (0.0, grace_s)))

    def _begin(self, term_after_s: float, kill_after_s: float) -> None:
        now = time.monotonic()
        for task in self._ids:
            with contextlib.suppress(RotaError):
                self._endings[task] = self._shared.host.ending(task, term_after_s, kill_after_s, now)

    # Watching

    def heard(self, rank: Rank) -> None:
        """A rank said something about itself."""
        if self._watch is not None and rank.saving:
            self._watch.told(rank.rank, rank.written, time.monotonic())

    def advance(self, checkpoints: Path | None) -> None:
        """Do what is due; `checkpoints` is the folder it saves into (reads files; called in a thread)."""
        watch = self._watch
        now = time.monotonic()
        if watch is not None and checkpoints is not None:
            watch.look(checkpoints, now)
        for ending in list(self._endings.values()):
            if watch is not None:
                ending.postpone(watch.ends)
            ending.advance(now)

    def note_time_over(self) -> None:
        """Say why a task that listens did not end by itself."""
        watch = self._watch
        if watch is not None and watch.listens and self.forced:
            beyond_lease = f"{_LEASE_OVER} and it did not stop within {watch.longest_s:g} s"
            self.reason = beyond_lease if self._expired else watch.why
            self._watch = None
