"""TOML and JSON that somebody else wrote are values that can be shown, stored and compared, or an error."""

import pytest

from rota.core.parsing import DEEPEST, parse_json, parse_json_line, parse_toml


@pytest.mark.parametrize(
    ("parse", "text", "says"),
    [
        (parse_toml, f"a = {'9' * 5000}", "thousands of digits"),
        (parse_toml, f"a = 0x{'f' * 5000}", "20,000 bits"),
        (parse_toml, f"a = {'[' * 5000}", "nested more than 64 levels"),
        (parse_toml, f"{'a.' * 100}a = 1", "nested more than 64 levels"),
        (parse_toml, 'a = "\\ud800"', "Unicode scalar"),
        (parse_json, '{"a": ' + "9" * 5000 + "}", "thousands of digits"),
        (parse_json, '{"a": ' + "9" * 400 + "}", "1,329 bits"),
        (parse_json, "[" * 100_000, "nested more than 64 levels"),
        (parse_json, "[" * (DEEPEST + 1) + "]" * (DEEPEST + 1), "nested more than 64 levels"),
        (parse_json, '{"a": "\\ud800"}', "half of a character"),
        (parse_json, '{"\\uDFFF": 1}', "half of a character"),
        (parse_json, b"\xff\xfe", "decode"),
        (parse_json_line, "[" * 100_000, "nested more than 64 levels"),
        (parse_json_line, '"\\ud800"', "half of a character"),
    ],
)
def test_what_could_not_be_used_later_is_refused_at_once(parse, text, says):
    with pytest.raises(ValueError, match=says):
        parse(text)


def test_ordinary_documents_are_read_as_they_are():
    assert parse_toml('a = 1\n[b]\nc = ["é", 1.5]') == {"a": 1, "b": {"c": ["é", 1.5]}}
    assert parse_json('{"a": [1, "\\ud83d\\ude00", null]}') == {"a": [1, "😀", None]}
    assert parse_json("1" + "0" * 300) == 10**300
