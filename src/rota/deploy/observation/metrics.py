"""`rota serve --metrics` put together: the observer, what it counts, and the port."""

from __future__ import annotations

from prometheus_client import (
    GC_COLLECTOR,
    PLATFORM_COLLECTOR,
    PROCESS_COLLECTOR,
    CollectorRegistry,
    disable_created_metrics,
)

from rota.deploy.observation.counting import Counting
from rota.deploy.observation.estimates import OpenEstimates
from rota.deploy.observation.gauges import Beside, Gauges
from rota.deploy.observation.http_server import MetricsServer
from rota.deploy.observation.observer import Observer
from rota.deploy.observation.settings import MetricsAddress
from rota.deploy.scheduler.service import Scheduler


class Metrics:
    """Everything that a scrape shows. `counting` has to be among the watchers of the observer."""

    def __init__(self, scheduler: Scheduler) -> None:
        disable_created_metrics()  # type: ignore[no-untyped-call]  # a second series for every counter, which only says when the scheduler started
        self.collectors = CollectorRegistry()
        self.counting = Counting(self.collectors, scheduler.clock, OpenEstimates(scheduler.journal.path))
        self._scheduler = scheduler

    def server(self, address: MetricsAddress, observer: Observer, beside: Beside) -> MetricsServer:
        """The port, listening but not answering yet. Raises ConfigError."""
        gauges = Gauges(scheduler=self._scheduler, observer=observer, counting=self.counting, beside=beside)
        self.collectors.register(gauges)
        for collector in (PROCESS_COLLECTOR, PLATFORM_COLLECTOR, GC_COLLECTOR):
            self.collectors.register(collector)
        return MetricsServer(address, self.collectors, observer.catch_up)
