"""Every job gets the same part of the cluster (Gavel's isolated baseline).

    x_ij = (N_j / m) / s_i, each row cut to a sum of at most 1

with m active jobs, N_j GPUs of type j and s_i the job's GPUs. Types are not distinguished, so neither is any of them
preferred when slots are handed out.
"""

from __future__ import annotations

import numpy as np

from rota.core.allocation import Allocation, Traits
from rota.core.arrays import FloatArray, IntArray
from rota.core.horizon import UNTIL_JOBS_CHANGE
from rota.core.view import View
from rota.policies.registry import policies


@policies.register("isolated")
class Isolated:
    """Every job gets 1/m of each type; nothing is optimised."""

    def allocate(self, view: View) -> Allocation:
        """Equal shares."""
        share = equal_shares(view.capacity, view.gpus, len(view))
        return Allocation(
            horizon=UNTIL_JOBS_CHANGE, jobs=view.jobs, types=view.types, share=share, traits=Traits(aware=False)
        )


def equal_shares(capacity: IntArray, gpus: IntArray, count: int) -> FloatArray:
    """[len(gpus), T] the part of each type that one of `count` options of the given sizes gets."""
    share: FloatArray = (capacity / max(count, 1))[None, :] / gpus[:, None]
    at_most_one: FloatArray = np.divide(share, np.maximum(share.sum(axis=1), 1.0)[:, None])
    return at_most_one
