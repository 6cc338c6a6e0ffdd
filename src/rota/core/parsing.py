"""TOML and JSON that somebody else wrote: a value that can be used, or ValueError with one sentence.

The parsers of the standard library let more through than a reader wants to think of: numbers with thousands of digits
(which Python refuses to print), nesting that ends in RecursionError where somebody shows it, halves of characters that
no terminal and no database takes. All of it is refused here. Standard library only, so that agents may use it.
"""

from __future__ import annotations

import json
import sys
from typing import Any

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

DEEPEST = 64
"""Levels of tables and lists within each other."""
MOST_BITS = 1023
"""Of a whole number: every such number is also a float."""


def is_count(text: str, digits: int = 18) -> bool:
    """Whether a text is a whole number from 0 on that fits into 64 bits (or has at most so many digits)."""
    return text.isdecimal() and len(text) <= digits


def parse_toml(text: str) -> dict[str, Any]:
    """The document of a TOML file. Raises ValueError."""
    try:
        document = tomllib.loads(text)
    except RecursionError:
        raise _too_deep() from None
    except tomllib.TOMLDecodeError:
        raise
    except ValueError:  # Python reads no longer ones
        raise ValueError("a whole number has thousands of digits") from None
    _check(document)
    return document


def parse_json(text: str | bytes) -> Any:
    """The value of a JSON document. Raises ValueError."""
    value = parse_json_line(text)
    _check(value)
    return value


def parse_json_line(text: str | bytes, *, constants: bool = True) -> Any:
    """The same for a line of many, as fast as can be: nesting is limited by the parser alone. Raises ValueError.

    Without `constants`, NaN and Infinity are refused.
    """
    text = text.decode("utf-8-sig") if isinstance(text, bytes) else text
    try:
        value = json.loads(text, parse_constant=None if constants else _no_constant)
    except _Constant as error:
        raise ValueError(str(error)) from None
    except RecursionError:
        raise _too_deep() from None
    except json.JSONDecodeError:
        raise
    except ValueError:  # Python reads no longer ones
        raise ValueError("a whole number has thousands of digits") from None
    if _may_have_halves(text) and not _whole_characters(value):
        raise ValueError("a text holds half of a character (a lone surrogate)")
    return value


class _Constant(Exception):
    """NaN or an infinity in a document that may not have them."""


def _no_constant(name: str) -> None:
    raise _Constant(f"{name} is no number")


def _may_have_halves(text: str) -> bool:
    """What was decoded from bytes has them only as escapes."""
    return "\\ud" in text or "\\uD" in text


def _whole_characters(value: Any) -> bool:
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except (UnicodeEncodeError, RecursionError):
        return False
    return True


def _check(document: Any) -> None:
    """Look at everything once, level by level."""
    level = [document]
    for _ in range(DEEPEST):
        inner: list[Any] = []
        for value in level:
            if isinstance(value, dict):
                inner += value.values()
            elif isinstance(value, list):
                inner += value
            elif isinstance(value, int) and value.bit_length() > MOST_BITS:
                raise ValueError(f"a whole number has {value.bit_length():,} bits; at most {MOST_BITS:,} are read")
        if not inner:
            return
        level = inner
    raise _too_deep()


def _too_deep() -> ValueError:
    return ValueError(f"tables and lists are nested more than {DEEPEST} levels deep")
