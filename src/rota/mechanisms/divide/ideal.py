"""The fluid ideal: every option runs exactly its share of the time on every type at once.

No rounds, no rounding, no placement: what a mechanism could reach at best, to measure others against (the ideal line
of Gavel's figure 13).
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from rota.core.allocation import Allocation
from rota.core.horizon import UNTIL_JOBS_CHANGE
from rota.core.placement import Placement
from rota.core.view import View
from rota.mechanisms.choice import Choice
from rota.mechanisms.divide.slots import alone
from rota.mechanisms.dividing import Abilities, Divide, Select
from rota.mechanisms.registry import mechanisms

_LEAST_SHARE = 1e-12
"""Shares below this are noise of a solver; less than elsewhere, because shares are taken literally here."""


@mechanisms.register("ideal")
class Ideal(Divide):
    """Shares taken literally: no rounds, no placement; the bound for every other mechanism."""

    abilities: ClassVar[Abilities] = Abilities(places=False)

    def select(self) -> _EveryShare:
        """All options with a share run, each for its part of the time."""
        return _EveryShare()

    def divide(self, view: View, choice: Choice) -> Placement:
        """Tasks without slots."""
        count = len(choice)
        none = np.zeros(0, dtype=np.int64)
        second = alone(count) if choice.second is None else np.where(choice.second >= 0, view.jobs[choice.second], -1)
        return Placement(
            first=view.jobs[choice.first],
            second=second,
            type=choice.type,
            gpus=view.gpus[choice.first],
            kept=np.ones(count, dtype=np.bool_),
            slot_start=np.zeros(count + 1, dtype=np.int64),
            slot_server=none,
            slot_gpus=none,
            fraction=choice.fraction if choice.fraction is not None else np.ones(count),
            horizon=UNTIL_JOBS_CHANGE,
        )


class _EveryShare(Select):
    """Selects every option that has a share."""

    def choose(self, view: View, allocation: Allocation) -> Choice:
        """One task per option and type with a share."""
        accounts = view.accounts
        if accounts is None:
            raise ValueError("the ideal mechanism needs the shares in force")
        runs = view.classes.runs_on[view.job_class].T
        gpu_type, first = ((accounts.share > _LEAST_SHARE) & runs).nonzero()
        fraction = accounts.share[gpu_type, first]
        pairs = accounts.extras
        if not allocation.traits.packs or len(pairs) == 0:
            return Choice(first=first, type=gpu_type, fraction=fraction, horizon=UNTIL_JOBS_CHANGE)
        one = view.position(pairs.options.first)
        two = view.position(pairs.options.second)
        can = (view.classes.pair[view.job_class[one], view.job_class[two]] > 0).T
        pair_type, row = ((pairs.share > _LEAST_SHARE) & can).nonzero()
        # Two that fit together nowhere take turns: rounds would fill in others and come back to them, here nobody does.
        turn_type, turn = ((pairs.share > _LEAST_SHARE) & ~can.any(axis=0)).nonzero()
        member = np.concatenate([one[turn], two[turn]])
        member_type = np.tile(turn_type, 2)
        half = np.where(runs[member_type, member], np.tile(pairs.share[turn_type, turn] / 2, 2), 0.0)
        able = half.nonzero()[0]
        first = np.concatenate([first, member[able]])
        return Choice(
            first=np.concatenate([first, one[row]]),
            second=np.concatenate([np.full(len(first), -1), two[row]]),
            type=np.concatenate([gpu_type, member_type[able], pair_type]),
            fraction=np.concatenate([fraction, half[able], pairs.share[pair_type, row]]),
            horizon=UNTIL_JOBS_CHANGE,
        )
