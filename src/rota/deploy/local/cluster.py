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
import socket
import sys
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime, timezone
from pathlib import Path
from typing import IO, Any

from rota import clusters
from rota.core.cluster import Server
from rota.core.errors import ConfigError, OutputError, RotaError
from rota.deploy.control import Client
from rota.deploy.local.processes import Child, Lifeline, stop
from rota.deploy.locks import hold
from rota.deploy.security import certs, secret_files
from rota.deploy.security.places import tokens_file
from rota.deploy.security.subjects import Role, Subject, check_name
from rota.deploy.security.tokens import TokenFile
from rota.deploy.worker.inventory import read_connections
from rota.rpc import rota_pb2 as pb

_SERVE_S, _JOIN_S = 60.0, 120.0
_MANY = 8
"""From more emulated servers than this on, so many agents share a process unless something else is asked for."""
_MAIN = "import sys; sys.path[:] = filter(None, sys.path); from rota.cli.main import main; sys.exit(main())"
_PROGRAM = (sys.executable, "-c", _MAIN)
"""Rota as a process of its own. Unlike `-m`, it does not import a queue.py that lies in the folder of the user."""


def servers_of(texts: Sequence[str]) -> list[Server]:
    """Servers from `v100=4`, `k80=4/8:cpus=24` and so on, numbered through by type."""
    found: list[Server] = []
    seen: Counter[str] = Counter()
    for text in texts:
        kind = text.partition("=")[0].strip()
        if "," in text or not kind or "=" not in text:
            raise ConfigError(f"--server {text!r}: write one type, e.g. v100=4, or k80=16/8 for two servers of 8")
        gpus, colon, beside = text.partition("=")[2].partition(":")
        whole = text if "/" in gpus else f"{kind}={gpus}/{gpus}{colon}{beside}"
        check_name("a server", kind)
        for server in clusters.load(whole).servers:
            name = f"{server.type}-{seen[server.type]}"
            seen[server.type] += 1
            found.append(Server(id=name, type=server.type, capacity=server.capacity, rack=server.rack))
    if not found:
        raise ConfigError("a cluster needs servers: give --server TYPE=GPUS, e.g. --server v100=4 --server k80=4")
    return found


def together(servers: Sequence[Server], most: int) -> list[list[Server]]:
    """Servers in groups of neighbours that are alike, each of at most so many."""
    groups: list[list[Server]] = []
    for server in servers:
        last = groups[-1] if groups else []
        alike = last and (last[0].type, last[0].capacity) == (server.type, server.capacity)
        if alike and len(last) < most:
            last.append(server)
        else:
            groups.append([server])
    return groups


@dataclass(frozen=True, kw_only=True)
class Wishes:
    """What `rota up` was asked for. Options are those of `rota serve` as they are written there."""

    servers: tuple[str, ...]
    emulate: bool = False
    time_scale: float = 1.0
    serve: tuple[str, ...] = ()
    connections: str = ""
    """A connection file of Synergy with a line for each server; empty: none."""
    per_process: int = 0
    """Emulated servers whose agents share a process; 0: one up to 8 servers, else 8."""
    realtime: bool = False
    """Whether emulated GPUs get real-time priority."""

    def fields(self) -> dict[str, Any]:
        """As plain values."""
        return asdict(self)


def remembered(folder: Path) -> Wishes | None:
    """What the last `rota up` in a folder was asked for."""
    path = folder / "up.json"
    try:
        kept = json.loads(path.read_text(encoding="utf-8"))
        return Wishes(
            servers=tuple(kept["servers"]), emulate=bool(kept["emulate"]), time_scale=float(kept["time_scale"]),
            serve=tuple(kept["serve"]), connections=str(kept.get("connections", "")),
            per_process=int(kept.get("per_process", 0)), realtime=bool(kept.get("realtime", False)),
        )  # fmt: skip
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ConfigError(f"{path} cannot be used ({error}); remove it and give --server again") from error


