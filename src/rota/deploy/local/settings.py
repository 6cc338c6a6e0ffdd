"""What `rota up` was asked for: servers, options of the scheduler; kept in the folder and taken again the next time."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from rota import clusters
from rota.core.cluster import Cluster, Server
from rota.core.errors import ConfigError
from rota.core.labels import checked_labels
from rota.deploy.security.subjects import check_name

_LABEL = "label="
_PARAMETERS_OF = {"--set-policy": "--policy", "--set-mechanism": "--mechanism", "--set-rules": "--rules"}
"""Parameters mean something together with what they belong to."""


def servers_of(texts: Sequence[str]) -> list[Server]:
    """Servers from `v100=4`, `k80=4/8:cpus=24:label=zone=a` and so on, numbered through by type."""
    servers: list[Server] = []
    seen: Counter[str] = Counter()
    for given in texts:
        text, labels = _without_labels(given)
        gpu_type = text.partition("=")[0].strip()
        if "," in text or not gpu_type or "=" not in text:
            raise ConfigError(f"--server {text!r}: write one type, e.g. v100=4, or k80=16/8 for two servers of 8")
        gpus, colon, beside = text.partition("=")[2].partition(":")
        whole = text if "/" in gpus else f"{gpu_type}={gpus}/{gpus}{colon}{beside}"
        check_name("a server", gpu_type)
        for server in _loaded(whole, text).servers:
            name = f"{server.type}-{seen[server.type]}"
            seen[server.type] += 1
            servers.append(Server(id=name, type=server.type, capacity=server.capacity, rack=server.rack, labels=labels))
    if not servers:
        raise ConfigError("a cluster needs servers: give --server TYPE=GPUS, e.g. --server v100=4 --server k80=4")
    return servers


def _loaded(whole: str, text: str) -> Cluster:
    """The servers of a text; what is wrong is said of the text that was typed."""
    try:
        return clusters.load(whole)
    except ConfigError as error:
        said = str(error).removeprefix(f"cluster {whole!r}: ").replace(repr(whole), repr(text))
        raise ConfigError(f"--server {text!r}: {said}") from error


def _without_labels(text: str) -> tuple[str, tuple[str, ...]]:
    """What is said of servers beside their labels, and those."""
    pieces = text.split(":")
    labels = [piece.strip().removeprefix(_LABEL) for piece in pieces if piece.strip().startswith(_LABEL)]
    rest = ":".join(piece for piece in pieces if not piece.strip().startswith(_LABEL))
    return rest, checked_labels(labels, f"--server {text!r}")


def _offer(server: Server) -> tuple[object, ...]:
    return server.type, server.capacity, server.labels


def together(servers: Sequence[Server], most: int) -> list[list[Server]]:
    """Servers in groups of neighbours that are alike, each of at most `most`."""
    groups: list[list[Server]] = []
    for server in servers:
        last = groups[-1] if groups else []
        alike = last and _offer(last[0]) == _offer(server)
        if alike and len(last) < most:
            last.append(server)
        else:
            groups.append([server])
    return groups


@dataclass(frozen=True, kw_only=True)
class UpSettings:
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


def remembered(folder: Path) -> UpSettings | None:
    """What the last `rota up` in a folder was asked for."""
    path = folder / "up.json"
    try:
        kept = json.loads(path.read_text(encoding="utf-8"))
        return UpSettings(
            servers=tuple(kept["servers"]), emulate=bool(kept["emulate"]), time_scale=float(kept["time_scale"]),
            serve=tuple(kept["serve"]), connections=str(kept.get("connections", "")),
            per_process=int(kept.get("per_process", 0)), realtime=bool(kept.get("realtime", False)),
        )  # fmt: skip
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ConfigError(f"{path} cannot be used ({error}); remove it and give --server again") from error


def merged(given: Mapping[str, Any], before: UpSettings | None) -> UpSettings:
    """What is said now, and for what is not said what was said the last time."""
    kept = UpSettings(servers=()) if before is None else before
    servers = tuple(given.get("servers") or ())
    return UpSettings(
        servers=servers or kept.servers,
        emulate=bool(given.get("emulate")) or (kept.emulate and not servers),
        time_scale=float(given.get("time_scale") or kept.time_scale),
        serve=merged_options(kept.serve, tuple(given.get("serve") or ())),
        connections=str(given.get("connections") or ("" if servers else kept.connections)),
        per_process=int(given.get("per_process") or kept.per_process),
        realtime=bool(given.get("realtime")) or (kept.realtime and not servers),
    )


def without_options(before: UpSettings) -> UpSettings:
    """What cannot change in a folder that has a journal."""
    return UpSettings(servers=(), time_scale=before.time_scale)


def taken_from_before(given: Mapping[str, Any], asked: UpSettings) -> tuple[str, ...]:
    """Options of the scheduler that were not given now."""
    now = _by_name(tuple(given.get("serve") or ()))
    return tuple(word for key, words in _by_name(asked.serve).items() if key not in now for word in words)


def merged_options(before: Sequence[str], given: Sequence[str]) -> tuple[str, ...]:
    """Options of the scheduler as they were given before, but for those that are given now.

    Another policy, mechanism or preset of rules does not take the parameters of the one before.
    """
    now = _by_name(given)
    kept = {
        key: words
        for key, words in _by_name(before).items()
        if key not in now and (_PARAMETERS_OF.get(words[0]),) not in now
    }
    return tuple(word for words in (kept | now).values() for word in words)


def _by_name(words: Sequence[str]) -> dict[tuple[str, ...], tuple[str, ...]]:
    """Each option with its value, by what only one of them can be about."""
    options: dict[tuple[str, ...], tuple[str, ...]] = {}
    rest = list(words)
    while rest:
        name = rest.pop(0)
        value = (rest.pop(0),) if rest and not rest[0].startswith("--") else ()
        about = (value[0].partition("=")[0],) if name in _PARAMETERS_OF and value else ()
        options[(name, *about)] = (name, *value)
    return options
