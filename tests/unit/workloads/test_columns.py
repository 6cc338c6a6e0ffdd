"""Any table by a mapping of its columns: what it means, and what is said about what it cannot mean."""

import numpy as np
import pytest

from rota.core.errors import ConfigError, TraceError
from rota.workloads import read_trace
from rota.workloads.lint import lint
from rota.workloads.problems import Problems

USUAL = "job_id:JobID,arrival:submit,duration:runtime_min*60,gpus:ngpu"
HEADER = "JobID,submit,runtime_min,ngpu"


def a_file(folder, text, name="own.csv"):
    path = folder / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def read(folder, text, columns=USUAL, problems=None, **settings):
    return read_trace(a_file(folder, text), settings={"columns": columns, **settings}, problems=problems)


def test_a_table_is_read_by_what_its_columns_are_said_to_mean(tmp_path):
    jobs = read(tmp_path, f"{HEADER}\nx,1700000060,2,4\ny,1700000000,0.5,1\n")

    assert jobs.names.tolist() == ["y", "x"]
    assert jobs.submitted.tolist() == [0.0, 60.0]
    assert jobs.duration.tolist() == jobs.total_steps.tolist() == [30.0, 120.0]
    assert jobs.gpus.tolist() == [1, 4]
    assert jobs.profiles == ("recorded",)


@pytest.mark.parametrize(
    "cells",
    [
        ("2026-03-01 10:00:00", "2026-03-01 10:01:00.5"),
        ("2026-03-01T10:00", "2026-03-01T10:01:00.500"),
        ("2026-03-01T10:00:00Z", "2026-03-01T11:01:00.5+01:00"),
        ("2026-03-01 10:00:00 UTC", "2026-03-01 04:31:00.5-0530"),
        ("1772359200", "2026-03-01T10:01:00.5Z"),
    ],
)
def test_times_are_read_as_people_write_them(tmp_path, cells):
    first, second = cells

    jobs = read(tmp_path, f"{HEADER}\na,{first},1,1\nb,{second},1,1\n")

    assert jobs.submitted.tolist() == [0.0, 60.5]


def test_another_form_of_times_can_be_given(tmp_path):
    jobs = read(tmp_path, f"{HEADER}\na,31.12.2025 23:59,1,1\nb,01.01.2026 00:01,1,1\n", time_format="%d.%m.%Y %H:%M")

    assert jobs.submitted.tolist() == [0.0, 120.0]


def test_a_duration_may_be_the_difference_of_two_times_or_hours_and_minutes(tmp_path):
    text = "at,gpu-count,began,over,took\n0,1,2026-01-01 00:00,2026-01-01 01:00,1-00:00:01\n5,2,None,,00:00:30\n"

    between = read(tmp_path, text, "arrival:at,gpus:gpu-count,duration:over-began")
    also = read(tmp_path, text, "arrival:at,gpus:gpu-count,start:began,end:over")
    took = read(tmp_path, text, "arrival:at,gpus:gpu-count,duration:took")

    assert between.duration.tolist() == also.duration.tolist() == [3600.0]
    assert took.duration.tolist() == [86401.0, 30.0]


@pytest.mark.parametrize("separator", [",", ";", "\t", "|"])
@pytest.mark.parametrize(("start", "end"), [(b"", "\n"), (b"\xef\xbb\xbf", "\r\n")])
def test_separators_line_ends_and_byte_order_marks_do_not_matter(tmp_path, separator, start, end):
    lines = [
        HEADER.replace(",", separator),
        separator.join(("a", "5", "1", "2")),
        "",
        separator.join(("b", "6", "1", "2")),
    ]

    jobs = read(tmp_path, start + end.join(lines).encode())

    assert jobs.names.tolist() == ["a", "b"]
    assert jobs.gpus.tolist() == [2, 2]


def test_quoted_cells_and_names_with_signs_in_them_are_found(tmp_path):
    text = '"Submit, UTC","GPU*hours","n/gpu",id\n"1","2","4","a ""b"", c"\n'

    jobs = read(tmp_path, text, '"arrival:Submit, UTC",duration:GPU*hours*3600,gpus:n/gpu,job_id:id')

    assert jobs.names.tolist() == ['a "b", c']
    assert jobs.duration.tolist() == [7200.0]
    assert jobs.gpus.tolist() == [4]


def test_lines_without_gpus_or_time_are_left_out_and_parts_of_gpus_rounded_up(tmp_path):
    problems = Problems("own.csv")
    text = f"{HEADER}\na,0,1,0\nb,0,1,\nc,0,,1\nd,0,0,1\ne,5,1,0.25\nf,6,1,2\n"

    whole = read(tmp_path, text, problems=problems)
    dropped = read(tmp_path, text, fractions="drop")

    assert whole.names.tolist() == ["e", "f"]
    assert whole.gpus.tolist() == [1, 2]
    assert dropped.names.tolist() == ["f"]
    assert [(r.line, r.message) for r in problems.remarks] == [
        (2, "2 of 6 lines have no GPUs and are left out"),
        (6, "1 jobs ask for a part of a GPU, which is rounded up to a whole one; fractions=drop leaves them out"),
        (4, "2 of 6 lines have not run, or not ended and are left out"),
    ]


