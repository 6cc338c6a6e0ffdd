"""When to ask a place again that refused a pilot."""

from __future__ import annotations

from dataclasses import dataclass

_FIRST_PAUSE_S = 30.0
_LONGEST_PAUSE_S = 900.0


@dataclass(kw_only=True)
class Backoff:
    """When to ask again after a refusal."""

    words: str = ""
    """What was said, in the words of the place; empty: nothing is wrong."""
    times: int = 0
    until: float = 0.0

    def refused(self, words: str, now: float) -> float:
        """Wait for longer each time; the seconds."""
        pause_s = float(min(_FIRST_PAUSE_S * 2 ** min(self.times, 16), _LONGEST_PAUSE_S))
        self.words = words
        self.times += 1
        self.until = now + pause_s
        return pause_s

    def over(self) -> None:
        """It went well."""
        self.words = ""
        self.times = 0
        self.until = 0.0
