"""Where a run stands among the others.

What was varied, which runs are repetitions, which make one line of a figure.

A *line* is a policy with its mechanism and their settings. A *setting* is everything else that was
varied (cluster, workload, load, rules, ...) except the seed. A *group* is a line at a setting: runs
that differ in their seed only.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePath
from typing import Any

from rota.core.rules import PRESETS
from rota.experiments.keys import GROUPS, LOAD, plain
from rota.experiments.store import Run

RUN = "run"
SEED = "seed"
JOBS = "set.jobs"
_OF_A_LINE = (RUN, "policy", "mechanism")
_PLACE = ("workload", "trace", "cluster")
_LOADS = ("jobs_per_hour", "interarrival_s")


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """A place at which lines can be compared."""

    label: str
    scenario: int
    """Settings that differ in nothing but `x` have the same."""
    x: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Points:
    """All runs in order."""

    axes: list[dict[str, Any]]
    """Of each run, what can be said of it by name."""
    varied: list[str]
    lines: list[str]
    line: list[int]
    """Of each run, its line."""
    x: str | None
    """The axis that figures have as abscissa, if one was varied."""
    scenarios: list[str]
    settings: list[Setting]
    setting: list[int]
    """Of each run, its setting."""


def axes_of(run: Run) -> dict[str, Any]:
    """What can be said of a run.

    Policy, mechanism, workload, cluster, load, settings, rules and seed, by name.
    """
    config = run.config
    axes: dict[str, Any] = {"policy": config.get("policy"), "mechanism": config.get("mechanism")}
    for part in ("policy", "mechanism"):  # classes of one name, or one before and after an edit, are two lines
        digest = config.get(f"{part}_sha256")
        axes[f"{part}.code"] = None if digest is None else f"sha256:{digest[:8]}"
    axes["workload"] = config.get("workload")
    axes["trace"] = PurePath(str(config["trace"])).name if config.get("trace") else None
    cluster = config.get("cluster")
    axes["cluster"] = cluster.get("name") if isinstance(cluster, Mapping) else cluster
    settings = dict(config.get("settings") or {})
    axes[LOAD] = _load(settings)
    if axes[LOAD] is not None:
        settings = {k: v for k, v in settings.items() if k not in _LOADS}
    for prefix, group in GROUPS.items():
        given = settings if prefix == "set" else config.get(group) or {}
        axes.update({f"{prefix}.{key}": value for key, value in given.items()})
    axes.update(_rules(config.get("rules")))
    axes["profiles"] = config.get("profiles")
    measure = config.get("measure")
    axes["measure"] = f"{measure[0]}:{measure[1]}" if isinstance(measure, list | tuple) else measure
    axes["until"] = config.get("until")
    axes[SEED] = config.get("seed")
    axes.update(run.point)
    return {key: plain(value) for key, value in axes.items() if value is not None}


def _load(settings: Mapping[str, Any]) -> Any:
    """Jobs per hour, whatever the workload calls it."""
    for key in _LOADS:
        value = plain(settings.get(key))
        if isinstance(value, int | float) and value > 0:
            rate = value if key == "jobs_per_hour" else 3600.0 / value
            return float(f"{rate:.6g}")
    return None


def _rules(described: Any) -> dict[str, Any]:
    if not isinstance(described, Mapping):
        return {"rules": described}
    base = PRESETS.get(str(described.get("name")))
    changed = {}
    for key, value in described.items():
        usual = getattr(base, key, value)
        if value != (list(usual) if isinstance(usual, tuple) else usual):
            changed["round_s" if key == "round_s" else f"rules.{key}"] = value
    return {"rules": described.get("name"), **changed}


def points(runs: Sequence[Run], names: Sequence[str | None] = ()) -> Points:
    """Sort runs into lines and settings. `names` are those that a user gave to single runs."""
    axes = _filled(runs)
    for own, name in zip(axes, names, strict=False):
        if name is not None:
            own[RUN] = name
    varied = [key for key in _keys(axes) if len({_text(own.get(key)) for own in axes}) > 1]
    line_keys = [_key(own, lambda k: k.partition(".")[0] in _OF_A_LINE) for own in axes]
    lines = list(dict.fromkeys(line_keys))
    x = _abscissa(axes, varied)
    scenario_keys = [_key(own, lambda k: _of_a_setting(k) and k != x) for own in axes]
    scenarios = list(dict.fromkeys(scenario_keys))
    labels = _scenario_labels(scenarios)
    pairs = zip(scenario_keys, axes, strict=True)
    places = [(scenarios.index(s), _number(f.get(x)) if x else None) for s, f in pairs]
    order = sorted(dict.fromkeys(places), key=lambda p: (p[0], p[1] is None, p[1] or 0.0))
    settings = [
        Setting(
            label=_setting_label(labels, s, x, at),
            scenario=s,
            x=at,
        )
        for s, at in order
    ]
    return Points(
        axes=axes,
        varied=varied,
        lines=_line_names(lines),
        line=[lines.index(key) for key in line_keys],
        x=x,
        scenarios=labels,
        settings=settings,
        setting=[order.index(place) for place in places],
    )


def _filled(runs: Sequence[Run]) -> list[dict[str, Any]]:
    """A point that was never run has no configuration.

    What all other points agree on holds for it as well.
    """
    axes = [axes_of(run) for run in runs]
    made = [own for run, own in zip(runs, axes, strict=True) if run.config and run.point]
    common = {}
    for key in _keys(made):
        if all(own.get(key) == made[0].get(key) for own in made):
            common[key] = made[0][key]
    return [own if run.config else {**common, **own} for run, own in zip(runs, axes, strict=True)]


def _keys(axes: Iterable[Mapping[str, Any]]) -> list[str]:
    return list(dict.fromkeys(key for own in axes for key in own))


def _of_a_setting(key: str) -> bool:
    return key != SEED and key.partition(".")[0] not in _OF_A_LINE


def _key(axes: Mapping[str, Any], wanted: Any) -> str:
    return json.dumps({k: v for k, v in axes.items() if wanted(k)}, sort_keys=True)


def _abscissa(axes: Sequence[Mapping[str, Any]], varied: Iterable[str]) -> str | None:
    """The numeric axis with the most values where all else is equal.

    Load and number of jobs come first.
    """
    best: tuple[int, int, str] | None = None
    for key in varied:
        if not _of_a_setting(key):
            continue
        values: dict[str, set[float]] = defaultdict(set)
        for own in axes:
            number = _number(own.get(key))
            if number is not None:
                values[_key(own, lambda k, key=key: k not in {key, SEED})].add(number)
        most = max(map(len, values.values()), default=0)
        rank = (2 if key == LOAD else 1 if key == JOBS else 0, most, key)
        if most > 1 and (best is None or rank > best):
            best = rank
    return None if best is None else best[2]


def _line_names(keys: Sequence[str]) -> list[str]:
    """The policy, and what tells it from other lines of the same policy."""
    lines = [json.loads(key) for key in keys]
    names = []
    for own in lines:
        if RUN in own:
            names.append(str(own[RUN]))
            continue
        unnamed = [other for other in lines if RUN not in other]
        alike = [other for other in unnamed if other.get("policy") == own.get("policy")]
        keys_alike = [key for key in _keys(alike) if key != "policy"]
        differs = [k for k in keys_alike if len({_text(other.get(k)) for other in alike}) > 1]
        said = [_text(own.get(k)) if k == "mechanism" else f"{k}={_text(own.get(k))}" for k in differs]
        names.append(" · ".join([str(own.get("policy", "all runs")), *said]))
    return names


def _scenario_labels(keys: Sequence[str]) -> list[str]:
    """Workload and cluster, and what tells a scenario from others with the same."""
    scenarios = [json.loads(key) for key in keys]
    labels = []
    for own in scenarios:
        place = [own.get(k) for k in _PLACE]
        alike = [other for other in scenarios if [other.get(k) for k in _PLACE] == place]
        differs = [k for k in _keys(alike) if len({_text(o.get(k)) for o in alike}) > 1]
        source = own.get("workload") or own.get("trace")
        head = " on ".join(str(part) for part in (source, own.get("cluster")) if part)
        values = [f"{key} = {_text(own.get(key))}" for key in differs]
        labels.append(", ".join([head or "all runs", *values]))
    return labels


def _setting_label(labels: Sequence[str], scenario: int, x: str | None, at: float | None) -> str:
    tail = "" if x is None else f"{x} = {'-' if at is None else f'{at:g}'}"
    if len(labels) == 1 and tail:
        return tail
    return ", ".join(part for part in (labels[scenario], tail) if part)


def _number(value: Any) -> float | None:
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def _text(value: Any) -> str:
    return "-" if value is None else value if isinstance(value, str) else json.dumps(value)
