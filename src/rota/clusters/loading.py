"""From what a user wrote to a cluster: `v100=36/4,p100=36`, a built-in name, or a TOML file."""

from __future__ import annotations

from pathlib import Path

from rota.clusters.accelerators import described
from rota.clusters.documents import DATA, accelerators_in, read_toml, servers_in
from rota.core.cluster import Cluster, uniform
from rota.core.errors import ConfigError, UnknownName

GPUS_PER_SERVER = 4
"""Of a type for which the text does not say it."""
MOST_DIGITS = 7
"""Of a count: more is a slip of the keyboard, and a million servers take a while to build."""


def names() -> list[str]:
    """Names of the built-in clusters."""
    return sorted(path.stem for path in DATA.glob("*.toml") if path.stem != "accelerators")


def load(spec: str | Path) -> Cluster:
    """The cluster that a text `type=count[/gpus per server],...`, a built-in name or the path of a TOML file means."""
    text = str(spec).strip()
    if text.endswith(".toml"):
        return _from_file(Path(text))
    if "=" in text:
        return _from_text(text)
    if text in names():
        return _from_file(DATA / f"{text}.toml")
    if ":" in text:
        raise ConfigError(f"cluster {text!r}: write the GPUs of each type as type=count, e.g. v100=36,p100=36,k80=36")
    raise UnknownName("cluster (give a name, type=count,... or a .toml file)", text, names())


def _from_file(path: Path) -> Cluster:
    document = read_toml(path)
    servers = servers_in(document, str(path))
    name = document.get("name", path.stem)
    if not isinstance(name, str):
        raise ConfigError(f"{path}: name = {name!r} is not a text")
    types = {s.type for s in servers}
    return Cluster(name=name, servers=servers, accelerators=described(types, accelerators_in(document, str(path))))


def _from_text(text: str) -> Cluster:
    groups: dict[str, tuple[int, int]] = {}
    for part in text.split(","):
        kind, equals, amount = (piece.strip() for piece in part.partition("="))
        if not kind or not equals:
            raise ConfigError(f"cluster {text!r}: {part.strip()!r} is not type=count, e.g. v100=36/4")
        if kind in groups:
            raise ConfigError(f"cluster {text!r}: {kind} is given twice; use a TOML file for servers of several sizes")
        count, slash, per_server = (piece.strip() for piece in amount.partition("/"))
        groups[kind] = (
            _number(count, 0, part, text),
            _number(per_server, 1, part, text) if slash else GPUS_PER_SERVER,
        )
    present = [(kind, count, size) for kind, (count, size) in groups.items() if count]
    return uniform(text, present, described(kind for kind, _, _ in present))


def _number(value: str, least: int, part: str, text: str) -> int:
    if not (value.isascii() and value.isdigit()) or len(value) > MOST_DIGITS or int(value) < least:
        what = "GPUs per server" if least else "GPUs"
        raise ConfigError(
            f"cluster {text!r}: {value!r} in {part.strip()!r} is not a number of {what}; "
            f"give a whole number >= {least}, e.g. v100=36/4"
        )
    return int(value)
