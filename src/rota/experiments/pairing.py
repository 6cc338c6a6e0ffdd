"""Two values of an axis of a sweep, compared over runs that differ in nothing else.

Runs with the same seed see the same jobs, so the ratio of their metrics is free of what the seed
alone does. Seeds are the independent repetitions: intervals are over seeds, for each setting (load
and so on) and for all settings together.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rota.analysis.comparison import Estimate, mean_ratio
from rota.core.errors import ConfigError, UnknownName
from rota.experiments.execution import OK, UNSTABLE
from rota.experiments.remarks import remarks_of
from rota.experiments.store import ResultStore, Run

METRICS = ("mean_jct_s", "p50_jct_s", "p90_jct_s", "p99_jct_s", "p999_jct_s", "makespan_s")
"""Times, for which less is better."""
SEED = "seed"


@dataclass(frozen=True, slots=True, kw_only=True)
class PairedSetting:
    """The pairs of one setting; they differ in the seed."""

    point: dict[str, Any]
    seeds: tuple[Any, ...]
    a: float
    """Mean of the metric over these runs."""
    b: float
    ratios: tuple[float, ...]
    estimate: Estimate


@dataclass(frozen=True, slots=True, kw_only=True)
class Paired:
    """All pairs of a sweep that could be made."""

    sweep: str
    settings: list[PairedSetting]
    overall: Estimate
    over: str
    """What the overall interval takes as repetitions: seeds, or settings where there is one
    seed."""
    samples: int
    pairs: int
    overall_pairs: int
    """Pairs in the overall estimate: those of settings that have every seed."""
    left_out: dict[str, int]
    """Pairs that were not counted, by reason."""
    notes: list[str]
    """What the paired runs have to say about themselves."""


def pair_runs(
    store: ResultStore,
    axis: str,
    a: str,
    b: str,
    *,
    sweep: str | None,
    metric: str,
) -> Paired:
    """Pair the runs of a sweep in which `axis` is a with those in which it is b.

    Raises ConfigError if none pair.
    """
    if a == b:
        raise ConfigError(f"both values of {axis} are {a!r}; give two different ones")
    name, runs = _sweep(store, axis, sweep)
    runs_of_side: dict[str, dict[str, Run]] = {a: {}, b: {}}
    for text, side in runs_of_side.items():
        side.update({_rest(run.point, axis): run for run in runs if _text(run.point[axis]) == text})
        if not side:
            known = {_text(run.point[axis]) for run in runs}
            raise UnknownName(f"value of {axis} in sweep {name!r}:", text, known)
    pairs, left_out = _pairs(runs_of_side, axis, metric)
    if not pairs:
        reasons = "; ".join(f"{count} x {why}" for why, count in left_out.items())
        problem = f"sweep {name!r} has no two runs that differ in {axis} only and have {metric}"
        raise ConfigError(f"{problem}: {reasons}")
    settings = _settings(pairs, axis, metric)
    used, over, samples = _samples(settings)
    return Paired(
        sweep=name,
        settings=settings,
        overall=mean_ratio(samples),
        over=over,
        samples=len(samples),
        pairs=len(pairs),
        overall_pairs=sum(len(s.ratios) for s in used),
        left_out=left_out,
        notes=remarks_of(run for pair in pairs for run in pair),
    )


def _pairs(
    runs_of_side: Mapping[str, Mapping[str, Run]], axis: str, metric: str
) -> tuple[list[tuple[Run, Run]], dict[str, int]]:
    """Runs that differ in the axis only; and how many are left out, by reason."""
    a, b = runs_of_side
    pairs: list[tuple[Run, Run]] = []
    left_out: dict[str, int] = {}
    overloaded = {side: _overloaded(runs.values(), axis) for side, runs in runs_of_side.items()}
    for rest in dict.fromkeys([*runs_of_side[a], *runs_of_side[b]]):
        first = runs_of_side[a].get(rest)
        second = runs_of_side[b].get(rest)
        why = _unstable(overloaded, rest) or _unusable(a, first, metric) or _unusable(b, second, metric)
        if first is not None and second is not None and why is None:
            pairs.append((first, second))
        else:
            left_out[str(why)] = left_out.get(str(why), 0) + 1
    return pairs, left_out


def _sweep(store: ResultStore, axis: str, sweep: str | None) -> tuple[str, list[Run]]:
    known = [s.name for s in store.sweeps()]
    if sweep is not None and sweep not in known:
        raise UnknownName("sweep", sweep, known)
    runs = {name: list(store.runs(sweep=name)) for name in ([sweep] if sweep else known)}
    fitting = {name: [r for r in of if axis in r.point] for name, of in runs.items()}
    fitting = {name: of for name, of in fitting.items() if of}
    if not fitting:
        known_axes = {key for of in runs.values() for run in of for key in run.point}
        raise UnknownName("axis", axis, known_axes)
    if len(fitting) > 1:
        fix = "choose with --sweep"
        what = f"{store.path} has several sweeps over {axis}: {', '.join(fitting)}"
        raise ConfigError(f"{what}; {fix}")
    return next(iter(fitting.items()))


def _overloaded(runs: Iterable[Run], axis: str) -> dict[str, tuple[int, int]]:
    """Settings with an unstable run: how many of how many seeds.

    The seeds that came to an end there are those that were lucky, so none of them counts.
    """
    of: dict[str, list[bool]] = {}
    for run in runs:
        of.setdefault(_rest(run.point, axis, SEED), []).append(run.status == UNSTABLE)
    return {setting: (sum(stopped), len(stopped)) for setting, stopped in of.items() if any(stopped)}


def _unstable(overloaded: Mapping[str, Mapping[str, tuple[int, int]]], rest: str) -> str | None:
    setting = _rest(json.loads(rest), SEED)
    for value, settings in overloaded.items():
        if setting in settings:
            stopped, runs = settings[setting]
            where = ", ".join(f"{key} = {_text(at)}" for key, at in json.loads(setting).items())
            return f"{value} is unstable{f' at {where}' if where else ''} ({stopped} of {runs} runs)"
    return None


def _unusable(value: str, run: Run | None, metric: str) -> str | None:
    if run is None:
        return f"the sweep has no such run with {value}"
    if run.status != OK:
        return f"{value} is {run.status or 'not done'}"
    number = run.metrics.get(metric)
    return None if isinstance(number, int | float) and number > 0 else f"{value} has no {metric}"


def _settings(pairs: Sequence[tuple[Run, Run]], axis: str, metric: str) -> list[PairedSetting]:
    groups: dict[str, list[tuple[Run, Run]]] = {}
    for pair in pairs:
        groups.setdefault(_rest(pair[0].point, axis, SEED), []).append(pair)
    settings = []
    for group in groups.values():
        of_a, of_b = ([float(pair[side].metrics[metric]) for pair in group] for side in (0, 1))
        ratios = tuple(y / x for x, y in zip(of_a, of_b, strict=True))
        settings.append(
            PairedSetting(
                point={k: v for k, v in group[0][0].point.items() if k not in {axis, SEED}},
                seeds=tuple(pair[0].point.get(SEED) for pair in group),
                a=sum(of_a) / len(group),
                b=sum(of_b) / len(group),
                ratios=ratios,
                estimate=mean_ratio(ratios),
            )
        )
    return settings


def _samples(settings: Sequence[PairedSetting]) -> tuple[Sequence[PairedSetting], str, list[float]]:
    """Independent ratios over all settings.

    The settings used, what the repetitions are, and the ratios.

    Runs with the same seed at two loads see related jobs, so they are one sample: the mean over the
    settings that have all seeds. With one seed the settings themselves have to do.
    """
    seeds = dict.fromkeys(seed for setting in settings for seed in setting.seeds)
    full = [s for s in settings if len(s.seeds) == len(seeds)]
    if len(seeds) > 1 and full:
        of = [dict(zip(s.seeds, s.ratios, strict=True)) for s in full]
        return full, "seeds", [mean_ratio([ratios[seed] for ratios in of]).ratio for seed in seeds]
    return settings, "settings", [s.estimate.ratio for s in settings]


def _rest(point: Mapping[str, Any], *without: str) -> str:
    return json.dumps({k: v for k, v in point.items() if k not in without}, sort_keys=True)


def _text(value: Any) -> str:
    """A value as a user would write it."""
    return value if isinstance(value, str) else json.dumps(value)
