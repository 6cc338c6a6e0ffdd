"""A thread with a copy of the registry, kept up to date from committed events: whoever looks at it holds up nobody.

The copy is brought forward by the code of the registry itself. Should events be dropped because the thread got no time
for long, or should one not fit to the copy, the copy is made anew, which is the only thing that the owner is asked for.
"""

from __future__ import annotations

import logging
import pickle
import threading
import time
from collections.abc import Iterable, Sequence
from typing import Any, Protocol

from rota.core import events as engine_events
from rota.core.errors import IllegalTransition
from rota.deploy import events as deploy_events
from rota.deploy.observation.tap import Duration, EventTap, Mark
from rota.deploy.scheduler.records import Job
from rota.deploy.scheduler.registry import Registry
from rota.deploy.scheduler.service import Scheduler
from rota.deploy.scheduler.stage_times import Stage

log = logging.getLogger(__name__)

_LOOK_EVERY_S = 0.25
_AT_ONCE = 500
"""Batches that are taken over without letting go of the copy."""
_COPY_S = 60.0
"""Wall seconds that the owner may take to make a copy."""
_SAME_FAILURE_S = 60.0

_MAY_END_JOBS = (
    engine_events.JobsFinished,
    engine_events.JobsDropped,
    engine_events.JobsRejected,
)


class Watcher(Protocol):
    """Somebody who counts or tells what happens. Called by the observer's thread."""

    def happens(self, event: Any, registry: Registry) -> None:
        """An event, before the copy takes it over."""

    def ended(self, job: Job) -> None:
        """A job is over."""

    def took(self, stage: Stage, seconds: float) -> None:
        """A stage of the scheduler's work took so many wall seconds."""

    def copied(self, registry: Registry) -> None:
        """The copy is a new one."""


class Observer:
    """Reads the tap; `lock` protects the copy."""

    def __init__(self, scheduler: Scheduler, watchers: Sequence[Watcher], tap: EventTap | None = None) -> None:
        self._scheduler = scheduler
        self._watchers = watchers
        self._tap = tap or EventTap()
        self.lock = threading.RLock()
        self.registry: Registry = _copy(scheduler.registry)
        self.copies = 0
        """How often the copy had to be made anew."""
        self._dropped = 0
        self._out_of_step = False
        self._logged = -_SAME_FAILURE_S
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="observer", daemon=True)
        self._tell_of_copy()

    def start(self) -> None:
        """Begin to listen, before the scheduler starts."""
        self._scheduler.observe(self._tap.events, self._tap.took)
        self._thread.start()

    def stop(self, timeout_s: float = 2.0) -> None:
        """Listen no more."""
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join(timeout_s)

    def _run(self) -> None:
        while not self._stop.wait(_LOOK_EVERY_S):
            try:
                self.catch_up()
                self._mend()
            except Exception as error:  # noqa: BLE001, PERF203 - whatever it is, the thread goes on
                self._complain(error, "the copy of the registry for metrics and logs cannot be kept up to date")

    def catch_up(self) -> None:
        """Take over what was committed meanwhile. Any thread; other threads get the copy in between."""
        while True:
            with self.lock:
                news = self._tap.read(_AT_ONCE)
                for one in news:
                    self._take(one)
            if len(news) < _AT_ONCE:
                return

    def _take(self, one: Sequence[Any] | Duration | Mark) -> None:
        if isinstance(one, Duration):
            for watcher in self._watchers:
                watcher.took(one.stage, one.seconds)
        elif not isinstance(one, Mark) and not self._out_of_step:
            for event in one:
                self._take_event(event)

    def _take_event(self, event: Any) -> None:
        registry = self.registry
        try:
            concerned = [number for number in _jobs_of(event) if number in registry.live]
            for watcher in self._watchers:
                watcher.happens(event, registry)
            try:
                registry.apply(event)
            except IllegalTransition as error:  # the owner has logged it, and gave up the job
                log.debug("the copy of the registry leaves out %s: %s", type(event).__name__, error)
            for number in concerned:
                if number not in registry.live:
                    self._tell_end(registry.jobs[number])
        except Exception as error:  # noqa: BLE001 - the copy is made anew
            self._out_of_step = True
            self._complain(error, f"{type(event).__name__} cannot be taken over for metrics and logs")

    def _tell_end(self, job: Job) -> None:
        for watcher in self._watchers:
            watcher.ended(job)

    # A new copy

    def _mend(self) -> None:
        """Make the copy anew if something is missing in it."""
        if self._tap.dropped == self._dropped and not self._out_of_step:
            return
        if not self._scheduler.alive():
            return
        with self.lock:  # nobody else may read the tap until the copy is there
            self._dropped = self._tap.dropped
            body, mark = self._scheduler.look(
                "copy of the registry", lambda registry: (pickle.dumps(registry), self._tap.mark())
            ).result(_COPY_S)
            self._skip_to(mark)
            self.registry = pickle.loads(body)  # noqa: S301 - made by this process a moment ago
            self.copies += 1
            self._out_of_step = False
            self._tell_of_copy()

    def _skip_to(self, mark: int) -> None:
        """Leave out what is in the copy already."""
        while news := self._tap.read(1):
            if isinstance(news[0], Mark) and news[0].number == mark:
                return

    def _tell_of_copy(self) -> None:
        for watcher in self._watchers:
            watcher.copied(self.registry)

    def _complain(self, error: Exception, what: str) -> None:
        now = time.monotonic()
        if now - self._logged >= _SAME_FAILURE_S:
            self._logged = now
            log.error("%s; tried again", what, exc_info=error)


def _copy(registry: Registry) -> Registry:
    copy: Registry = pickle.loads(pickle.dumps(registry))  # noqa: S301 - made by this process
    return copy


def _jobs_of(event: Any) -> Iterable[int]:
    """Jobs that may be over with an event."""
    if isinstance(event, _MAY_END_JOBS):
        numbers: list[int] = event.jobs.tolist()
        return numbers
    if isinstance(event, deploy_events.CancelAsked | deploy_events.JobGivenUp):
        return (event.job,)
    return ()
