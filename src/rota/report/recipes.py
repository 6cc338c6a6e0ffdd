"""From the configuration of a run back to the command that makes it again.

Everything is checked as far as it can be without running: a cluster is named only if that name
still means the same servers. What cannot be written on a command line (jobs handed in from Python,
a cluster from a file that is not known) is said in a note instead of being guessed.
"""

from __future__ import annotations

import dataclasses
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from rota import clusters
from rota.assembly import priced
from rota.core import own_code
from rota.core.cluster import cluster_from
from rota.core.errors import RotaError
from rota.core.rules import PRESETS, Rules
from rota.policies.registry import policies

_SETTINGS = (
    ("trace_settings", "--set-trace"),
    ("settings", "--set"),
    ("policy_settings", "--set-policy"),
    ("mechanism_settings", "--set-mechanism"),
    ("profile_settings", "--set-profiles"),
)
FILE = "CLUSTER-FILE"


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRecipe:
    """How to make a run again."""

    keywords: dict[str, Any] = field(default_factory=dict)
    """Of `rota.simulate`; empty where the run cannot be made from its configuration alone."""
    command: str
    note: str | None = None


def recipe(config: Mapping[str, Any]) -> RunRecipe:
    """The command and the keywords of `rota.simulate` that give this configuration again."""
    if not config.get("policy") or not (config.get("workload") or config.get("trace")):
        return RunRecipe(
            command="", note="no command: the configuration does not say where the jobs of this run came from"
        )
    if _is_an_object(config):
        return RunRecipe(command="", note=f"no command: the policy {config['policy']} was given as an object in Python")
    words: dict[str, Any] = {}
    for key in ("trace", "trace_format", "workload", "policy", "mechanism", "seed", "until"):
        if config.get(key) is not None:
            words[key] = config[key]
    cluster, note = _cluster(config.get("cluster"), config.get("rules"))
    words["cluster"] = cluster
    if config.get("profiles") not in {None, "default"}:
        words["profiles"] = config["profiles"]
    for key, _ in _SETTINGS:
        if config.get(key):
            words[key] = dict(config[key])
    words |= _rules(config.get("rules"))
    if config.get("measure"):
        words["measure"] = tuple(config["measure"])
    jobs_known = config.get("trace") is None or config.get("jobs_sha256") is not None
    usable = cluster != FILE and jobs_known
    return RunRecipe(keywords=words if usable else {}, command=_command(words), note=note)


def _is_an_object(config: Mapping[str, Any]) -> bool:
    """Whether the policy has neither a name nor a file."""
    name = str(config["policy"])
    return "policy_sha256" in config and own_code.reference(name) is None and name not in policies.names()


def _cluster(described: Any, rules: Any) -> tuple[str, str | None]:
    """What to write for --cluster; a name only if it still stands for the same servers."""
    if isinstance(described, str):
        return described, None
    try:
        name = str(described["name"])
        known = clusters.load(name)
        if isinstance(rules, Mapping):
            known = priced(known, Rules(**{**rules, "type_order": tuple(rules["type_order"])}))
        own = cluster_from(described)
        if set(known.servers) == set(own.servers) and known.accelerators == own.accelerators:
            return name, None
    except (RotaError, OSError, KeyError, TypeError, ValueError, IndexError):
        pass
    note = f"{FILE} stands for a file with the servers under `cluster` in the configuration"
    return FILE, note


def _rules(described: Any) -> dict[str, Any]:
    """The preset, and the fields that differ from it."""
    if isinstance(described, str):
        return {} if described == "default" else {"rules": described}
    if not isinstance(described, Mapping) or described.get("name") not in PRESETS:
        return {}
    base = dataclasses.asdict(PRESETS[described["name"]])
    base["type_order"] = list(base["type_order"])
    changed = {key: value for key, value in described.items() if key in base and value != base[key]}
    name = described["name"]
    arguments: dict[str, Any] = {} if name == "default" else {"rules": name}
    if "round_s" in changed:
        arguments["round_s"] = changed.pop("round_s")
    return {**arguments, **({"rule_settings": changed} if changed else {})}


def _command(words: Mapping[str, Any]) -> str:
    parts = ["rota simulate"]
    for key in ("trace", "trace_format"):
        parts += _option(f"--{key.replace('_', '-')}", words.get(key))
    parts += _settings("--set-trace", words.get("trace_settings"))
    parts += _option("--workload", words.get("workload"))
    parts += _settings("--set", words.get("settings"))
    parts += _option("--cluster", words.get("cluster"))
    for key in ("policy", "mechanism"):
        parts += _option(f"--{key}", words.get(key))
        parts += _settings(f"--set-{key}", words.get(f"{key}_settings"))
    parts += _option("--profiles", words.get("profiles"))
    parts += _settings("--set-profiles", words.get("profile_settings"))
    parts += _option("--rules", words.get("rules"))
    parts += _settings("--set-rules", words.get("rule_settings"))
    parts += _option("--round", words.get("round_s"))
    parts += _option("--seed", words.get("seed"))
    if words.get("measure"):
        parts.append(f"--measure {words['measure'][0]}:{words['measure'][1]}")
    parts += _option("--until", words.get("until"))
    return " ".join(parts)


def _option(flag: str, value: Any) -> list[str]:
    return [] if value is None else [f"{flag} {shlex.quote(_text(value))}"]


def _settings(flag: str, settings: Mapping[str, Any] | None) -> list[str]:
    words = [f"{key}={_text(value)}" for key, value in (settings or {}).items()]
    return [f"{flag} {shlex.quote(word)}" for word in words]


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list | tuple):
        return ",".join(map(_text, value))
    return f"{value:g}" if isinstance(value, float) and float(f"{value:g}") == value else str(value)
