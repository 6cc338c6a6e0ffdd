"""Every job gets time on all types in proportion to their number of GPUs.

    x_ij = N_j / sum_k N_k, scaled so that no type is oversubscribed

This is the yardstick of Gavel's fairness policies (the proportional throughput p_i) as a policy of its own.
"""

from __future__ import annotations

import numpy as np

from rota.core.allocation import Allocation, Traits
from rota.core.horizon import UNTIL_JOBS_CHANGE
from rota.core.view import View
from rota.policies.registry import policies


@policies.register("proportional")
class Proportional:
    """Time on each type in proportion to its GPUs, the same for every job."""

    def allocate(self, view: View) -> Allocation:
        """The same row for every job."""
        total = int(view.capacity.sum())
        wanted = max(int(view.gpus.sum()), 1)
        row = view.capacity / total * min(1.0, total / wanted)
        share = np.broadcast_to(row, (len(view), len(view.types))).copy()
        return Allocation(
            horizon=UNTIL_JOBS_CHANGE, jobs=view.jobs, types=view.types, share=share, traits=Traits(aware=False)
        )
