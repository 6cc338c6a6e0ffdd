"""The Philly log as it was recorded.

Every job with a duration and GPUs, when it was submitted and for whom.

Its jobs have no models; they get those of Synergy's workloads by the rule of
`rota.workloads.philly`. (The stream that Synergy derives from the log is `philly-derived`.)
"""

from __future__ import annotations

from collections.abc import Callable

from rota.core.jobs import Jobs
from rota.workloads import philly
from rota.workloads.registry import workloads
from rota.workloads.settings import at_least, whole
from rota.workloads.stream import Stream


@workloads.register("philly-log")
def philly_log(
    *,
    jobs: int | None = None,
    from_hour: float = 0.0,
    profiles: str = "synergy",
) -> Stream:
    """The 82,247 jobs of the Philly log, or some of them from an hour of it on."""
    if jobs is not None:
        whole("jobs", jobs, 1, "10000")
    at_least("from_hour", from_hour, 0, "24")

    def begin() -> Callable[[int], Jobs]:
        log = philly.shipped().by_arrival()
        keep = (log.duration > 0) & (log.gpus > 0) & (log.submitted >= from_hour * 3600)
        table = philly.with_models(log.only(keep), profiles)
        end = len(table) if jobs is None else min(jobs, len(table))
        at = 0

        def draw(count: int) -> Jobs:
            nonlocal at
            start = at
            at = min(at + count, end)
            return table.rows(start, at)

        return draw

    return Stream(begin, endless=False)
