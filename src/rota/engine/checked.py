"""A user's policy, watched: what it is shown cannot be changed, and what it answers makes sense."""

from __future__ import annotations

from dataclasses import fields

import numpy as np

from rota.core.allocation import Allocation
from rota.core.arrays import frozen
from rota.core.errors import AnswerError
from rota.core.placement import Placement
from rota.core.ports import Policy
from rota.core.view import View
from rota.engine import sense

_COLUMNS = tuple(f.name for f in fields(View))


class CheckedPolicy:
    """A policy that does not come with Rota."""

    def __init__(self, policy: Policy) -> None:
        self._policy = policy
        self._placement: Placement | None = None

    def allocate(self, view: View) -> Allocation:
        """The answer of the policy; raises AnswerError if it makes no sense, or if the view was changed."""
        self._freeze(view.placement)
        shown = view.later(view.now, view.steps_done, view.attained)
        try:
            answer = self._policy.allocate(shown)
        except TypeError as error:
            if error.__traceback__ is not None and error.__traceback__.tb_next is None:  # it was not even entered
                raise AnswerError(f"allocate of {type(self._policy).__name__} cannot be called: {error}") from error
            raise
        _check_unchanged(view, shown)
        sense.check_allocation(answer, view)
        frozen(answer.share)
        if answer.order is not None:
            frozen(answer.order)
        return answer

    def _freeze(self, placement: Placement | None) -> None:
        if placement is None or placement is self._placement:
            return
        self._placement = placement
        for name in Placement.__slots__:
            column = getattr(placement, name)
            if isinstance(column, np.ndarray):
                frozen(column)


def _check_unchanged(view: View, shown: View) -> None:
    for name in _COLUMNS:
        value = getattr(shown, name)
        writable = isinstance(value, np.ndarray) and value.flags.writeable
        if value is not getattr(view, name) or writable:
            raise AnswerError(f"the policy has changed {name} of its view; a view is not to be written to, take a copy")
