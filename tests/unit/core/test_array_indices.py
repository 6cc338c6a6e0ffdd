"""Texts that stand for job arrays."""

import pytest

from rota.core.errors import ConfigError
from rota.core.job_arrays import array_environment, array_indices, array_size
from rota.core.job_spec import JobSpec, spec_from, spec_values


@pytest.mark.parametrize(
    ("text", "indices", "limit"),
    [
        ("0-3", [0, 1, 2, 3], 0),
        ("1-7:3", [1, 4, 7], 0),
        ("0-9%2", list(range(10)), 2),
        ("2-9:4%1", [2, 6], 1),
        ("5-5", [5], 0),
    ],
)
def test_a_range_has_a_step_and_a_limit(text, indices, limit):
    found = array_indices(text)

    assert list(found.indices) == indices
    assert found.limit == limit


@pytest.mark.parametrize(
    "text", ["", "3", "0-", "-3", "5-2", "0-9:0", "0-9%0", "0-9%-1", "0-9:1.5", "0-9%nan", "0-99999999999", "0-10000",
             "1e3-2", "\u0660-\u0669", " 0-3", "0-3 ", "0-3%2:1"],
)  # fmt: skip
def test_anything_else_is_refused_with_the_text_and_what_to_give(text):
    with pytest.raises(ConfigError, match=r"array is .*; (give|an array has)|which is"):
        array_indices(text)


def test_a_job_finds_its_index_in_its_environment():
    found = array_environment("2-8:3%1", array=40, job=41)

    assert found["ROTA_ARRAY_INDEX"] == "5"
    assert found["ROTA_ARRAY_JOB"] == "40"
    assert found["ROTA_ARRAY_SIZE"] == "3"
    assert (found["ROTA_ARRAY_FIRST"], found["ROTA_ARRAY_LAST"], found["ROTA_ARRAY_STEP"]) == ("2", "8", "3")


def test_a_submission_without_an_array_is_one_job():
    assert array_size("") == 1


def test_a_job_with_a_bad_array_is_refused_by_name():
    with pytest.raises(ConfigError, match="job 'sweep': array is '9-0'"):
        JobSpec(name="sweep", argv=("x",), array="9-0")


@pytest.mark.parametrize("value", [["1"], "1", [1.0], [True], [None], [2**60]])
def test_numbers_of_jobs_before_are_whole_numbers(value):
    with pytest.raises(ConfigError, match=r"after (is|has)"):
        spec_from({"argv": ["x"], "after": value})


def test_more_jobs_before_than_anybody_needs_are_refused():
    with pytest.raises(ConfigError, match="after_any has 1,001 jobs; give at most 1,000, or a job array instead"):
        spec_from({"argv": ["x"], "after_any": list(range(1001))})


def test_the_new_fields_go_through_plain_values():
    spec = spec_from({"argv": ["x"], "after": [3, -1], "after_any": [4], "array": "0-1", "hold": True})

    assert spec_from(spec_values(spec)) == spec
