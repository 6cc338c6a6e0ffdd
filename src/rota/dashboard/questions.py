"""Questions of a page wait for each other, so that a terminal of the same user does not wait for all of them."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rota.deploy.control import Client

_ETA_CPU_S = 3.0
"""CPU seconds that estimates of one refresh may take, so that what somebody clicks on does not wait for long."""

Answer = dict[str, Any]


class Questions:
    """Puts them for all threads of a gateway."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._turn = threading.Lock()

    def usage(self, last_s: float, points: int) -> Answer:
        """GPUs, CPUs and memory over the last engine seconds. Raises RotaError, as all of these."""
        return self._ask(lambda: self._client.usage(last_s, points=points))

    def eta(self, jobs: list[int], futures: int) -> Answer:
        """When jobs start."""
        return self._ask(lambda: self._client.eta(jobs, futures=futures, starts_only=True, cpu_s=_ETA_CPU_S))

    def occupancy(self, after: int) -> Answer:
        """Changes of who holds which GPUs."""
        return self._ask(lambda: self._client.occupancy(after))

    def why(self, job: int) -> Answer:
        """Why a job waits."""
        return self._ask(lambda: self._client.why(job))

    def _ask(self, question: Callable[[], Answer]) -> Answer:
        with self._turn:
            return question()
