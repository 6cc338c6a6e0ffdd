"""JSON lines between a rank and its agent.

One object per line, unknown operations and keys are nobody's error.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

LONGEST_LINE = 64 * 1024
LARGEST_STEP = 2**53


def encode(message: Mapping[str, Any]) -> bytes:
    """One line. A detail that would make it too long is cut by whoever writes the message."""
    return json.dumps(message, separators=(",", ":")).encode() + b"\n"


def decode(line: bytes) -> dict[str, Any] | None:
    """The message of a line, or None when it is not an object with an operation."""
    try:
        message = json.loads(line)
    except (ValueError, RecursionError):
        return None
    if not isinstance(message, dict) or not isinstance(message.get("op"), str):
        return None
    return message


def whole(message: Mapping[str, Any], key: str) -> int | None:
    """A count in a message, or None when it is missing, of another type, or out of range."""
    value = message.get(key)
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= LARGEST_STEP:
        return None
    return value


class Lines:
    """Cuts a stream of bytes into messages.

    What is too long or not JSON is dropped and counted, never raised.
    """

    def __init__(self) -> None:
        self.bad = 0
        self._rest = b""
        self._skipping = False

    def feed(self, data: bytes) -> Iterator[dict[str, Any]]:
        """The messages that these bytes complete."""
        *whole_lines, self._rest = (self._rest + data).split(b"\n")
        for line in whole_lines:
            if self._skipping:
                self._skipping = False
                continue
            message = decode(line) if len(line) < LONGEST_LINE else None
            if message is not None:
                yield message
            elif line.strip():
                self.bad += 1
        if len(self._rest) >= LONGEST_LINE:
            self.bad += not self._skipping
            self._rest = b""
            self._skipping = True

    def skip(self, data: bytes) -> None:
        """Go past these bytes without reading them."""
        if data:
            self._rest = b""
            self._skipping = not data.endswith(b"\n")
