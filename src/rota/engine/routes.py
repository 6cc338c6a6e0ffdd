"""Who hears of which events."""

from __future__ import annotations

from collections.abc import Sequence

from rota.core.events import Event
from rota.core.ports import Handler, Observer


class Routes:
    """Observers in order; what each of them wants to hear of is asked once for each kind of event."""

    def __init__(self, observers: Sequence[Observer]) -> None:
        self._observers = observers
        self._handlers: dict[type, tuple[Handler, ...]] = {}

    def emit(self, event: Event) -> None:
        """Tell everybody who wants to hear of it, in order."""
        handlers = self._handlers.get(type(event))
        if handlers is None:
            handlers = self._asked(type(event))
        for handler in handlers:
            handler(event)

    def _asked(self, kind: type[Event]) -> tuple[Handler, ...]:
        wanted = (observer.handler(kind) for observer in self._observers)
        self._handlers[kind] = handlers = tuple(handler for handler in wanted if handler is not None)
        return handlers
