"""Texts of strangers on a terminal: shown, not obeyed.

Escape codes begin with a control character. With them a text can change the title of a window, hide lines, or write
what a user seems to type. So each is shown as `^[` and the like, and so is what changes the direction of text.
"""

from __future__ import annotations

import re

_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")
"""All but tab and line feed."""
_COLOUR = re.compile("\x1b\\[[0-9;:]{0,32}m")
"""Codes that change colour and weight of the characters behind them, and nothing else."""
_COLOUR_OR_CONTROL = re.compile(f"{_COLOUR.pattern}|{_CONTROL.pattern}")
_FIRST_PRINTABLE = 0x20
_DELETE = 0x7F
NO_COLOUR = "\x1b[0m"
"""Ends what codes for colours began."""


def visible(text: str, *, colours: bool = False) -> str:
    """A text in which a terminal finds nothing to obey; tabs and line feeds stay, with `colours` those too."""
    if text.isprintable():
        return text
    return (_COLOUR_OR_CONTROL if colours else _CONTROL).sub(_shown, text)


def has_colours(text: str) -> bool:
    """Whether there are codes for colours in a text."""
    return _COLOUR.search(text) is not None


def _shown(found: re.Match[str]) -> str:
    if len(found[0]) > 1:
        return found[0]
    code = ord(found[0])
    if code < _FIRST_PRINTABLE:
        return f"^{chr(code + 64)}"
    return "^?" if code == _DELETE else f"<U+{code:04X}>"
