"""Ends everything that an agent started and that outlived it; for whoever started the agent and is about to end."""

from __future__ import annotations

import logging
import sys
import time
from pathlib import Path

from rota.core.errors import ConfigError
from rota.deploy.worker.host import Host
from rota.deploy.worker.inventory import inspect

log = logging.getLogger(__name__)

_PATIENCE_S = 10.0


def sweep(folder: Path) -> int:
    """Kill the tasks of an agent that is dead; how many there were."""
    if not (folder / "work").is_dir():
        return 0
    host = Host(folder / "work", inspect())
    try:
        left = [task for task in host.table.ids() if not host.ended(task)]
        endings = [host.ending(task, 0.0, 0.0, time.monotonic()) for task in left]
        until = time.monotonic() + _PATIENCE_S
        while any(ending.advance(time.monotonic()) is not None for ending in endings) and time.monotonic() < until:
            time.sleep(0.05)
        return len(left)
    finally:
        host.close()


def main() -> int:
    """The folder of the agent is the only argument."""
    logging.basicConfig(level="INFO", format="%(asctime)s %(levelname)s %(message)s")
    try:
        ended = sweep(Path(sys.argv[1]))
    except (ConfigError, OSError) as error:
        log.warning("what the agent in %s started cannot be ended: %s", sys.argv[1], error)
        return 1
    if ended:
        log.warning("the agent in %s died; %d tasks that it had started were ended", sys.argv[1], ended)
    return 0
