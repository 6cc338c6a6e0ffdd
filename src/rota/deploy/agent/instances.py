"""Which process an agent is: so that a scheduler can tell a restart from a second agent with the same certificate.

Every process makes itself a name and writes it into its folder, which one process at a time may hold. So the names that
it finds there are of processes which are dead, and it may take their place at once. A copy of the folder proves
nothing: the original may be alive on this machine or on another one.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
import uuid
from pathlib import Path

from rota.core import files
from rota.deploy.clocks import boot_id

_FILE = "instances.json"


class AgentInstance:
    """One agent process in its folder, which is locked."""

    def __init__(self, folder: Path) -> None:
        self.id = uuid.uuid4().hex
        self._path = folder / _FILE
        self._home = _home(folder)
        self.replaces = self._before()
        """Processes in this folder since the last one that was registered, that one included."""
        self.place = f"{socket.gethostname()}:{folder}, process {os.getpid()}"
        self._write([*self.replaces, self.id])

    def registered(self) -> None:
        """The scheduler knows this process: those before it do not matter any more."""
        if self.replaces:
            self.replaces = ()
            self._write([self.id])

    def _before(self) -> tuple[str, ...]:
        with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
            kept = json.loads(self._path.read_text(encoding="utf-8"))
            if kept["home"] == self._home:
                return tuple(str(name) for name in kept["instances"])
        return ()

    def _write(self, instances: list[str]) -> None:
        with contextlib.suppress(OSError):  # a full disk: the next one waits until this one is silent for long enough
            files.write_text(self._path, json.dumps({"home": self._home, "instances": instances}), durable=False)


def _home(folder: Path) -> str:
    """The folder itself, on this boot of this machine: a copy has another one."""
    state = folder.stat()
    return f"{boot_id()} {state.st_dev} {state.st_ino}"
