"""The engine's events of a deployment as the log that `rota replay` and `rota plot` read."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

from rota.analysis.output import check_writable, whole_file
from rota.core.errors import ConfigError
from rota.deploy.control import Client
from rota.deploy.events import KINDS


def export_events(client: Client, path: str | Path) -> int:
    """Write the log, compressed if the name ends in .gz; how many events. Takes an administrator's token."""
    check_writable(path)
    lines = [line for _, line in client.event_lines() if json.loads(line).get("event") not in KINDS]
    if not lines or json.loads(lines[0])["event"] != "RunStarted":
        raise ConfigError(
            "there is no run to export: no server has come yet, or the token is not an administrator's, who alone sees "
            "the events of the engine"
        )
    last = json.loads(lines[-1])
    if last["event"] != "RunEnded":
        ended = {"event": "RunEnded", "at": last["at"], "reason": "exported while the service goes on"}
        lines.append(json.dumps(ended, separators=(",", ":")))
    data = ("\n".join(lines) + "\n").encode()
    with whole_file(path) as temporary:
        temporary.write_bytes(gzip.compress(data, mtime=0) if str(path).endswith(".gz") else data)
    return len(lines)