@dataclass(kw_only=True)
class LocalCluster:
    """Scheduler and agents as processes of this machine."""

    folder: Path
    wishes: Wishes
    port: int = 0
    tell: Callable[[str], None] = lambda _: None
    address: str = ""
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
        servers = servers_of(self.wishes.servers)
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
        lines = {s.id: line for s, line in zip(servers, _lines(self.wishes.connections, len(servers)), strict=True)}
        groups = together(servers, self._most_together(len(servers)))
        self.agents = [self._agent(group, self._lifeline, lines[group[0].id]) for group in groups]
        for agent in self.agents:
            agent.start()
        self._join(stopped)

    def _check_scale(self) -> None:
        before = remembered(self.folder)
        if before is not None and before.time_scale != self.wishes.time_scale and (self.folder / "state.db").exists():
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
        self.address = str(json.loads(line)["address"])
        child.command = self._serve(self.address)  # should it die, it comes back where agents look for it

    def _serve(self, address: str) -> tuple[str, ...]:
        folder = self.folder.resolve()
        return (
            *_PROGRAM, "serve", "--state", str(folder / "state.db"), "--listen", address,
            "--certs", str(folder / "certs"),
            "--checkpoints", str(folder / "checkpoints"), "--time-scale", repr(self.wishes.time_scale),
            *self.wishes.serve, "--json", "--while-stdin",
        )  # fmt: skip

    def _most_together(self, servers: int) -> int:
        """How many agents share a process. Only emulated servers can, and none with a part of the machine."""
        if not self.wishes.emulate or self.wishes.connections:
            return 1
        return self.wishes.per_process or (1 if servers <= _MANY else _MANY)

    def _agent(self, group: Sequence[Server], lifeline: Lifeline, line: Sequence[str] = ()) -> Child:
        """The process of one agent, or of several for servers that are alike."""
        server, place = group[0], self.folder.resolve()
        has, names = server.capacity, [server.id for server in group]
        folder = place / "agents" / server.id if len(group) == 1 else place / "agents"
        amounts = [
            (flag, value)
            for flag, value in (
                ("--cpus", has.cpus), ("--memory-gb", has.memory_gb), ("--storage-mbps", has.storage_mbps),
                ("--network-gbps", has.network_gbps),
            )
            if value
        ]  # fmt: skip
        gpus = f"{'emulate:' if self.wishes.emulate else ''}{server.type}={has.gpus}"
        command = [
            *_PROGRAM, "agent", "--scheduler", self.address, "--certs", str(place / "certs"),
            "--gpus", gpus, "--folder", str(folder), "--json", "--while-stdin",
        ]  # fmt: skip
        command += [word for name in names for word in ("--name", name)]
        command += ["--realtime"] if self.wishes.realtime else []
        command += [word for flag, value in amounts for word in (flag, repr(value))]
        command += line
        span = server.id if len(group) == 1 else f"{names[0]} to {names[-1]}"
        log = self.folder / "logs" / f"{span.replace(' ', '-')}.log"
        return Child(name=f"agent{'' if len(group) == 1 else 's'} {span}", command=command, log=log, lifeline=lifeline)

    def _write_settings(self) -> None:
        lines = {
            "scheduler": self.address,
            "certs": str(self.certs.resolve()),
            "token_file": str((self.folder / "token").resolve()),
        }
        text = "".join(f"{key} = {json.dumps(value)}\n" for key, value in lines.items())
        secret_files.write_whole(self.folder / "client.toml", text.encode(), secret_files.PRIVATE)
        kept = json.dumps(self.wishes.fields(), indent=1) + "\n"
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
        found = [child for child in (self.scheduler, *self.agents) if child is not None]
        return {child.name: child.pid for child in found if child.pid}

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


def secure(folder: Path, agents: Sequence[str]) -> None:
    """Make what is not there yet: authority, certificates of scheduler, client and agents, an administrator's token."""
    now = datetime.now(timezone.utc).replace(microsecond=0)
    place, hosts = folder / "certs", ("localhost", "127.0.0.1", "::1", socket.gethostname())
    if not (place / "ca.pem").exists():
        certs.create_authority(place, now)
    if not (place / "scheduler.pem").exists():
        certs.issue(place, Subject(Role.SCHEDULER, "scheduler"), now, hosts=hosts, out=place)
    if not (place / "client.pem").exists():
        certs.issue(place, Subject(Role.CLIENT, "admin"), now, out=place)
    for name in agents:
        if not (place / "agents" / f"{name}.pem").exists():
            certs.issue(place, Subject(Role.AGENT, name), now)
    certs.renew(place, now)
    token = folder / "token"
    if not token.exists():
        _, text = TokenFile(tokens_file(place)).add("default", admin=True, note="made by rota up")
        secret_files.write_whole(token, f"{text}\n".encode(), secret_files.PRIVATE)


def merged(given: Mapping[str, Any], before: Wishes | None) -> Wishes:
    """What is said now, and for what is not said what was said the last time."""
    kept = Wishes(servers=()) if before is None else before
    servers = tuple(given.get("servers") or ())
    return Wishes(
        servers=servers or kept.servers,
        emulate=bool(given.get("emulate")) or (kept.emulate and not servers),
        time_scale=float(given.get("time_scale") or kept.time_scale),
        serve=tuple(given.get("serve") or ()) or kept.serve,
        connections=str(given.get("connections") or ("" if servers else kept.connections)),
        per_process=int(given.get("per_process") or kept.per_process),
        realtime=bool(given.get("realtime")) or (kept.realtime and not servers),
    )


def _lines(path: str, servers: int) -> list[list[str]]:
    """For every server the options by which its agent finds its line of a connection file."""
    if not path:
        return [[] for _ in range(servers)]
    found = read_connections(path)
    if len(found) < servers:
        raise ConfigError(f"{path} has {len(found)} lines for {servers} servers; give each server one")
    return [["--connection-file", path, "--host", f"{c.host}:{c.port}"] for c in found[:servers]]


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
