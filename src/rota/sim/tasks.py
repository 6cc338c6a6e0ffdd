"""What the tasks of a plan would do: rates and work left, as columns."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rota import kernels
from rota.core.arrays import BoolArray, FloatArray, IntArray, some
from rota.core.placement import Placement
from rota.core.view import View

_NOBODY: IntArray = np.zeros(0, dtype=np.int64)
_NO_TIMES: FloatArray = np.zeros(0)


@dataclass(slots=True)
class Tasks:
    """Running tasks. The partner columns mean something in the rows of `paired` only."""

    placement: Placement
    rate: FloatArray
    left: FloatArray
    partner_rate: FloatArray
    partner_left: FloatArray
    paired: IntArray
    """Rows with two members."""
    fresh: BoolArray
    """Tasks that start or move and have to pay for it."""
    pace: FloatArray
    """`rate` to divide by: the same, but next to nothing instead of 0 for a pair that does not fit."""
    partner_pace: FloatArray
    alone: FloatArray
    """Rates of the first members of pairs once they are alone; one entry per pair."""
    partner_alone: FloatArray
    """The same of the second members."""
    lead: FloatArray | None = None
    """Seconds that each task still needs to start, once somebody has worked them out."""
    chunk: FloatArray | None = None
    """Steps of a whole round, once somebody has worked them out."""
    surprise: bool = False
    """A pair that was taken to fit turns out not to: the decision has to be looked at after this round."""


_CRAWL = 1e-290
"""steps/s; small enough that no job ever gets anywhere, large enough that seconds per step are a number."""


def make_tasks(placement: Placement, view: View, *, spread_costs: bool, whole: float = 0.0) -> Tasks:
    """Rates of a placement under the profiles; steps of a round too, to the last bit, if it lasts `whole` seconds."""
    truth = view.classes.true_speeds
    count = len(placement.first)
    rates = np.empty(count)
    left = np.empty(count)
    spread = spread_costs and len(placement.slot_server) > count
    shared = placement.shared and some(placement.second >= 0)
    chunk = np.empty(count) if whole and not shared else _NO_TIMES
    kernels.look_up(
        placement.first,
        placement.type,
        view.jobs,
        view.job_class,
        truth.throughput,
        view.total_steps,
        view.steps_done,
        _NO_TIMES if placement.speed is None else placement.speed,
        truth.step_s,
        rates,
        left,
        chunk,
        len(view.capacity),
        whole,
    )
    if spread or shared:
        group = view.job_class[view.jobs.searchsorted(placement.first)]
    if spread:
        speed = 1.0 if placement.speed is None else placement.speed
        rates = np.where(placement.spans, truth.spread[group, placement.type] * speed, rates)
    tasks = Tasks(
        placement=placement,
        rate=rates,
        left=left,
        partner_rate=rates,
        partner_left=rates,
        paired=_NOBODY,
        fresh=~placement.kept,
        pace=rates,
        partner_pace=rates,
        alone=_NO_TIMES,
        partner_alone=_NO_TIMES,
        chunk=chunk if len(chunk) else None,
    )
    if shared:
        _pair_up(tasks, view, group, spread_costs=spread_costs)
    return tasks


def _pair_up(tasks: Tasks, view: View, group: IntArray, *, spread_costs: bool) -> None:
    """Rates and steps left of two jobs on the same GPUs; `group` is the class of the first job of each task."""
    placement = tasks.placement
    classes = view.classes
    paired = (placement.second >= 0).nonzero()[0]
    other = np.searchsorted(view.jobs, placement.second[paired])
    first_class = group[paired]
    second_class = view.job_class[other]
    gpu_type = placement.type[paired]
    tasks.paired = paired
    alone = tasks.rate[paired]
    partner_alone = classes.true_speeds.throughput[second_class, gpu_type]
    if spread_costs and len(placement.slot_server) > len(placement):
        spread = classes.true_speeds.spread[second_class, gpu_type]
        partner_alone = np.where(placement.spans[paired], spread, partner_alone)
    tasks.rate = tasks.rate.copy()
    tasks.rate[paired] = classes.true_pair[first_class, second_class, gpu_type]
    tasks.partner_rate = np.ones(len(placement))
    tasks.partner_rate[paired] = classes.true_pair[second_class, first_class, gpu_type]
    tasks.alone = np.where(alone > 0, alone, np.maximum(tasks.rate[paired], _CRAWL))
    tasks.partner_alone = np.where(partner_alone > 0, partner_alone, np.maximum(tasks.partner_rate[paired], _CRAWL))
    tasks.partner_left = np.zeros(len(placement))
    tasks.partner_left[paired] = view.total_steps[other] - view.steps_done[other]
    tasks.pace = tasks.rate
    tasks.partner_pace = tasks.partner_rate
    if not tasks.rate[paired].all():
        _stall(tasks, classes.pair[first_class, second_class, gpu_type])


def _stall(tasks: Tasks, expected: FloatArray) -> None:
    """Some pairs do not fit: let them stand still. Where another rate was expected, that is a surprise."""
    tasks.pace = np.maximum(tasks.rate, _CRAWL)
    tasks.partner_pace = np.maximum(tasks.partner_rate, _CRAWL)
    tasks.surprise = bool(expected[tasks.rate[tasks.paired] == 0].any())