def test_models_that_a_catalogue_has_are_scaled_and_others_replayed(tmp_path):
    problems = Problems("own.csv")
    columns = "arrival:at,duration:s,gpus:n,model:what,gpu_type:on"
    text = "at,s,n,what,on\n0,60,1,res50,v100\n1,60,1,our-model,h100\n"

    jobs = read(tmp_path, text, columns, problems)

    assert [jobs.profiles[p] for p in jobs.profile] == ["res50", "recorded"]
    assert jobs.gpu_types.allowed_sets() == [(), ("h100",)]
    assert "1 model is not in the catalogue, e.g. 'our-model'" in problems.remarks[0].what


def test_models_of_any_built_in_catalogue_are_found_and_none_is_no_model(tmp_path):
    problems = Problems("own.csv")
    columns = "arrival:at,duration:s,gpus:n,model:what,gpu_type:on"
    text = "at,s,n,what,on\n0,60,1,ssd (100 images),h100\n1,60,1,,h100\n2,60,0,our-model,h100\n"

    jobs = read(tmp_path, text, columns, problems)

    assert [jobs.profiles[p] for p in jobs.profile] == ["ssd (100 images)", "recorded"]
    assert not any("catalogue" in r.what for r in problems.remarks)


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ("arrival:submit,duration:runtime_min", "columns does not say where gpus is; give e.g. columns="),
        ("arrival:submit,gpus:ngpu", "columns does not say where duration is"),
        ("arival:submit", "'arival'; did you mean 'arrival'"),
        ("arrival:submit,arrival_s:submit", "'arrival_s' is given twice"),
        ("arrival", "'arrival' names no column; give e.g. columns="),
        (
            USUAL.replace(":submit", ":sumbit"),
            "own.csv:1: columns: there is no column 'sumbit' for arrival; did you mean 's",
        ),
        (USUAL.replace("*60", "*0"), "'0' in 'runtime_min[*]0' is no factor; give a number > 0"),
        (USUAL.replace(":submit", ":submit-ngpu"), "an arrival is a column"),
    ],
)
def test_a_mapping_that_cannot_be_used_says_what_to_give(tmp_path, columns, message):
    with pytest.raises(ConfigError, match=message):
        read(tmp_path, f"{HEADER}\na,0,1,1\n", columns)


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ("a,yesterday,1,1", "own.csv:3, column submit: 'yesterday' is not a time; write it as 2026-01-31 07:05:09"),
        ("a,-5,1,1", "own.csv:3, column submit: '-5' is not a time"),
        ("a,2026-02-30 00:00:00,1,1", "column submit: '2026-02-30 00:00:00' is not a time"),
        ("a,5,-1,1", "own.csv:3, column runtime_min: '-1' is not a duration; give seconds >= 0"),
        ("a,5,nan,1", "column runtime_min: 'nan' is not a duration"),
        ("a,5,2026-01-01 00:00:00,1", "write duration:end-start with the columns of both times"),
        ("a,5,1,two", "own.csv:3, column ngpu: 'two' is not a number of GPUs"),
        ("a,5,1", "own.csv:3: 3 cells, but the header names 4 columns"),
        ("a,2026-01-01 00:00:00,1,1", "is not like the times above; give all of them a zone"),
    ],
)
def test_a_cell_that_cannot_be_read_is_named(tmp_path, row, message):
    path = a_file(tmp_path, f"{HEADER}\nfirst,0,1,1\n{row}\n")

    with pytest.raises(TraceError, match=message):
        read_trace(path, settings={"columns": USUAL})
    assert lint(path, settings={"columns": USUAL}).error_count == 1


def test_a_table_of_which_nobody_says_what_it_means_is_told_how_to_say_it(tmp_path):
    with pytest.raises(TraceError, match=r"say what its columns mean, e\.g\. --set-trace columns=arrival:submit"):
        read_trace(a_file(tmp_path, f"{HEADER}\na,0,1,1\n"))


def test_the_same_name_twice_becomes_two_jobs_and_is_told(tmp_path):
    problems = Problems("own.csv")

    jobs = read(tmp_path, f"{HEADER}\na,0,1,1\na,5,1,1\n,6,1,1\n", problems=problems)

    assert jobs.names.tolist() == ["a", "a#2", "line-4"]
    assert problems.remarks[0].what == "1 lines have the JobID of an earlier one"


def test_types_and_partitions_of_a_table(tmp_path):
    text = "at,s,n,part,want\n0,60,1,big,\n1,60,1,old,\n2,60,1,big,b|a\n3,60,1,none,\n"
    columns = "arrival:at,duration:s,gpus:n,partition:part,gpu_types:want"

    jobs = read(tmp_path, text, columns, partitions="big:a100,old:p100|v100")

    assert jobs.gpu_types.allowed_sets() == [("a100",), ("p100", "v100"), ("a", "b"), ()]
    assert jobs.gpu_types.recorded_names() == ["a100", "", "", ""]
    assert not np.isnan(jobs.total_steps).any()
