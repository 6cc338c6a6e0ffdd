"""`rota up` from the inside: a whole cluster on this machine, kept in one folder.

DIR/state.db        the scheduler's journal: `rota up` again goes on from here
DIR/certs, token    made once; the token is an administrator's
DIR/client.toml     how `rota submit` and the others find the scheduler (mode 0600)
DIR/up.json         what `rota up` was asked for, taken again when nothing is said
DIR/logs, agents    of scheduler and agents; what agents remember, a folder each
DIR/checkpoints     of jobs
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from rota.core.cluster import Server
from rota.core.errors import ConfigError, OutputError, RotaError
from rota.deploy.control import Client
from rota.deploy.local.certificates import secure
from rota.deploy.local.processes import Child, Lifeline, stop
from rota.deploy.local.settings import UpSettings, remembered, servers_of, together
from rota.deploy.locks import hold
from rota.deploy.providers.local import LocalProcesses
from rota.deploy.providers.port import PilotOrder
from rota.deploy.security import secret_files
from rota.deploy.worker.inventory import read_connections
from rota.rpc import rota_pb2 as pb

_SERVE_S = 60.0
"""Seconds that the scheduler may take to listen."""
_JOIN_S = 120.0
"""Seconds that all servers may take to register."""
_MANY = 8
"""With more emulated servers than this, as many agents share a process unless something else is asked for."""
_MAIN = "import sys; sys.path[:] = filter(None, sys.path); from rota.cli.main import main; sys.exit(main())"
_PROGRAM = (sys.executable, "-c", _MAIN)
"""Rota as a process of its own. Unlike `-m`, it does not import a queue.py that lies in the folder of the user."""


@dataclass(kw_only=True)
class LocalCluster:
    """Scheduler and agents as processes of this machine."""

    folder: Path
    settings: UpSettings
    port: int = 0
    tell: Callable[[str], None] = lambda _: None
    address: str = ""
    metrics: str = ""
    """Where metrics are served; empty: nowhere."""
    scheduler: Child | None = None
    agents: list[Child] = field(default_factory=list)
    servers: int = 0
    _lock: IO[str] | None = None
    _lifeline: Lifeline | None = None
    _client: Client | None = None

    @property
    def certs(self) -> Path:
        """Folder of certificates."""
        return self.folder / "certs"

    def client(self) -> Client:
        """A connection with the administrator's token."""
        if self._client is None:
            self._client = Client(self.address, certs=self.certs, token_file=self.folder / "token")
        return self._client

    # Up

    def start(self, stopped: Callable[[], bool] = lambda: False) -> None:
        """Start everything and wait until all servers are there; early return if `stopped` says so."""
        servers = servers_of(self.settings.servers)
        secret_files.make_private_folder(self.folder)
        self._lock = _lock(self.folder)
        self._check_scale()
        for name in ("logs", "agents", "checkpoints"):
            (self.folder / name).mkdir(exist_ok=True)
        secure(self.folder, [server.id for server in servers])
        self._lifeline = Lifeline()
        self._start_scheduler(self._lifeline)
        if stopped():
            return
        self._write_settings()
        self.servers = len(servers)
        lines = {s.id: line for s, line in zip(servers, _lines(self.settings.connections, len(servers)), strict=True)}
        groups = together(servers, self._most_together(len(servers)))
        place = LocalProcesses(lifeline=self._lifeline)
        self.agents = place.children
        for group in groups:
            place.submit(self._agent(group, lines[group[0].id]))
        self._join(stopped)

    def _check_scale(self) -> None:
        before = remembered(self.folder)
        if before is not None and before.time_scale != self.settings.time_scale and (self.folder / "state.db").exists():
            raise ConfigError(
                f"the cluster in {self.folder} runs with --time-scale {before.time_scale:g}, which cannot change; "
                "leave it out, or give another --state"
            )

    def _start_scheduler(self, lifeline: Lifeline) -> None:
        child = Child(
            name="the scheduler", command=self._serve(f"127.0.0.1:{self.port}"), lifeline=lifeline,
            log=self.folder / "logs" / "scheduler.log",
        )  # fmt: skip
        self.scheduler = child
        child.start()
        line = child.said(_SERVE_S)
        if line is None:
            raise child.failure()
        told = json.loads(line)
        self.address = str(told["address"])
        self.metrics = str(told.get("metrics", ""))
        child.command = self._serve(self.address)  # should it die, it comes back where agents look for it

    def _serve(self, address: str) -> tuple[str, ...]:
        folder = self.folder.resolve()
        return (
            *_PROGRAM, "serve", "--state", str(folder / "state.db"), "--listen", address,
            "--certs", str(folder / "certs"),
            "--checkpoints", str(folder / "checkpoints"), "--time-scale", repr(self.settings.time_scale),
            *self.settings.serve, "--json", "--while-stdin",
        )  # fmt: skip

    def _most_together(self, servers: int) -> int:
        """How many agents share a process. Only emulated servers can, and none with a part of the machine."""
        if not self.settings.emulate or self.settings.connections:
            return 1
        return self.settings.per_process or (1 if servers <= _MANY else _MANY)

    def _agent(self, group: Sequence[Server], line: Sequence[str] = ()) -> PilotOrder:
        """The process of one agent, or of several for servers that are alike."""
        server = group[0]
        has = server.capacity
        names = [member.id for member in group]
        place = self.folder.resolve()
        folder = place / "agents" / server.id if len(group) == 1 else place / "agents"
        amounts = [
            (flag, value)
            for flag, value in (
                ("--cpus", has.cpus), ("--memory-gb", has.memory_gb), ("--storage-mbps", has.storage_mbps),
                ("--network-gbps", has.network_gbps),
            )
            if value
        ]  # fmt: skip
        gpus = f"{'emulate:' if self.settings.emulate else ''}{server.type}={has.gpus}"
        command = [
            *_PROGRAM, "agent", "--scheduler", self.address, "--certs", str(place / "certs"),
            "--gpus", gpus, "--folder", str(folder), "--trust-tenants", "--json", "--while-stdin",
        ]  # fmt: skip
        command += [word for name in names for word in ("--name", name)]
        command += [word for label in server.labels for word in ("--label", label)]
        command += ["--realtime"] if self.settings.realtime else []
        command += [word for flag, value in amounts for word in (flag, repr(value))]
        command += line
        span = server.id if len(group) == 1 else f"{names[0]} to {names[-1]}"
        log = self.folder / "logs" / f"{span.replace(' ', '-')}.log"
        return PilotOrder(name=f"agent{'' if len(group) == 1 else 's'} {span}", command=tuple(command), log=log)

    def _write_settings(self) -> None:
        lines = {
            "scheduler": self.address,
            "certs": str(self.certs.resolve()),
            "token_file": str((self.folder / "token").resolve()),
        }
        text = "".join(f"{key} = {json.dumps(value)}\n" for key, value in lines.items())
        secret_files.write_whole(self.folder / "client.toml", text.encode(), secret_files.PRIVATE)
        kept = json.dumps(self.settings.fields(), indent=1) + "\n"
        secret_files.write_whole(self.folder / "up.json", kept.encode(), secret_files.PRIVATE)

    def _join(self, stopped: Callable[[], bool]) -> None:
        """Wait until every agent has said that it is registered."""
        began = time.monotonic()
        missing = list(self.agents)
        while missing and not stopped():
            self.tend()
            lost = [agent for agent in self.agents if agent.given_up]
            if lost:
                raise lost[0].failure()
            missing = [agent for agent in missing if agent.said() is None]
            if missing and time.monotonic() - began > _JOIN_S:
                names = ", ".join(agent.name for agent in missing[:8])
                raise RotaError(f"not all servers came within {_JOIN_S:g} s; missing: {names}; see {self.folder}/logs")
            time.sleep(0.05)

    # While it runs

    def tend(self) -> None:
        """Start again what died. Raises RotaError if there is no scheduler any more."""
        for child in (self.scheduler, *self.agents):
            said = child.tend() if child is not None else None
            if said is not None:
                self.tell(said)
        if self.scheduler is not None and self.scheduler.given_up:
            raise RotaError(f"the scheduler cannot be kept up: {self.scheduler.last_words()}")

    def pids(self) -> dict[str, int]:
        """Processes by name."""
        children = [child for child in (self.scheduler, *self.agents) if child is not None]
        return {child.name: child.pid for child in children if child.pid}

    def unfinished(self) -> int | None:
        """Jobs that are not over; None if the scheduler does not say."""
        try:
            status: pb.StatusReply = self.client().status()
        except RotaError:
            return None
        return int(status.queued + status.running)

    # Down

    def stop(self) -> list[str]:
        """End agents, then the scheduler; the names of those that had to be killed."""
        late = stop(self.agents)
        late += stop([self.scheduler] if self.scheduler is not None else [])
        if self._client is not None:
            self._client.close()
        if self._lifeline is not None:
            self._lifeline.close()
        if self._lock is not None:
            self._lock.close()
        return late


def _lines(path: str, servers: int) -> list[list[str]]:
    """For every server the options by which its agent finds its line of a connection file."""
    if not path:
        return [[] for _ in range(servers)]
    connections = read_connections(path)
    if len(connections) < servers:
        raise ConfigError(f"{path} has {len(connections)} lines for {servers} servers; give each server one")
    return [["--connection-file", path, "--host", f"{c.host}:{c.port}"] for c in connections[:servers]]


def _lock(folder: Path) -> IO[str]:
    """Keep a second `rota up` away for as long as the process lives."""
    try:
        return hold(folder / "up.lock", lambda owner: _taken(folder, owner))
    except OSError as error:
        raise OutputError(f"cannot use {folder}: {error.strerror}; give another --state") from error


def _taken(folder: Path, owner: str) -> str:
    return (
        f"a cluster is up in {folder} already (process {owner}); use it, stop it with Ctrl-C there (or "
        f"`kill {owner}`), or give another --state"
    )
