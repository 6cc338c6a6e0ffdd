"""Keeps a picture of a cluster up to date: everything once, then what events name, and a part of the rest in turn.

A thread asks, one follows the events, and one puts questions whose answers take long; all only while somebody looks. A
scheduler that is away is asked again and again, and everything is read anew when it is back.
"""

from __future__ import annotations

import json
import logging
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from rota.core.errors import RotaError
from rota.core.lifecycle import JobPhase
from rota.dashboard.picture import OVER, RUNNING, JobRow, Picture, etas_of, job_row, node_row
from rota.dashboard.questions import Questions
from rota.deploy.clocks import wall_s

if TYPE_CHECKING:
    from rota.deploy.control import Client

log = logging.getLogger(__name__)

_WAITING = frozenset(phase.value for phase in JobPhase) - RUNNING - OVER
_STATUS = (
    "version", "now_s", "time_scale", "round_s", "policy", "mechanism", "rounds", "queued", "running", "finished",
    "failed", "cancelled", "last_decision_s", "late_solves", "failed_decisions", "last_failed_decision_s",
    "last_failed_decision", "tenant", "admin", "events",
)  # fmt: skip
_ENDED_AT_FIRST = 200
"""Jobs that are over, the newest, which are read when the picture is begun ..."""
_MOST_ENDED = 1_000
"""... and which are kept."""
_ASKED_AT_ONCE = 500
"""Jobs by number in one question of a refresh: the owner of the scheduler does nothing else while it answers."""
_AGAIN_AFTER_S = 3.0
"""A job that an event named is looked at once more: the scheduler may need a moment until its phase is the last."""
_QUIET = frozenset(
    {"LeasesExtended", "Allocated", "RoundsRan", "ProgressMade", "Planned", "JobsArchived", "StepsSaved"}
)
"""Events after which a job need not be looked at."""
_MOST_DECISIONS = 600
_ETA_JOBS = 50
"""Waiting jobs, the oldest, that estimates are asked for."""
_ETA_FUTURES = 5
_USAGE_S = 86_400.0
"""Wall seconds back that figures over time show."""
_AFTER_REFUSAL_S = 120.0
"""A question that was refused, perhaps after it took all the time it may, is asked again so much later."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """How often what is asked for; wall seconds."""

    refresh_s: float = 1.0
    nodes_s: float = 2.0
    usage_s: float = 20.0
    """0: never."""
    eta_s: float = 30.0
    """0: never."""
    part_of_cpu: float = 0.05
    """Questions are asked so seldom that answers take at most this part of one CPU."""
    in_turn: int = 150
    """Jobs that run, and as many that wait, which are looked at again in every refresh."""
    idle_after_s: float = 20.0
    """After the last viewer is gone, nothing is asked any more."""


class Watcher:
    """The picture, and the threads that keep it."""

    def __init__(
        self, client: Client, pace: Pace | None = None, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        self._client = client
        self.questions = Questions(client)
        self._pace = pace or Pace()
        self._monotonic = monotonic
        self.picture = Picture()
        self._stop = threading.Event()
        self._looked_at = threading.Event()
        self._looked_until = 0.0
        self._named: dict[int, float] = {}
        """Jobs that have to be looked at, and from when on."""
        self._lock = threading.Lock()
        self._turn = {True: 0, False: 0}
        self._due = {"nodes": 0.0, "usage": 0.0, "eta": 0.0}
        self._events_after = -1
        self._whole = False
        self._threads = [threading.Thread(target=work, daemon=True) for work in (self._keep, self._follow, self._ask)]

    def start(self) -> None:
        """Begin."""
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """End; the client has to be closed afterwards, which ends its stream of events."""
        self._stop.set()
        self._looked_at.set()

    def look(self) -> Picture:
        """The picture of now; from here on it is kept up to date for a while."""
        self._looked_until = self._monotonic() + self._pace.idle_after_s
        self._looked_at.set()
        return self.picture

    def soon(self, jobs: Iterable[int]) -> None:
        """Look at jobs with the next refresh."""
        with self._lock:
            self._named.update(dict.fromkeys(jobs, 0.0))

    def _publish(self, **changes: Any) -> None:
        with self._lock:
            self.picture = replace(self.picture, version=self.picture.version + 1, **changes)

    # The thread that asks

    def _keep(self) -> None:
        while not self._stop.is_set():
            if self._monotonic() > self._looked_until:
                self._looked_at.clear()
                self._looked_at.wait(1.0)
                continue
            try:
                self.refresh()
            except RotaError as error:
                self._lost(str(error))
            except Exception as error:  # a picture that stands still without a word would be worse
                log.exception("the picture could not be refreshed")
                self._lost(f"{type(error).__name__}: {error}")
            self._stop.wait(self._pace.refresh_s)

    def _lost(self, why: str) -> None:
        if self._stop.is_set():
            return
        since = self.picture.away_since if self.picture.away and self.picture.away_since else wall_s()
        self._whole = False
        self._publish(away=why.splitlines()[0][:500] if why else "no reason was given", away_since=since)

    def refresh(self) -> None:
        """Ask for what is due. Raises RotaError if nobody answers."""
        status = self._client.status()
        if not self._whole:
            self._read_all(status)
        rows = self._changed_rows()
        changes: dict[str, Any] = {
            "away": "",
            "away_since": 0.0,
            "status": _status_fields(status),
            "decisions": self._with_new_decisions(status.decisions),
        }
        if rows:
            changes["jobs"] = _without_oldest({**self.picture.jobs, **rows})
        if self._is_due("nodes", self._pace.nodes_s):
            changes["nodes"] = {info.node: node_row(info) for info in self._client.nodes()}
        self._publish(**changes)

    def _read_all(self, status: Any) -> None:
        """Everything anew: at first, and after a scheduler was away."""
        rows: dict[int, JobRow] = {}
        nodes = {info.node: node_row(info) for info in self._client.nodes()}
        with self._lock:
            self._named.clear()
            self._events_after = status.events
        self._publish(away="", away_since=0.0, status=_status_fields(status), nodes=nodes, etas={})
        for phases in (sorted(RUNNING), sorted(_WAITING)):  # what runs first: it is the map
            rows |= {info.job: job_row(info) for info in self._client.page(phases).jobs}
            self._publish(jobs=dict(rows))
        ended = self._client.page(sorted(OVER), limit=_ENDED_AT_FIRST)
        self._publish(jobs={**{info.job: job_row(info) for info in ended.jobs}, **rows})
        self._whole = True

    def _changed_rows(self) -> dict[int, JobRow]:
        now = self._monotonic()
        with self._lock:
            named = [job for job, since in self._named.items() if since <= now]
            for job in named:
                del self._named[job]
        asked = list(dict.fromkeys([*named, *self._in_turn(running=True), *self._in_turn(running=False)]))
        rows: dict[int, JobRow] = {}
        for first in range(0, len(asked), _ASKED_AT_ONCE):
            some = asked[first : first + _ASKED_AT_ONCE]
            rows |= {info.job: job_row(info) for info in self._client.some_jobs(some)}
        again = [job for job in named if job in rows and rows[job].live and self._settles(rows[job])]
        with self._lock:
            for job in again:
                self._named.setdefault(job, now + _AGAIN_AFTER_S)
        return {job: row for job, row in rows.items() if self.picture.jobs.get(job) != row}

    def _settles(self, row: JobRow) -> bool:
        """Whether a job was seen to change with this look, so that it may do so again soon."""
        return self.picture.jobs.get(row.job) != row

    def _in_turn(self, *, running: bool) -> list[int]:
        """Some jobs, others than the last time."""
        jobs = [row.job for row in self.picture.jobs.values() if row.live and (row.phase in RUNNING) == running]
        if len(jobs) <= self._pace.in_turn:
            return jobs
        first = self._turn[running] % len(jobs)
        self._turn[running] = first + self._pace.in_turn
        return (jobs + jobs)[first : first + self._pace.in_turn]

    def _with_new_decisions(self, decisions: Iterable[Any]) -> tuple[tuple[float, float, float], ...]:
        known = self.picture.decisions
        last = known[-1][0] if known else -1.0
        told = [(d.at_s, round(d.decided_s, 5), round(d.solve_s, 5)) for d in decisions]
        if told and told[-1][0] < last:  # another scheduler, or another journal
            return tuple(told)
        return (*known, *(decision for decision in told if decision[0] > last))[-_MOST_DECISIONS:]

    def _is_due(self, what: str, every_s: float) -> bool:
        now = self._monotonic()
        if every_s <= 0 or now < self._due[what]:
            return False
        self._due[what] = now + every_s
        return True

    # Questions: answers that cost the scheduler's machine something

    def _ask(self) -> None:
        while not self._stop.is_set():
            if self._whole and not self.picture.away and self._monotonic() <= self._looked_until:
                self.ask_questions()
            self._stop.wait(0.5)

    def ask_questions(self) -> None:
        """Put the questions that are due; one that is refused says why in the picture."""
        if self._is_due("usage", self._pace.usage_s):
            try:
                last_s = _USAGE_S * float(self.picture.status["time_scale"])
                answer = self.questions.usage(last_s, points=120)
                number = self.picture.usage_number + 1
                self._publish(usage=answer, usage_number=number, usage_problem="")
                self._rest("usage", answer["cpu_s"])
            except RotaError as error:
                self._publish(usage_problem=str(error))
                self._due["usage"] = self._monotonic() + _AFTER_REFUSAL_S
        waiting = sorted(row.job for row in self.picture.jobs.values() if row.live and row.phase not in RUNNING)
        if waiting and self._is_due("eta", self._pace.eta_s):
            try:
                answer = self.questions.eta(waiting[:_ETA_JOBS], _ETA_FUTURES)
                self._publish(etas=etas_of(answer, wall_s()), eta_problem="")
                self._rest("eta", answer["cpu_s"])
            except RotaError as error:
                self._publish(eta_problem=str(error))
                self._due["eta"] = self._monotonic() + _AFTER_REFUSAL_S

    def _rest(self, what: str, cpu_s: float) -> None:
        self._due[what] = max(self._due[what], self._monotonic() + cpu_s / self._pace.part_of_cpu)

    # The thread that follows events

    def _follow(self) -> None:
        while not self._stop.is_set():
            if not self._whole or self._monotonic() > self._looked_until:
                self._stop.wait(0.2)
                continue
            try:
                for number, line in self._client.event_lines(self._events_after, follow=True):
                    self._events_after = number
                    self._note(json.loads(line))
                    if not self._whole or self._stop.is_set():
                        break
            except RotaError:
                self._stop.wait(1.0)  # the other thread says that the scheduler is away
            except ValueError:  # the client was closed
                return

    def _note(self, event: dict[str, Any]) -> None:
        if event.get("event") in _QUIET:
            return
        jobs = event.get("jobs") if isinstance(event.get("jobs"), list) else []
        numbers = [job for job in (event.get("job"), *(jobs or ())) if isinstance(job, int)]
        if event.get("event") == "JobsSubmitted":
            numbers = []
        if str(event.get("event")).startswith("Node"):
            self._due["nodes"] = 0.0
        self.soon(numbers)


def _status_fields(status: Any) -> dict[str, Any]:
    return {name: getattr(status, name) for name in _STATUS}


def _without_oldest(rows: dict[int, JobRow]) -> dict[int, JobRow]:
    """Without the jobs that ended first, if there are too many that are over."""
    ended = sorted((row.ended_at, row.job) for row in rows.values() if not row.live)
    for _, job in ended[: max(0, len(ended) - _MOST_ENDED)]:
        del rows[job]
    return rows
