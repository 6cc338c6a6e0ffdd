"""Telling equals apart: of jobs with the same share, who needs the fewest rounds comes first.

A policy that does not distinguish accelerator types gives many jobs exactly the same share, and somebody has to go
first. GPUs are handed out for a round, so what counts is how many rounds a job still needs on the type in question: the
fewer, the sooner it is out of everybody's way. Of those that need equally many the longest goes first: it has most to
gain, and leaves least of its last round unused. This is put into the shares, the way a linear program is perturbed to
choose among its optima: everybody gives up less than `TILT` of its share, the first in line least, so that objectives
stay what they are, nobody gets more than was promised, and no mechanism has to know.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from rota.core.allocation import Allocation
from rota.core.arrays import FloatArray
from rota.core.ports import Policy
from rota.core.tolerance import TOLERANCE
from rota.core.view import View

TILT = 1e-8
"""The part of its share that a job gives up if it is far from its end: more than rounding errors, less than matters."""
_NEAR = 10.0
"""Rounds from the end at which it is half of that: the near ones are told apart best."""


class FewestRoundsFirst:
    """A policy whose equals, where it would have them scattered, are told apart by rounds left."""

    def __init__(self, policy: Policy, round_s: float) -> None:
        self._policy = policy
        self._round_s = round_s

    def allocate(self, view: View) -> Allocation:
        """The answer of the policy, tilted."""
        allocation = self._policy.allocate(view)
        alone = len(view)
        if allocation.order is not None or not allocation.traits.scatters_ties or alone < 2:
            return allocation
        share = allocation.share.copy()
        share[:alone] *= 1 - TILT + TILT * _NEAR / (_NEAR + _line(view, self._round_s))
        return replace(allocation, share=share)


def _line(view: View, round_s: float) -> FloatArray:
    """[J, T] whole rounds left on each type, less up to a half for long jobs; infinity where a job does not run."""
    steps = view.steps_left
    rate = view.throughput
    line = np.full(rate.shape, np.inf)
    np.divide((steps / round_s)[:, None], rate, out=line, where=rate > 0)
    line -= TOLERANCE  # a part of a round that does not count as one more
    np.ceil(line, out=line)
    left = steps * view.classes.best_step_s[view.job_class]
    line -= (left / max(2.0 * float(left.max()), 1.0))[:, None]
    return line
