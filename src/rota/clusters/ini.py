"""The INI files in which the artifact of Synergy (OSDI'22) describes a cluster, read as they are.

[CLUSTER]                    # all whole numbers; what is left out has the value shown here
racks = 1
servers_per_rack = 4
gpus_per_server = 8
cpus_per_server = 24
dram_per_server = 500        # GB
sspeed_per_server = 300      # MB/s
net_per_server = 40          # Gb/s
[SCHEDULER]                  # optional and not read: the options of a run say it

Servers are numbered through all racks, and each knows its rack.
"""

from __future__ import annotations

import configparser
from collections.abc import Mapping
from pathlib import Path

from rota.core.cluster import MOST_SERVERS, Resources, Server, too_many_servers
from rota.core.errors import ConfigError, UnknownName

GPU_TYPE = "v100"
"""The files name no type; the published measurements were made on V100s."""
DEFAULTS = {
    "racks": 1,
    "servers_per_rack": 4,
    "gpus_per_server": 8,
    "cpus_per_server": 24,
    "dram_per_server": 500,
    "sspeed_per_server": 300,
    "net_per_server": 40,
}
AT_LEAST_ONE = ("racks", "servers_per_rack", "gpus_per_server")
MOST = 10**7
"""Of any number: more is a slip of the keyboard."""
SECTIONS = ("CLUSTER", "SCHEDULER")


def read_ini(path: Path) -> tuple[Server, ...]:
    """The servers that the file describes.

    Raises ConfigError for anything that a cluster cannot be read from.
    """
    size = {key: _whole(key, text, path) for key, text in _cluster_section(path).items()}
    size = {**DEFAULTS, **size}
    if size["racks"] * size["servers_per_rack"] > MOST_SERVERS:
        raise ConfigError(
            f"{path}, [CLUSTER]: racks = {size['racks']} with servers_per_rack = "
            f"{size['servers_per_rack']} makes {too_many_servers()}"
        )
    capacity = Resources(
        size["gpus_per_server"],
        float(size["cpus_per_server"]),
        float(size["dram_per_server"]),
        float(size["sspeed_per_server"]),
        float(size["net_per_server"]),
    )
    per_rack = size["servers_per_rack"]
    return tuple(
        Server(id=f"{GPU_TYPE}-{n}", type=GPU_TYPE, capacity=capacity, rack=f"rack{n // per_rack}")
        for n in range(size["racks"] * per_rack)
    )


def _cluster_section(path: Path) -> Mapping[str, str]:
    """The keys of the section CLUSTER, still text."""
    # A section with the name of `default_section` would add to all others; no section can have this
    # one.
    parser = configparser.ConfigParser(
        interpolation=None, default_section="\n", inline_comment_prefixes=("#", ";"), strict=True
    )
    try:
        parser.read_string(path.read_text(encoding="utf-8-sig"), source=str(path))
    except (OSError, UnicodeDecodeError) as problem:
        fix = "check the path"
        raise ConfigError(f"cannot read cluster file {str(path)!r}: {problem}; {fix}") from None
    except configparser.Error as problem:
        raise _unreadable(path, problem) from None
    for name in parser.sections():
        if name not in SECTIONS:
            raise UnknownName(f"section in {path}:", name, SECTIONS)
    if "CLUSTER" not in parser:
        fix = "begin with the line [CLUSTER] and then e.g. racks = 1"
        raise ConfigError(f"{path} has no section [CLUSTER]; {fix}")
    section = dict(parser["CLUSTER"])
    for key in section:
        if key not in DEFAULTS:
            raise UnknownName(f"key in {path}, [CLUSTER]:", key, DEFAULTS)
    return section


def _unreadable(path: Path, problem: configparser.Error) -> ConfigError:
    """What is wrong with the file as an INI file, with the line."""
    if isinstance(problem, configparser.DuplicateOptionError):
        return ConfigError(
            f"{path}, line {problem.lineno}: {problem.option!r} is given twice in [{problem.section}]; keep one"
        )
    if isinstance(problem, configparser.DuplicateSectionError):
        return ConfigError(f"{path}, line {problem.lineno}: section [{problem.section}] is there twice; keep one")
    if isinstance(problem, configparser.MissingSectionHeaderError):
        return ConfigError(
            f"{path}, line {problem.lineno}: {problem.line.strip()!r} stands before any section; "
            f"begin with the line [CLUSTER]"
        )
    if isinstance(problem, configparser.ParsingError) and problem.errors:
        line, text = problem.errors[0]
        return ConfigError(f"{path}, line {line}: {text} is not key = value")
    return ConfigError(f"{path} is not a valid INI file: {problem}")


def _whole(key: str, text: str, path: Path) -> int:
    least = 1 if key in AT_LEAST_ONE else 0
    is_number = text.isascii() and text.isdigit() and len(text) <= len(str(MOST))
    good = is_number and least <= int(text) <= MOST
    if not good:
        hint = "; begin each key in the first column" if "\n" in text else ""
        raise ConfigError(
            f"{path}, [CLUSTER]: {key} = {text!r} is not a whole number from {least} to {MOST}; "
            f"give e.g. {key} = {DEFAULTS[key]}{hint}"
        )
    return int(text)
