"""Texts of strangers are shown, not obeyed, by a terminal and by a page."""

import re
from importlib import resources

import pytest

from rota.core.control_characters import visible, without_colours
from rota.dashboard.log_stream import _message
from rota.deploy.log_feed import Output
from rota.deploy.log_text import printable

LOOKED_AT = [*range(0x3000), *range(0xFE00, 0x10000), *range(0x1F000, 0x1F700), *range(0xE0000, 0xE0200)]


@pytest.mark.parametrize(
    "code", [0x061C, 0x180E, 0x200B, 0x200E, 0x200F, 0x202A, 0x202E, 0x2060, 0x2066, 0x2069, 0xFEFF, 0xE0041]
)
def test_what_changes_the_direction_of_text_or_is_not_seen_is_shown_by_its_number(code):
    line = f"paid {chr(code)}001 to eve"

    assert visible(line) == f"paid <U+{code:04X}>001 to eve"
    assert printable(line.encode(), colours=True).decode() == visible(line)


def test_scripts_and_emoji_stay_as_they_are():
    for text in ("مرحبا", "می‌خواهم", "שלום", "👩‍🔬 ran", "日本語", "tab\tand\nline"):
        assert visible(text) == text


def test_output_on_the_dashboard_has_no_colours_and_nothing_that_reverses_it():
    data = "\x1b[31mred\x1b[0m \u202egnihton\u202c \x1b]0;title\x07\n".encode()
    item = Output(attempt=1, rank=0, stream="o", at=1.0, data=data)

    assert _message(item)["line"] == "red <U+202E>gnihton<U+202C> ^[]0;title^G"
    assert without_colours("plain") == "plain"


def test_a_page_shows_the_same_characters_as_a_terminal():
    script = (resources.files("rota.report") / "assets" / "dom.js").read_text(encoding="utf-8")
    (found,) = re.findall(r"const UNSEEN = /(\[.*\])/gu;", script)
    on_page = re.compile(re.sub(r"\\u\{([0-9a-f]+)\}", lambda code: f"\\U{int(code[1], 16):08x}", found))

    assert [code for code in LOOKED_AT if (visible(chr(code)) != chr(code)) != bool(on_page.match(chr(code)))] == []
