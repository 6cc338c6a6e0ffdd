"""What all ranking policies share: one sort key, ascending, arrival and id break ties."""

from __future__ import annotations

import numpy as np

from rota.core.allocation import Allocation, Traits
from rota.core.arrays import FloatArray
from rota.core.view import View


def ranked(view: View, key: FloatArray, *, static: bool, traits: Traits) -> Allocation:
    """The order of jobs by key, as an allocation."""
    order = np.lexsort((view.jobs, view.submitted, key))
    share = np.zeros((len(view), len(view.types)))
    return Allocation(jobs=view.jobs, types=view.types, share=share, order=order, static_order=static, traits=traits)
