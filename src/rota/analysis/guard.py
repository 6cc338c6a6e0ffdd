"""Who looks at a run while it goes on and may end it, e.g. because the cluster is overloaded."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from rota.core.events import Event
from rota.core.ports import Handler
from rota.engine.state import State


class Guard(Protocol):
    """Inherit from it; `handler` and `verdict` have to be written."""

    def begin(self, capacity: int, *, endless: bool) -> None:
        """The run starts, on so many GPUs; jobs come for ever or not."""
        del capacity, endless

    def follow(self, state: State) -> None:
        """The state of the run, for guards that want to know how far jobs are."""
        del state

    def handler(self, kind: type[Event]) -> Handler | None:
        """What to call for events of a kind; None if they do not matter."""

    def verdict(self) -> str | None:
        """Why the run has to end; None to go on."""

    def remark(self) -> str | None:
        """What to know about a run that came to its end; None if nothing."""
        return None

    def saved(self) -> dict[str, Any]:
        """Plain values for a checkpoint."""
        return {}

    def restore(self, saved: Mapping[str, Any]) -> None:
        """Go on from a checkpoint."""
        del saved
