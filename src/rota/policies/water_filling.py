"""Max-min fairness by water filling, flat or with entities (Gavel, OSDI'20, section 4.3 and appendix).

Plain max-min fairness raises the worst-off only; water filling goes on: when some jobs cannot rise further, the others
do. Levels are e_i = sum_j T_ij x_ij / p_i (p as in max_min_fairness.py). All jobs rise together with speed v_i / s_i:

- flat: v_i = w_i;
- entities: an entity with weight W gives its jobs v_i = W w_i / (sum of w over its jobs that still rise) under
  `fairness`, and W to its oldest job that still rises, nothing to the others, under `fifo`.

`max-min-fairness-water-filling` does not know throughputs: all T_ij = 1. The published code finds jobs that cannot
rise by an integer program with tolerances of 1e-4; here the duals say it exactly.
"""

from __future__ import annotations

import numpy as np

from rota.core.allocation import NO_OPTIONS, Allocation, SolveReport, Traits
from rota.core.horizon import UNTIL_JOBS_CHANGE
from rota.core.view import View
from rota.opt.entities import by_entity, parse
from rota.opt.groups import by_class, can_run, proportional_rate, ratio, usable_rate
from rota.opt.levels import Schedule, Together, fill
from rota.opt.one_type import over_types
from rota.opt.pairs import spread, useful_pairs
from rota.opt.previous import recalled
from rota.opt.shares import Polytope
from rota.policies.registry import policies

_NAME = "max-min-fairness-water-filling"


@policies.register(_NAME, aware=False, packed=False, summary="Water-filled shares of time, types not distinguished.")
@policies.register(f"{_NAME}-perf", aware=True, packed=False, summary="Water-filled normalised throughputs.")
@policies.register(
    f"{_NAME}-packed",
    aware=True,
    packed=True,
    summary="Water-filled normalised throughputs, with two jobs on the same GPUs where that pays.",
)
class WaterFilling:
    """Water-filled levels: nobody can gain without taking from somebody who has less."""

    by_weight = True
    """It shares out in proportion to weights, so it can be made fair between tenants (fair_by_tenant.py)."""

    def __init__(self, entities: str | None = None, aware: bool = True, packed: bool = False) -> None:
        self.entities = entities
        self.aware = aware
        self.packed = packed

    def allocate(self, view: View) -> Allocation:
        """Shares whose vector of levels is largest, the lowest first."""
        entities = parse(self.entities)
        groups = by_class(view)
        speed = groups.weight / groups.gpus
        schedule: Schedule = Together(speed)
        if entities is not None and len(view):
            groups, schedule = by_entity(view, entities)
            speed = groups.weight / groups.gpus
        rate = usable_rate(view)
        if not self.aware:
            rate = np.where(can_run(rate)[:, None], 1.0, 0.0) * (view.capacity > 0)
        normal = ratio(np.ones(len(rate)), proportional_rate(rate, view.capacity))
        pairs = useful_pairs(view, groups) if self.packed else None
        polytope = Polytope(
            groups=groups,
            capacity=view.capacity.astype(np.float64),
            rate=rate[groups.job_class],
            scale=normal[groups.job_class],
            pairs=pairs,
        )
        filled = fill(polytope, schedule, recalled(view, "basis"), recalled(view, "duals"))
        share = filled.times.share(groups)
        extras = NO_OPTIONS
        if not self.aware:
            share = over_types(share.sum(axis=1), view.capacity)
        if pairs is not None:
            extras, together = spread(view, groups, pairs, filled.times.paired)
            share = np.concatenate([share, together])
        counted = (groups.count > 0) & (polytope.gain.max(axis=1, initial=0.0) > 0)
        lowest = (filled.level / speed)[counted].min(initial=np.inf)
        return Allocation(
            horizon=UNTIL_JOBS_CHANGE,
            jobs=view.jobs,
            types=view.types,
            share=share,
            extras=extras,
            traits=Traits(aware=self.aware, packs=self.packed, fills_by_speed=self.aware, scatters_ties=not self.aware),
            report=SolveReport(objective=float(lowest) if counted.any() else 0.0, size=polytope.size),
            state={} if filled.basis is None else {"basis": filled.basis, "duals": filled.duals},
        )
