"""Values of labels, bounded: metrics must not grow with what users make up."""

from __future__ import annotations

OTHER = "(other)"
"""All values beyond the bound; no tenant and no server can have this name."""
MOST_TENANTS = 500
MOST_NODES = 5_000


class Labels:
    """The first so many values keep their names, later ones share one. A name once given stays: counters need that."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._known: set[str] = set()

    @property
    def known(self) -> frozenset[str]:
        """All values that have a label of their own."""
        return frozenset(self._known)

    def of(self, value: str) -> str:
        """The label of a value."""
        if value not in self._known:
            if len(self._known) >= self._most:
                return OTHER
            self._known.add(value)
        return value
