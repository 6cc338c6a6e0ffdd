"""Who held which GPU when: the placements of a run as bars over time."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from rota.analysis import plots
from rota.analysis.figures import bar_looks
from rota.analysis.figures.bar_looks import Looks
from rota.analysis.job_table import JobTable
from rota.core.arrays import NO_JOB
from rota.core.cluster import Cluster
from rota.core.errors import ConfigError
from rota.core.events import Event, JobsSubmitted, Planned, RoundsRan
from rota.core.placement import Placement

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MOST_GPUS = 160
"""Rows beyond which bars are thinner than a line of print."""
MOST_SERVERS = 400
WIDTH = 6.8
"""Inches."""
SHARED = "/////"
"""The texture of GPUs that two jobs share."""
NARROW = 0.03
"""Inches; bars that are narrower have neither edge nor texture, which would hide their colour."""
_EPSILON = 1e-6
_LONGEST_NAME = 34


@dataclass(slots=True)
class Bar:
    """One GPU held without a break by the same job, or the same two jobs."""

    server: int
    gpu: int
    """Which one of the server. Logs only say how many a job holds; it keeps its own as long as it
    stays."""
    start: float
    end: float
    job: int
    partner: int


class Occupancy:
    """Observes a run and remembers who held which GPU, between two times only (seconds)."""

    def __init__(self, cluster: Cluster, start: float = 0.0, end: float = math.inf) -> None:
        self.cluster = cluster
        self.window = (start, end)
        self.bars: list[Bar] = []
        self.jobs = JobTable()
        self.last = start
        self._open: dict[tuple[int, int], Bar] = {}
        self._held: list[list[tuple[int, int]]] = []
        """Of each task of the placement in force, its GPUs."""
        self._placement: Placement | None = None

    def observe(self, event: Event) -> None:
        """Take an event into account."""
        if isinstance(event, Planned):
            if event.plan.placement is not self._placement:
                self._held = self._assign(event.plan.placement)
                self._placement = event.plan.placement
        elif isinstance(event, RoundsRan) and self._placement is not None:
            self._ran(event, self._placement)
        elif isinstance(event, JobsSubmitted):
            self.jobs.add(event.first_id, event.jobs)

    def _assign(self, placement: Placement) -> list[list[tuple[int, int]]]:
        """GPUs for every task: those it had, then the lowest that are free."""
        before: dict[tuple[int, int], list[int]] = {}
        if self._placement is not None:
            for k, gpus in enumerate(self._held):
                for server, gpu in gpus:
                    for job in _members(self._placement, k):
                        before.setdefault((job, server), []).append(gpu)
        free = {s: set(range(n)) for s, n in enumerate(self.cluster.server_gpus.tolist())}
        gpus_of_task: list[list[tuple[int, int]]] = [[] for _ in range(len(placement))]
        missing: list[tuple[int, int, int]] = []
        for k in range(len(placement)):
            for slot in range(int(placement.slot_start[k]), int(placement.slot_start[k + 1])):
                server = int(placement.slot_server[slot])
                count = int(placement.slot_gpus[slot])
                jobs = [job for job in _members(placement, k) if job != NO_JOB]
                had = [g for job in jobs for g in before.get((job, server), [])]
                kept = [g for g in dict.fromkeys(had) if g in free[server]][:count]
                free[server] -= set(kept)
                gpus_of_task[k] += [(server, g) for g in kept]
                missing.append((k, server, count - len(kept)))
        for k, server, count in missing:
            taken = sorted(free[server])[:count]
            free[server] -= set(taken)
            gpus_of_task[k] += [(server, g) for g in taken]
        return gpus_of_task

    def _ran(self, event: RoundsRan, placement: Placement) -> None:
        first, last = self.window
        for k, gpus in enumerate(self._held):
            start = max(event.start, first)
            end = min(event.at, event.start + float(event.seconds[k]), last)
            if end <= start:
                continue
            self.last = max(self.last, end)
            job, partner = _members(placement, k)
            for place in gpus:
                bar = self._open.get(place)
                same = bar is not None and (bar.job, bar.partner) == (job, partner)
                if bar is not None and same and start - bar.end < _EPSILON:
                    bar.end = end
                    continue
                self._open[place] = Bar(*place, start, end, job, partner)
                self.bars.append(self._open[place])

    def numbers(self) -> dict[str, Any]:
        """What is drawn, for JSON."""
        servers = self.cluster.ordered
        drawn = sorted({job for b in self.bars for job in (b.job, b.partner) if job != NO_JOB})
        model = self.names("model")
        tenant = self.names("tenant")
        return {
            "servers": [{"id": s.id, "type": s.type, "gpus": s.capacity.gpus} for s in servers],
            "jobs": [{"job": job, "model": model(job), "tenant": tenant(job)} for job in drawn],
            "bars": [
                {
                    "server": servers[b.server].id,
                    "gpu": b.gpu,
                    "start_s": b.start,
                    "end_s": b.end,
                    "jobs": [b.job] if b.partner == NO_JOB else [b.job, b.partner],
                }
                for b in self.bars
            ],
        }

    def names(self, of: str) -> Callable[[int], str]:
        """The model or the tenant of a job, by its id."""
        names, column = (
            (self.jobs.profiles, "profile") if of == "model" else (self.jobs.tenants, "tenant")
        )  # fmt: skip
        texts = names.text(self.jobs.ints(column))
        return lambda job: str(texts[job]) if job < len(texts) else "not known"

    @property
    def span(self) -> float:
        """Seconds from the begin of the window to its end or that of the run."""
        return min(self.window[1], self.last) - self.window[0] or 1.0

    def looks(self, colour_by: str) -> Looks:
        """Colours by job, model or tenant. Bars that two jobs share have the look of the first."""
        if colour_by == "job":
            return bar_looks.by_job(b.job for b in self.bars)
        return bar_looks.by_group(((b.job, b.end - b.start) for b in self.bars), self.names(colour_by))


def gantt(
    held: Occupancy,
    by: str = "gpu",
    *,
    colour_by: str = "job",
    width: float | None = None,
) -> Figure:
    """By `gpu`: a row per GPU, coloured by job, model or tenant, hatched where two share it.

    By `server`: GPUs in use, as shades.
    """
    cluster = held.cluster
    rows, most = (cluster.gpus, MOST_GPUS) if by == "gpu" else (len(cluster.ordered), MOST_SERVERS)
    if rows > most:
        hint = "draw it by server" if by == "gpu" else "draw a run on a smaller cluster"
        raise ConfigError(f"{rows:,} rows do not fit into a figure, at most {most} do; {hint}")
    if not held.bars:
        fix = "give another one (a run with `ideal` has no slots)"
        raise ConfigError(f"nothing ran on a GPU in that window; {fix}")
    row_height = min(0.16, 6.0 / rows)
    with plots.styled():
        figure = plots.new_figure(width or WIDTH, 0.8 + max(1.0, row_height * rows))
        axes = figure.add_subplot()
        if by == "gpu":
            _by_gpu(figure, held, held.looks(colour_by), row_height)
        else:
            _by_server(axes, held, row_height)
        start, end = held.window
        axes.set_xlim(start / plots.HOUR, min(end, held.last) / plots.HOUR)
        axes.set_ylim(rows, 0)
        axes.set_xlabel("simulated hours")
        axes.grid(visible=False, axis="y")
        axes.tick_params(axis="y", length=0)
    return figure


def _by_gpu(figure: Figure, held: Occupancy, looks: Looks, row_height: float) -> None:
    axes = figure.axes[0]
    sizes = held.cluster.server_gpus
    offset = np.concatenate([[0], np.cumsum(sizes)])
    narrow_s = NARROW * held.span / figure.get_figwidth()
    alike: dict[tuple[int, bool, bool], list[Bar]] = {}
    for bar in held.bars:
        narrow = bar.end - bar.start < narrow_s
        alike.setdefault((looks.of_job[bar.job], bar.partner != NO_JOB, narrow), []).append(bar)
    for (look, shared, narrow), bars in alike.items():
        axes.barh(
            [float(offset[b.server]) + b.gpu + 0.5 for b in bars],
            [(b.end - b.start) / plots.HOUR for b in bars],
            left=[b.start / plots.HOUR for b in bars],
            height=0.92,
            **({"color": bar_looks.colour(look), "linewidth": 0} if narrow else _face(look, shared=shared)),
        )
    _job_numbers(figure, held, looks, offset, row_height)
    _server_labels(axes, held.cluster, offset[:-1] + sizes / 2, sizes * row_height)
    for edge in offset[1:-1]:
        axes.axhline(edge, color="#777777", linewidth=0.6)
    _legend(figure, looks, shared=any(shared for _, shared, _ in alike))


def _face(look: int, *, shared: bool) -> dict[str, Any]:
    texture = bar_looks.texture(look) + (SHARED if shared else "")
    # Light colours need dark dots, dark ones light dots.
    ink = "white" if shared or bar_looks.print_colour(look) == "white" else "#555555"
    return {
        "facecolor": bar_looks.colour(look),
        "edgecolor": ink if texture else "white",
        "hatch": texture or None,
        "linewidth": 0.3,
    }


def _legend(figure: Figure, looks: Looks, *, shared: bool) -> None:
    """What colours mean and what hatching means, below the chart, in as many columns as fit."""
    from matplotlib.patches import Patch  # an extra

    entries = [Patch(label=_short(name), **_face(look, shared=False)) for look, name in looks.legend]
    if shared:
        text = "two jobs share the GPU"
        entries.append(Patch(facecolor="#777777", edgecolor="white", hatch=SHARED, label=text))
    if not entries:
        return
    longest = max(len(str(entry.get_label())) for entry in entries)
    columns = max(1, min(len(entries), int(figure.get_figwidth() / (0.5 + 0.056 * longest))))
    figure.set_figheight(figure.get_figheight() + 0.1 + 0.155 * -(-len(entries) // columns))
    figure.legend(
        handles=entries,
        loc="outside lower center",
        ncols=columns,
        fontsize=7,
        handlelength=1.6,
        columnspacing=1.2,
        borderaxespad=0,
    )


def _short(name: str) -> str:
    return name if len(name) <= _LONGEST_NAME else f"{name[: _LONGEST_NAME - 1]}…"


def _job_numbers(figure: Figure, held: Occupancy, looks: Looks, offset: Any, row_height: float) -> None:
    """The id of the job on bars that are wide enough, once for GPUs side by side."""
    inches = figure.get_figwidth() - 0.8
    axes = figure.axes[0]
    if row_height < 0.1:
        return
    said: set[tuple[int, int, int, float]] = set()
    for bar in held.bars:
        text = str(bar.job) if bar.partner == NO_JOB else f"{bar.job}+{bar.partner}"
        key = (bar.server, bar.job, bar.partner, bar.start)
        if key in said or (bar.end - bar.start) / held.span * inches < 0.075 * len(text) + 0.06:
            continue
        said.add(key)
        look = looks.of_job[bar.job]
        plain = bar.partner == NO_JOB and not bar_looks.texture(look)
        axes.text(
            (bar.start + bar.end) / 2 / plots.HOUR,
            float(offset[bar.server]) + bar.gpu + 0.54,
            text,
            ha="center",
            va="center",
            fontsize=6,
            color=bar_looks.print_colour(look) if plain else "black",
            clip_on=True,
            bbox=None if plain else {"pad": 0.6, "facecolor": "white", "linewidth": 0},
        )


def _by_server(axes: Axes, held: Occupancy, row_height: float) -> None:
    cluster = held.cluster
    for server, size in enumerate(cluster.server_gpus.tolist()):
        bars = [b for b in held.bars if b.server == server]
        if not bars:
            continue
        times = np.unique([t for b in bars for t in (b.start, b.end)])
        change = np.zeros(len(times))
        np.add.at(change, np.searchsorted(times, [b.start for b in bars]), 1)
        np.add.at(change, np.searchsorted(times, [b.end for b in bars]), -1)
        used = np.cumsum(change)[:-1] / size
        image = axes.pcolormesh(
            times / plots.HOUR, [server + 0.04, server + 0.96], used[None, :], cmap="Blues", vmin=0, vmax=1,
            rasterized=True,
        )  # fmt: skip
    count = len(cluster.ordered)
    _server_labels(axes, cluster, np.arange(count) + 0.5, np.full(count, row_height))
    bar = axes.figure.colorbar(image, ax=axes, aspect=18, pad=0.02, ticks=[0, 0.5, 1])
    bar.ax.set_yticklabels(["0", "50 %", "100 %"], fontsize=7.5)
    bar.set_label("GPUs in use", fontsize=8.5)
    bar.outline.set_visible(False)


def _server_labels(axes: Axes, cluster: Cluster, middle: Any, height: Any) -> None:
    """Names of servers; only every n-th where they would touch."""
    every = max(1, math.ceil(0.12 / float(np.min(height[height > 0]))))
    names = [server.id for server in cluster.ordered]
    axes.set_yticks(middle[::every], names[::every], fontsize=7)


def _members(placement: Placement, k: int) -> tuple[int, int]:
    return int(placement.first[k]), int(placement.second[k])
