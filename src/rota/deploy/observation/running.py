"""Everything that watches a scheduler, started before it and stopped with it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from rota.core.errors import ConfigError
from rota.deploy.notifications.notifier import Notifier
from rota.deploy.observation.event_lines import EventLines
from rota.deploy.observation.observer import Observer, Watcher
from rota.deploy.observation.settings import MetricsAddress, ObservationSettings
from rota.deploy.scheduler.service import Scheduler

if TYPE_CHECKING:
    from rota.deploy.observation.http_server import MetricsServer
    from rota.deploy.observation.metrics import Metrics

Refusals = Callable[[], Mapping[str, int]]


class Observation:
    """Beside one scheduler. Made before it starts."""

    def __init__(self, scheduler: Scheduler, settings: ObservationSettings, refusals: Refusals) -> None:
        """ConfigError if the port of metrics cannot be had, or the file of notifications not be read."""
        self._settings = settings
        self._notifier = Notifier(scheduler, settings.targets) if settings.targets else None
        metrics = None if settings.metrics is None else _metrics(scheduler)
        watchers: list[Watcher] = [] if metrics is None else [metrics.counting]
        watchers += [EventLines()] if settings.event_lines else []
        self._observer = Observer(scheduler, watchers) if watchers else None
        self._server: MetricsServer | None = None
        if metrics is not None and settings.metrics is not None and self._observer is not None:
            self._server = self._listen(metrics, settings.metrics, self._observer, refusals)

    def _listen(
        self, metrics: Metrics, address: MetricsAddress, observer: Observer, refusals: Refusals
    ) -> MetricsServer:
        from rota.deploy.observation.gauges import Beside

        notifier = self._notifier
        beside = Beside(refusals=refusals)
        if notifier is not None:
            beside = Beside(refusals=refusals, notifications=notifier.counts, behind=notifier.behind)
        return metrics.server(address, observer, beside)

    def before_start(self) -> None:
        """The scheduler is about to start."""
        if self._observer is not None:
            self._observer.start()

    def after_start(self) -> None:
        """The scheduler runs."""
        if self._notifier is not None:
            self._notifier.start()
        if self._server is not None:
            self._server.start()
            self._settings.metrics_ready(self._server.url)

    def stop(self) -> None:
        """Watch no more."""
        if self._server is not None:
            self._server.stop()
        if self._notifier is not None:
            self._notifier.stop()
        if self._observer is not None:
            self._observer.stop()


def _metrics(scheduler: Scheduler) -> Metrics:
    try:
        from rota.deploy.observation.metrics import Metrics
    except ImportError as error:
        raise ConfigError(
            "--metrics needs the package prometheus-client; install the extra: "
            "pip install '.[deploy]' in a checkout of Rota"
        ) from error
    return Metrics(scheduler)
