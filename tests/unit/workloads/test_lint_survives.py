"""Whatever a file holds, lint answers: with jobs or with errors, never with a crash."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_lint import BROKEN
from test_trace_readers import FILES

from rota.core.errors import ConfigError
from rota.workloads import read_trace
from rota.workloads.lint import lint

CELLS = st.sampled_from(
    [
        "",
        " ",
        "-1",
        "0",
        "1e400",
        "nan",
        "None",
        "x",
        "é",
        "\x00",
        '"',
        "9" * 30,
        "1e308",
        "5e-324",
        "1.5",
        "|",
        ";",
        "[]",
    ]
)
SEPARATORS = {"gavel": "\t", "gavel-legacy": "\t", "sacct": "|", "swf": " ", "philly-json": ":"}
ATTEMPT = {"start_time": "2017-10-09 06:00:00", "end_time": "2017-10-09 07:00:00", "detail": [{"gpus": ["g"]}]}
GOOD = {form: FILES[form] for form in BROKEN} | {
    "philly-csv": "timestamp,duration,num_gpus,cluster\n2017-10-09 06:13:03,5,1,a\n2017-10-08 06:13:03,7.5,8,b\n",
    "philly-json": json.dumps([{"submitted_time": "2017-10-09 06:00:00", "attempts": [ATTEMPT]}] * 2, indent=0),
}


@pytest.mark.parametrize("form", GOOD)
@settings(deadline=None, max_examples=40)
@given(data=st.data())
def test_a_damaged_file_is_an_answer(tmp_path_factory, form, data):
    lines = GOOD[form].split("\n")
    between = SEPARATORS.get(form, ",")
    for _ in range(data.draw(st.integers(1, 4))):
        row = data.draw(st.integers(0, len(lines) - 1))
        cells = lines[row].split(between)
        cells[data.draw(st.integers(0, len(cells) - 1))] = data.draw(CELLS)
        lines[row] = between.join(cells)
    path = tmp_path_factory.mktemp("t") / "a.log"
    path.write_text("\n".join(lines), encoding="utf-8")

    found = lint(path, form)

    if found.error_count:
        with pytest.raises(ConfigError):
            read_trace(path, form)
    else:
        assert len(read_trace(path, form)) == found.jobs


@settings(deadline=None, max_examples=60)
@given(content=st.binary(max_size=300))
def test_any_bytes_are_an_answer(tmp_path_factory, content):
    path = tmp_path_factory.mktemp("t") / "a.log"
    path.write_bytes(content)

    try:
        found = lint(path)
    except ConfigError:
        return
    assert (found.jobs is None) == (found.error_count > 0)
