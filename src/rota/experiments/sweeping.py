"""`rota.sweep`: from what was asked to results, whatever is in the store already left as it is."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from rota.core import own_code
from rota.core.errors import ConfigError, UnknownName
from rota.experiments.executors import SweepExecutor
from rota.experiments.keys import flat, plain
from rota.experiments.loads import LoadSearch
from rota.experiments.own_names import spelled
from rota.experiments.pool import LocalPool
from rota.experiments.results import Sweep
from rota.experiments.runner import SweepProgress, SweepRunner
from rota.experiments.spec import Spec, Values, auto_load, axis, read_spec, spec_from
from rota.experiments.store import ResultStore, Run
from rota.experiments.tasks import SweepTask, make_task


def sweep(
    spec: str | Path | Mapping[str, Any] | Spec | None = None,
    *,
    progress: Callable[[SweepProgress], None] | None = None,
    retry: bool = True,
    limit: int | None = None,
    **settings: Any,
) -> Sweep:
    """Make every run of a sweep that the store does not have yet; all results.

    `spec` is a TOML file, or the same as a mapping. `settings` are keys of its table [sweep] (name,
    store, workers, timeout_s, overload, executor, auto_load) and settings of the runs: a list,
    range or array of values is varied, a single value (or a tuple) holds for all runs. Failed runs
    are tried again unless `retry` is false; `limit` takes the first points only. Raises ConfigError
    for input that cannot be used.
    """
    own_code.refuse_while_loading("rota.sweep")
    wanted = make_spec(spec, settings)
    tasks = plan(wanted, limit)
    with ResultStore(wanted.store) as store:
        executor = make_executor(wanted)
        return carry_out(wanted, tasks, store, executor, progress=progress, retry=retry)


def make_spec(
    given: str | Path | Mapping[str, Any] | Spec | None,
    settings: Mapping[str, Any],
) -> Spec:
    """A spec with single settings changed or added."""
    base = _base(given)
    points = {"run", "axes", "zipped", "exclude", "only", "override"}
    how = {field.name for field in dataclasses.fields(Spec)} - points
    given_settings = {key: value for key, value in spelled(settings).items() if value is not None}
    changes = {key: value for key, value in given_settings.items() if key in how}
    if isinstance(changes.get("auto_load"), Mapping):
        changes["auto_load"] = auto_load(changes["auto_load"], "auto_load")
    if "store" in changes:
        changes["store"] = str(changes["store"])
    run = dict(base.run)
    axes = dict(base.axes)
    others = {key: value for key, value in given_settings.items() if key not in how}
    try:
        values = flat(others, "the sweep")
    except UnknownName as error:
        raise UnknownName("key of the sweep:", _culprit(others, error), [*how, *_names()]) from None
    for key, value in values.items():
        run.pop(key, None)
        axes.pop(key, None)
        if _varies(value):
            axes[key] = axis(value, key)
        else:
            run[key] = value
    return dataclasses.replace(base, run=run, axes=axes, **changes)


def _base(given: str | Path | Mapping[str, Any] | Spec | None) -> Spec:
    if isinstance(given, Spec):
        return given
    if given is None or isinstance(given, Mapping):
        return spec_from(spelled(given or {}), "the sweep")
    return read_spec(given)


def _culprit(settings: Mapping[str, Any], error: UnknownName) -> str:
    return next((key for key in settings if repr(key) in str(error)), "?")


def _names() -> list[str]:
    from rota.experiments.keys import ALIASES, LOAD, PARAMETERS

    return [*PARAMETERS, *ALIASES, LOAD]


def _varies(value: Any) -> bool:
    if isinstance(value, Mapping):
        return True
    return isinstance(value, Iterable) and not isinstance(value, str | tuple)


def plan(spec: Spec, limit: int | None = None) -> list[SweepTask]:
    """The runs of a sweep, checked.

    Those of an automatic load sweep as far as they are known beforehand.
    """
    points = spec.points()
    if not points:
        raise ConfigError("the sweep has no runs: its rules (exclude, only) leave none")
    return [make_task(values, spec.overload) for values in points[:limit]]


def make_executor(spec: Spec) -> SweepExecutor:
    """Processes here, or a Ray cluster."""
    if spec.executor == "ray":
        from rota.experiments.on_ray import RayCluster  # an extra

        return RayCluster(spec.workers, spec.timeout_s)
    return LocalPool(spec.workers, spec.timeout_s)


def carry_out(
    spec: Spec,
    tasks: Sequence[SweepTask],
    store: ResultStore,
    executor: SweepExecutor,
    *,
    progress: Callable[[SweepProgress], None] | None = None,
    retry: bool = True,
) -> Sweep:
    """Run what is missing; the executor is closed in the end."""
    all_tasks = list(tasks)
    reports = [0, 0]

    def further(values: Values) -> SweepTask:
        task = make_task(values, spec.overload)
        all_tasks.append(task)
        store.add_members(spec.name, [(label(spec, task), task.key)])
        return task

    def tell(report: SweepProgress) -> None:
        reports[:] = [report.done, report.reused]
        if progress is not None:
            progress(report)

    follow = None if spec.auto_load is None else LoadSearch(spec.auto_load, further).follow
    runner = SweepRunner(store, executor, follow=follow, progress=tell, retry=retry)
    try:
        store.record_sweep(spec.name, describe(spec))
        store.add_members(spec.name, [(label(spec, task), task.key) for task in all_tasks])
        runner.run(all_tasks.copy())
    finally:
        executor.close()
    runs = [_labelled(store.result(task.key), task, spec) for task in all_tasks]
    return Sweep(
        name=spec.name,
        store=store.path,
        runs=runs,
        interrupted=runner.interrupted,
        computed=reports[0] - reports[1],
        varied=tuple(spec.varied),
    )


def label(spec: Spec, task: SweepTask) -> dict[str, Any]:
    """What tells a run from the others of its sweep."""
    return {key: plain(task.values[key]) for key in spec.varied if key in task.values}


def describe(spec: Spec) -> dict[str, Any]:
    """The sweep as plain values."""
    return dict(plain(dataclasses.asdict(spec)))


def _labelled(run: Run | None, task: SweepTask, spec: Spec) -> Run:
    point = label(spec, task)
    if run is None:
        return Run(
            key=task.key,
            point=point,
            status=None,
            metrics={},
            error=None,
            config=task.config,
        )
    return dataclasses.replace(run, point=point)
