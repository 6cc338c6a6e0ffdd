"""Whether a placement around jobs with needs is asked for a second time, so that it need not be worked out again."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rota.core.allocation import Allocation
from rota.core.arrays import IntArray
from rota.core.classes import Classes
from rota.core.cluster import Cluster
from rota.core.placement import Placement
from rota.core.view import View


@dataclass(frozen=True, slots=True)
class Question:
    """All that a placement by a ranking that does not know types follows from: equal ones have equal answers."""

    cluster: Cluster
    classes: Classes
    placement: Placement
    """What ran in the last round."""
    capacity: IntArray
    jobs: IntArray
    ranked: IntArray
    """Ids of jobs, first served first."""

    def is_again(self, other: Question) -> bool:
        """Whether the other one is the same question."""
        same_objects = (
            self.placement is other.placement and self.classes is other.classes and self.cluster is other.cluster
        )
        return (
            same_objects
            and np.array_equal(self.ranked, other.ranked)
            and np.array_equal(self.jobs, other.jobs)
            and np.array_equal(self.capacity, other.capacity)
        )


def question_of(view: View, allocation: Allocation) -> Question | None:
    """What the placement follows from; None if it also follows from how far jobs are."""
    last = view.placement
    order = allocation.order
    if last is None or order is None or allocation.wish is not None or view.staying is not None:
        return None
    if allocation.traits.aware and len(view.types) > 1:
        return None
    return Question(view.cluster, view.classes, last, view.capacity, view.jobs, allocation.jobs[order])
