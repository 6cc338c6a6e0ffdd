"""Colours and textures of the bars of a Gantt chart: by job, model or tenant.

Fourteen colours, then the same with dots: twenty-eight looks. What is more than the eye can tell
apart is one look for all the rest of models or tenants; jobs have their number on the bar.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from rota.analysis import plots

DOTS = "...."
MOST = 2 * len(plots.BAR_COLOURS)
REST = MOST
"""The look of everything that got none of its own."""
_REST_COLOUR = "#c9c9c9"


@dataclass(frozen=True, slots=True)
class Looks:
    """The look of every job, and what looks mean where that has to be said."""

    of_job: dict[int, int]
    legend: tuple[tuple[int, str], ...] = ()


def by_job(jobs: Iterable[int]) -> Looks:
    """Jobs in the order of their first bar: those that run side by side differ."""
    order = dict.fromkeys(jobs)
    return Looks({job: i % MOST for i, job in enumerate(order)})


def by_group(held_s: Iterable[tuple[int, float]], group: Callable[[int], str]) -> Looks:
    """Groups of jobs, those that held GPUs longest first; `held_s` are jobs with GPU-seconds."""
    jobs: dict[str, set[int]] = defaultdict(set)
    total: dict[str, float] = defaultdict(float)
    for job, seconds in held_s:
        jobs[group(job)].add(job)
        total[group(job)] += seconds
    names = sorted(total, key=lambda name: (-total[name], name))
    own = names if len(names) <= MOST else names[: MOST - 1]
    place = {name: i for i, name in enumerate(own)}
    legend = list(enumerate(own))
    if len(names) > len(own):
        legend.append((REST, f"{len(names) - len(own)} others"))
    of_job = {job: place.get(name, REST) for name in names for job in jobs[name]}
    return Looks(of_job, tuple(legend))


def colour(look: int) -> str:
    """Its colour."""
    return _REST_COLOUR if look == REST else plots.BAR_COLOURS[look % len(plots.BAR_COLOURS)]


def texture(look: int) -> str:
    """Its texture, as matplotlib calls it; empty for none."""
    return DOTS if len(plots.BAR_COLOURS) <= look < REST else ""


def print_colour(look: int) -> str:
    """White or black, whichever can be read on it."""
    red, green, blue = (int(colour(look)[i : i + 2], 16) / 255 for i in (1, 3, 5))
    return "white" if 0.299 * red + 0.587 * green + 0.114 * blue < 0.5 else "black"
