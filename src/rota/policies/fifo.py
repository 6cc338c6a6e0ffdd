"""First in, first out, on whatever type has room.

Jobs are served in order of arrival; a smaller job may overtake one that does not fit at the moment. Types are not
distinguished. (The `fifo` of the published Gavel artifact oversubscribes its first type without limit; this one does
what the paper means.) Ties by id.
"""

from __future__ import annotations

from rota.core.allocation import Allocation
from rota.core.arrays import FloatArray
from rota.core.horizon import UNTIL_JOBS_LEAVE
from rota.core.view import View
from rota.policies.ranking import ranked
from rota.policies.registry import policies


@policies.register("fifo")
class Fifo:
    """Jobs in order of arrival, on any type with room; smaller ones may overtake."""

    def key(self, view: View) -> FloatArray:
        """Arrival."""
        return view.submitted

    def allocate(self, view: View) -> Allocation:
        """The queue."""
        return ranked(view, self.key(view), horizon=UNTIL_JOBS_LEAVE, urgent_first=False)
