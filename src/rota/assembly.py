"""From names and settings to the parts of a run, and the plain description that goes into results."""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from rota import profiles, workloads
from rota._version import __version__
from rota.core.cluster import AcceleratorType, Cluster, Resources, Server
from rota.core.errors import ConfigError, UnknownName
from rota.core.jobs import COLUMNS, Jobs, Source, TableSource
from rota.core.ports import Policy, Throughputs
from rota.core.registry import convert
from rota.core.rules import Rules, preset
from rota.policies.registry import policies

Settings = Mapping[str, object]


def make_throughputs(given: str | Path | Throughputs) -> Throughputs:
    """A catalogue by name or file."""
    return profiles.load(given) if isinstance(given, str | Path) else given


def make_rules(given: str | Rules, round_s: float | None, settings: Settings | None) -> Rules:
    """A preset with single fields changed."""
    rules = preset(given) if isinstance(given, str) else given
    fields = {f.name: f for f in dataclasses.fields(Rules) if f.name != "name"}
    hints = {"str": str, "float": float, "int": int, "bool": bool}
    changes: dict[str, Any] = {} if round_s is None else {"round_s": float(round_s)}
    for key, value in (settings or {}).items():
        name = key.replace("-", "_")
        if name not in fields:
            raise UnknownName("field of the rules:", key, fields)
        if name == "type_order":
            changes[name] = tuple(value.split(",")) if isinstance(value, str) else value
        else:
            changes[name] = convert(value, hints[str(fields[name].type)], f"rules: {key}")
    if not changes.get("round_s", 1.0) > 0:
        raise ConfigError(f"a round of {changes['round_s']} s is not possible; give a positive number of seconds")
    return dataclasses.replace(rules, **changes)


def make_policy(given: str | Policy, settings: Settings | None, seed: int) -> Policy:
    """A policy by name; one with a random choice gets the seed of the run."""
    if not isinstance(given, str):
        return given
    wanted = dict(settings or {})
    if "seed" in policies.entry(given).parameters():
        wanted.setdefault("seed", seed)
    return policies.create(given, **wanted)


def priced(cluster: Cluster, rules: Rules) -> Cluster:
    """The cluster with the prices the rules know."""
    if rules.catalogue_prices:
        return cluster
    free = tuple(dataclasses.replace(a, hourly_price=1.0) for a in cluster.accelerators)
    return dataclasses.replace(cluster, accelerators=free)


def generated(name: str, settings: Settings | None, cluster: Cluster, seed: int) -> Source:
    """Jobs from a generator; it gets the seed of the run and, if it asks for it, the GPUs by type."""
    wanted = dict(settings or {})
    wanted.setdefault("seed", seed)
    if "capacity" in workloads.workloads.entry(name).parameters() and "capacity" not in wanted:
        wanted["capacity"] = dict(zip(cluster.types, cluster.capacity.tolist(), strict=True))
    return workloads.workload(name, **wanted)


def from_table(table: Jobs, cluster: Cluster, speeds: Throughputs) -> Source:
    """Jobs of a table; raises ProfileMissing now for any job that could run but was never measured."""
    if (np.isnan(table.duration) & ~np.isnan(table.slo)).any() or np.isnan(table.total_steps).any():
        table = workloads.with_durations(table, speeds)
    largest = int(cluster.capacity.max())
    for profile, gpus in sorted(set(zip(table.profile.tolist(), table.gpus.tolist(), strict=True))):
        if gpus <= largest:
            for kind in cluster.types:
                speeds.rate(table.profiles[profile], gpus, kind)
    return TableSource(table)


def describe(given: Mapping[str, Any], cluster: Cluster, rules: Rules) -> dict[str, Any]:
    """Everything that decides a run, as plain values."""
    plain = {key: dict(value) if isinstance(value, Mapping) else value for key, value in given.items()}
    how = dataclasses.asdict(rules)
    how["type_order"] = list(how["type_order"])
    return {**plain, "cluster": _cluster_fields(cluster), "rules": how, "version": __version__}


def fingerprint(trace: str | Path | None, jobs: Jobs | None) -> str | None:
    """A digest of the jobs that were handed in."""
    digest = hashlib.sha256()
    if trace is not None:
        digest.update(Path(trace).read_bytes())
    elif jobs is not None:
        digest.update(repr((jobs.profiles, jobs.tenants)).encode())
        for name in COLUMNS:
            digest.update(np.ascontiguousarray(getattr(jobs, name)).tobytes())
    else:
        return None
    return digest.hexdigest()


def cluster_from(fields: Mapping[str, Any]) -> Cluster:
    """The cluster of a description."""
    servers = tuple(Server(id=s[0], type=s[1], capacity=Resources(*s[2:-1]), rack=s[-1]) for s in fields["servers"])
    known = tuple(AcceleratorType(name=n, memory_gb=m, hourly_price=p) for n, m, p in fields["accelerators"])
    return Cluster(name=fields["name"], servers=servers, accelerators=known)


def _cluster_fields(cluster: Cluster) -> dict[str, Any]:
    return {
        "name": cluster.name,
        "servers": [[s.id, s.type, *dataclasses.astuple(s.capacity), s.rack] for s in cluster.servers],
        "accelerators": [list(dataclasses.astuple(a)) for a in cluster.accelerators],
    }
