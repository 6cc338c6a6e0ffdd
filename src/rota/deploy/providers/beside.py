"""The keeper of a pool beside a scheduler that was told where its nodes come from (`rota serve --nodes`).

It is a process of its own, `rota pilots start`, started again when it dies and ended with the scheduler. Pilots go on.
After `rota pilots stop` it ends in order, and comes back with the scheduler.
"""

from __future__ import annotations

import logging
import re
import socket
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from rota.core.errors import ConfigError, UnknownName
from rota.deploy.local.processes import Child, Lifeline, stop
from rota.deploy.providers.pilot import ROTA
from rota.deploy.security import secret_files
from rota.deploy.security.addresses import split
from rota.deploy.security.places import tokens_file
from rota.deploy.security.tokens import TokenFile

log = logging.getLogger(__name__)

_PLACE = "slurm"
_VALUES = (
    "partition", "gres", "nodes", "min", "max", "time", "notice", "replace-before", "idle", "cpus", "mem", "account",
    "qos", "constraint", "exclude", "sbatch", "nodelist", "reservation", "pool", "tenant", "folder", "work-dir",
    "every", "agent-config",
)  # fmt: skip
_FLAGS = ("emulate", "trust-tenants", "exclusive", "per-attempt")
_COMMA = re.compile(r",(?![^\[]*\])")
"""Between settings; those within n[1,3] are of a list of nodes."""
_EVERYWHERE = ("0.0.0.0", "::", "[::]", "")  # noqa: S104 - compared, not bound
_LOOK_S = 1.0


def pilots_arguments(spec: str) -> list[str]:
    """Options of `rota pilots start` for `slurm:partition=gpu,nodes=16,time=4h`. Raises ConfigError."""
    place, colon, rest = spec.partition(":")
    if place != _PLACE or not colon:
        raise ConfigError(f"--nodes {spec!r}: write slurm:partition=gpu,nodes=16,time=4h; other places are not known")
    words = ["--slurm"]
    for part in filter(None, (piece.strip() for piece in _COMMA.split(rest))):
        key, equals, value = part.partition("=")
        if key in _FLAGS and not equals:
            words.append(f"--{key}")
        elif key in _VALUES and value:
            words += [f"--{key}", value]
        elif key in (*_FLAGS, *_VALUES):
            fix = f"write {key}=VALUE" if key in _VALUES else f"write {key} alone"
            raise ConfigError(f"--nodes {spec!r}: {part!r} is not understood; {fix}")
        else:
            raise UnknownName(f"setting in --nodes {spec!r}:", key, (*_VALUES, *_FLAGS))
    return words


def reachable(address: str) -> str:
    """The address by which other machines find a scheduler that listens there."""
    host, port = split(address)
    return f"{socket.gethostname()}:{port}" if host in _EVERYWHERE else address


@dataclass(kw_only=True)
class PilotsBeside:
    """One keeper beside a scheduler."""

    arguments: Sequence[str]
    state: Path
    """The scheduler's state file; what belongs to the keeper is beside it."""
    certs: Path
    _child: Child | None = None
    _lifeline: Lifeline = field(default_factory=Lifeline)
    _over: threading.Event = field(default_factory=threading.Event)

    def start(self, address: str) -> None:
        """Start it as soon as the scheduler listens, and look after it."""
        command = (
            *ROTA, "pilots", "start", "--scheduler", reachable(address), "--certs", str(self.certs.absolute()),
            "--token-file", str(self._token()), "--while-stdin", *self.arguments,
        )  # fmt: skip
        log_file = self.state.with_name(f"{self.state.name}.pilots.log")
        self._child = Child(name="the keeper of pilots", command=command, log=log_file, lifeline=self._lifeline)
        self._child.start()
        threading.Thread(target=self._tend, args=(self._child,), daemon=True, name="pilots").start()

    def stop(self) -> None:
        """End it; pilots go on."""
        self._over.set()
        if self._child is not None:
            stop([self._child])
        self._lifeline.close()

    def _tend(self, child: Child) -> None:
        while not self._over.wait(_LOOK_S):
            if child.ended_well:
                log.warning("%s has ended: %s", child.name, child.last_words())
                return
            said = child.tend()
            if said is not None:
                log.warning("%s: %s", said, child.last_words())

    def _token(self) -> Path:
        """An administrator's token of its own: it drains nodes and forgets those of pilots that are over."""
        path = self.state.with_name(f"{self.state.name}.pilots.token")
        if not path.exists():
            _, text = TokenFile(tokens_file(self.certs)).add("default", admin=True, note="made by rota serve --nodes")
            secret_files.write_whole(path, f"{text}\n".encode(), secret_files.PRIVATE)
        return path.absolute()
