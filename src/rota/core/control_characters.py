"""Texts of strangers on a terminal: shown, not obeyed.

Escape codes begin with a control character. With them a text can change the title of a window, hide lines, or write
what a user seems to type. So each is shown as `^[` and the like. What changes the direction of text, or is not seen at
all, is shown as `<U+202E>`; the joiners that scripts and emoji need stay.
"""

from __future__ import annotations

import re

_CONTROL = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb"
    "\U000e0000-\U000e007f]"
)
"""All but tab and line feed; `shown` in `report/assets/dom.js` is about the same ones."""
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


def without_colours(text: str) -> str:
    """A text to be shown where nothing understands codes for colours: they are left out, all else is visible."""
    return text if text.isprintable() else visible(_COLOUR.sub("", text))


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
