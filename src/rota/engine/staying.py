"""Who goes on on its GPUs, whatever is decided: between two rounds everybody who runs, otherwise jobs that are pinned.

A mechanism finds them in `view.staying` and works around them; `moved` says whom it did not leave in place.
"""

from __future__ import annotations

import numpy as np

from rota.core.arrays import BoolArray, IntArray, some
from rota.core.placement import Placement
from rota.core.view import View
from rota.engine.moving import without


def still_there(view: View) -> View:
    """The view with a placement without jobs that have left; the view itself if nobody has."""
    placement = view.placement
    if placement is None or len(placement) == 0:
        return view
    at = view.position(placement.first)
    gone: BoolArray = at < 0
    if placement.shared:
        partner_gone = (placement.second >= 0) & (view.position(placement.second) < 0)
        left = np.concatenate([placement.first[gone], placement.second[partner_gone]])
        if len(left) == 0:
            return view
        rest = without(placement, left)
        at = view.position(rest.first)
    elif some(gone):
        rest = placement.rows(~gone)
        at = at[~gone]
    else:
        return view
    last_task = np.full(len(view), -1, dtype=np.int64)
    last_task[at] = np.arange(len(rest))
    return view.with_tasks(rest, last_task, None)


def has_room(view: View) -> bool:
    """Whether GPUs are free and jobs wait."""
    placement = view.placement
    if placement is None:
        return True
    partners = int(np.count_nonzero(placement.second >= 0)) if placement.shared else 0
    return len(view) > len(placement) + partners and int(placement.gpus.sum()) < int(view.capacity.sum())


def everybody_stays(view: View) -> View:
    """The view in which all tasks of the placement go on."""
    placement = view.placement
    if placement is None:
        return view
    return view.with_tasks(placement, view.last_task, np.ones(len(placement), dtype=np.bool_))


def pinned_stay(view: View, pinned: BoolArray) -> View:
    """The view in which the tasks of jobs that must not be preempted go on; `pinned` is by job of the view."""
    view = still_there(view)
    placement = view.placement
    if placement is None or len(placement) == 0:
        return view
    ids = view.jobs[pinned]
    staying = np.isin(placement.first, ids) | np.isin(placement.second, ids)
    return view.with_tasks(placement, view.last_task, staying) if some(staying) else view


def going_on(placement: Placement) -> Placement:
    """The tasks of a placement once more, within a round: nobody of them has to start."""
    return placement.within_round(kept=np.ones(len(placement), dtype=np.bool_))


def moved(view: View, placement: Placement) -> IntArray:
    """Ids of jobs that should stay in this view and are stopped or moved by the placement."""
    before = view.placement
    if before is None or view.staying is None or not some(view.staying):
        return np.zeros(0, dtype=np.int64)
    stays: BoolArray = np.isin(before.first, placement.first[placement.kept])
    return before.first[view.staying & ~stays]
