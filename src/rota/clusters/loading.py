"""From what a user wrote to a cluster.

`v100=36/4,p100=36`, a built-in name, a TOML file, an INI file of Synergy, a list of servers as CSV, or
`slurm:`, a cluster as Slurm describes it.

In the short text each type may go on with what every server of it has beside its GPUs:

    v100=128/8:cpus=24:memory=500:storage=500:network=40

and with the price of an hour of one of its GPUs, `v100=128/8:price=0.74`. The type is all before the
first `=`, so neither `:` nor `/` in its name can be taken for something else.
"""

from __future__ import annotations

import math
from pathlib import Path

from rota.clusters.accelerators import described
from rota.clusters.documents import DATA, accelerators_in, read_toml, servers_in
from rota.clusters.ini import read_ini
from rota.clusters.node_list import is_node_list, read_node_list
from rota.clusters.slurm import is_slurm, read_slurm
from rota.core.cluster import AcceleratorType, Cluster, Resources, Server, uniform
from rota.core.errors import ConfigError, UnknownName

GPUS_PER_SERVER = 4
"""Of a type for which the text does not say it."""
MOST_DIGITS = 7
"""Of a count: more is a slip of the keyboard, and a million servers take a while to build."""
AMOUNTS = ("cpus", "memory", "storage", "network")
"""What a server may have beside its GPUs (CPUs, GB, MB/s, Gb/s), in the order of Resources."""
PRICE = "price"
EXAMPLE = "v100=36/4 or v100=128/8:cpus=24:memory=500"


def names() -> list[str]:
    """Names of the built-in clusters."""
    return sorted(path.stem for path in DATA.glob("*.toml") if path.stem != "accelerators")


def load(spec: str | Path) -> Cluster:
    """The cluster of a text (see above), a built-in name, or the path of a TOML, INI or CSV file."""
    text = str(spec).strip()
    if is_slurm(text):
        return _with_servers("slurm", read_slurm(text))
    if text.endswith(".toml"):
        return _from_file(Path(text))
    if text.endswith(".ini") or is_node_list(text):
        servers = read_ini(Path(text)) if text.endswith(".ini") else read_node_list(Path(text))
        return _with_servers(Path(text).stem, servers)
    if "=" in text:
        return _from_text(text)
    if text in names():
        return _from_file(DATA / f"{text}.toml")
    if ":" in text:
        fix = "write the GPUs of each type as type=count, e.g. v100=36,p100=36,k80=36"
        raise ConfigError(f"cluster {text!r}: {fix}")
    what = "cluster (give a name, type=count,..., slurm: or a .toml, .ini or .csv file)"
    raise UnknownName(what, text, names())


def _with_servers(name: str, servers: tuple[Server, ...]) -> Cluster:
    return Cluster(name=name, servers=servers, accelerators=described(s.type for s in servers))


def _from_file(path: Path) -> Cluster:
    document = read_toml(path)
    servers = servers_in(document, str(path))
    name = document.get("name", path.stem)
    if not isinstance(name, str):
        raise ConfigError(f"{path}: name = {name!r} is not a text")
    types = {s.type for s in servers}
    return Cluster(
        name=name,
        servers=servers,
        accelerators=described(types, accelerators_in(document, str(path))),
    )


def _from_text(text: str) -> Cluster:
    groups: dict[str, tuple[int, int]] = {}
    beside: dict[str, Resources] = {}
    priced: list[AcceleratorType] = []
    for part in text.split(","):
        gpu_type, equals, rest = (piece.strip() for piece in part.partition("="))
        if not gpu_type or not equals:
            problem = f"cluster {text!r}: {part.strip()!r} is not type=count, e.g. {EXAMPLE}"
            raise ConfigError(problem)
        if gpu_type in groups:
            fix = "use a TOML file for servers of several sizes"
            raise ConfigError(f"cluster {text!r}: {gpu_type} is given twice; {fix}")
        gpus, *amounts = (piece.strip() for piece in rest.split(":"))
        count, slash, per_server = (piece.strip() for piece in gpus.partition("/"))
        groups[gpu_type] = (
            _number(count, 0, part, text),
            _number(per_server, 1, part, text) if slash else GPUS_PER_SERVER,
        )
        amount_of = _amounts(amounts, text)
        beside[gpu_type] = Resources(0, *(amount_of.get(key, 0.0) for key in AMOUNTS))
        if PRICE in amount_of:
            priced.append(AcceleratorType(name=gpu_type, hourly_price=amount_of[PRICE]))
    present = [(gpu_type, count, size) for gpu_type, (count, size) in groups.items() if count]
    return uniform(text, present, described((gpu_type for gpu_type, _, _ in present), priced), beside)


def _number(value: str, least: int, part: str, text: str) -> int:
    if not (value.isascii() and value.isdigit()) or len(value) > MOST_DIGITS or int(value) < least:
        what = "GPUs per server" if least else "GPUs"
        raise ConfigError(
            f"cluster {text!r}: {value!r} in {part.strip()!r} is not a number of {what}; "
            f"give a whole number >= {least}, e.g. {EXAMPLE}"
        )
    return int(value)


def _amounts(amounts: list[str], text: str) -> dict[str, float]:
    """What each server has beside its GPUs and what a GPU costs, from `cpus=24`, `price=2.5` and so on."""
    amount_by_name: dict[str, float] = {}
    for amount in amounts:
        key, equals, value = (piece.strip() for piece in amount.partition("="))
        if not equals:
            raise ConfigError(
                f"cluster {text!r}: {amount!r} is not name=amount; names are {', '.join(AMOUNTS)} "
                f"(per server) and {PRICE} (of a GPU hour), e.g. {EXAMPLE}"
            )
        if key not in (*AMOUNTS, PRICE):
            raise UnknownName(f"amount in cluster {text!r}:", key, (*AMOUNTS, PRICE))
        if key in amount_by_name:
            raise ConfigError(f"cluster {text!r}: {key} is given twice for one type; keep one")
        amount_by_name[key] = _amount(value, amount, text)
    return amount_by_name


def _amount(value: str, amount: str, text: str) -> float:
    try:
        number = float(value)
    except ValueError:
        number = math.nan
    if not 0 <= number < math.inf:
        fix = f"give a number >= 0, e.g. {EXAMPLE}"
        what = f"cluster {text!r}: {value!r} in {amount!r} is not an amount per server"
        raise ConfigError(f"{what}; {fix}")
    return number
