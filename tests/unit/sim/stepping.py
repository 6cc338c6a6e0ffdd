"""Tasks for tests of the steppers, and running them round by round."""

import math
from dataclasses import replace

import numpy as np

from builders import a_placement, a_state
from rota.sim.tasks import make_tasks


def tasks_of(jobs, *placed, kept=False, fraction=None, servers=None, spread_costs=True, **parts):
    """Tasks that are about to run; each of `placed` is (first, second, type, gpus)."""
    state = a_state(jobs, **parts)
    placement = a_placement(*placed, kept=kept, servers=servers)
    if fraction is not None:
        placement = replace(placement, fraction=np.array(fraction, dtype=float))
    return make_tasks(placement, state.view(0.0), spread_costs=spread_costs)


def one_by_one(stepper, tasks, *, now=0.0, last_end=0.0, stop=math.inf):
    """Single rounds until a job is through or `stop` is reached."""
    stretches = []
    while not stretches or (len(stretches[-1].finished) == 0 and now < stop):
        stretches.append(stepper.run(tasks, now, -math.inf, last_end))
        now = last_end = stretches[-1].end
    return stretches
