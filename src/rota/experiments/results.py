"""What a sweep gave: runs, a table for pandas, a CSV file, completion times job by job."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from numpy.typing import NDArray

from rota.analysis.output import writing
from rota.core.errors import ConfigError
from rota.experiments.blobs import unpack
from rota.experiments.execution import UNSTABLE, UNTIL_STOPPED
from rota.experiments.store import ResultStore, Run

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FIRST = ("key", "status", "unstable")
LAST = ("error", "started", "cpu_s", "wall_s", "host", "version")


@dataclass(frozen=True, kw_only=True)
class Sweep:
    """The runs of a sweep, in the order of its points."""

    name: str
    store: Path
    runs: list[Run]
    interrupted: bool = False
    computed: int = 0
    """Runs that were made now; the others were in the store."""
    varied: tuple[str, ...] = field(default=())

    def frame(self) -> Any:
        """A pandas DataFrame with a row per run: what was varied, status, metrics.

        An unstable run has no completion times (NaN, `unstable` is true): see `row`. Needs the
        extra `frame`.
        """
        try:
            import pandas  # noqa: ICN001 - an extra
        except ImportError as error:
            problem = "frame() needs pandas, which is not installed: pip install '.[frame]' in a checkout of Rota"
            raise ConfigError(problem) from error
        table = pandas.DataFrame(rows(self.runs), columns=columns(self.runs))
        stopped = [name.partition(".")[2] for name in table.columns if name.startswith(f"{UNTIL_STOPPED}.")]
        return table.astype(dict.fromkeys(stopped, float))  # also where no run is stable

    def jobs(self, run: Run) -> dict[str, NDArray[Any]]:
        """Columns job_id, arrival_s, finish_s, gpus, ftf, deadline_s, jct_s of the measured jobs of a run."""
        with ResultStore(self.store, create=False) as store:
            blob = store.jobs(run.key)
        if blob is None:
            problem = f"run {run.key[:12]} is {run.status or 'not done'}"
            raise ConfigError(f"{problem}: there are no completion times of it")
        return unpack(blob)

    def figure(self, y: str = "mean_jct_s", x: str = "load", by: str = "policy") -> Figure:
        """A metric over what was varied.

        A line for each value of `by`, the mean and 95 % band of all other runs.

        Times are in hours. Crosses mark points with an unstable run, as in `rota plot jct-vs-load`.
        """
        from rota.analysis.figures import curves  # matplotlib is an extra
        from rota.analysis.figures.quantities import quantity
        from rota.experiments.plotting import curves_of

        table = [(run, row(run)) for run in self.runs]
        table = [(run, values) for run, values in table if isinstance(values.get(x), int | float)]
        if not table:
            raise ConfigError(f"there is nothing to draw: no run of the sweep has a number {x}")
        runs = [run for run, _ in table]
        at = [float(values[x]) for _, values in table]
        lines = [str(values.get(by, "all")) for _, values in table]
        drawn = curves_of(runs, at, lines, y, str(self.store))
        return curves.metric(drawn.lines, quantity(y), xlabel=x)


def row(run: Run) -> dict[str, Any]:
    """A run as one flat row; metrics that are tables themselves are left out.

    An unstable run has no completion times; those until it was stopped are called so.
    """
    values: dict[str, Any] = {"key": run.key, **_shown(run.point), "status": run.status}
    values["unstable"] = None if run.status is None else run.status == UNSTABLE
    if not run.point:
        values.update(_shown({k: v for k, v in run.config.items() if k in _OF_THE_CONFIG}))
    until = _plain(run.metrics.get(UNTIL_STOPPED, {}))
    values.update(dict.fromkeys(until))
    values.update(_plain(run.metrics))
    values.update({f"{UNTIL_STOPPED}.{k}": v for k, v in until.items() if v is not None})
    values.update({name: getattr(run, name) for name in LAST})
    return values


def _plain(metrics: Mapping[str, Any]) -> dict[str, Any]:
    return {k: v for k, v in metrics.items() if not isinstance(v, dict | list)}


_OF_THE_CONFIG = ("policy", "mechanism", "workload", "trace", "seed", "settings")


def _shown(point: dict[str, Any]) -> dict[str, Any]:
    return {k: json.dumps(v) if isinstance(v, dict | list) else v for k, v in point.items()}


def rows(runs: Iterable[Run]) -> list[dict[str, Any]]:
    """All runs as flat rows."""
    return [row(run) for run in runs]


def columns(runs: Sequence[Run]) -> list[str]:
    """Names of all columns, in the order in which they should stand."""
    names: dict[str, None] = dict.fromkeys(name for run in runs for name in row(run))
    stopped = [name for name in names if name.startswith(f"{UNTIL_STOPPED}.")]
    first = [name for name in names if name not in LAST and name not in stopped]
    return [*first, *stopped, *(name for name in LAST if name in names)]


def write_csv(path: str | Path, runs: Iterable[Run]) -> int:
    """One line per run; how many. No value is an empty field."""
    kept = list(runs)
    names = columns(kept) or list(FIRST)
    with writing(path, text=True) as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(names)
        writer.writerows(_texts(kept, names))
    return len(kept)


def _texts(runs: Iterable[Run], names: Sequence[str]) -> Iterator[list[Any]]:
    for run in runs:
        values = row(run)
        yield ["" if values.get(name) is None else values[name] for name in names]
