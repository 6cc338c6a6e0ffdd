import gzip
import importlib

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rota.core.errors import ConfigError, OutputError, TraceError, UnknownName
from rota.core.jobs import Jobs, Launch, table
from rota.workloads import formats, read_trace, write_trace
from rota.workloads.problems import Problems

LINE = "LM\tpython main.py %s\tlm\t--steps\t1\t100\t2\t1\t-1.000000\t0"
COLUMNS = (
    "job_type", "command", "working_directory", "num_steps_arg", "needs_data_dir", "total_steps", "scale_factor",
    "priority_weight", "SLO", "arrival_time",
)  # fmt: skip


def a_trace(folder, *lines, name="a.trace"):
    path = folder / name
    text = "".join(f"{line}\n" for line in lines)
    path.write_bytes(gzip.compress(text.encode()) if name.endswith(".gz") else text.encode())
    return path


def a_line(**cells):
    row = dict(zip(COLUMNS, LINE.split("\t"), strict=True)) | cells
    return "\t".join(row[c] for c in COLUMNS)


def as_rows(jobs: Jobs) -> list[tuple]:
    return [
        (
            jobs.profiles[jobs.profile[i]],
            jobs.gpus[i],
            jobs.total_steps[i],
            jobs.submitted[i],
            jobs.weight[i],
            None if np.isnan(jobs.slo[i]) else jobs.slo[i],
            None if np.isnan(jobs.duration[i]) else jobs.duration[i],
            jobs.tenants[jobs.tenant[i]],
            jobs.launches[jobs.launch[i]],
        )
        for i in range(len(jobs))
    ]


positive = st.floats(min_value=1e-6, max_value=1e15)
printable = st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1).filter(str.strip)
launches = st.builds(
    Launch, command=printable, working_directory=printable, steps_argument=printable, needs_data_dir=st.booleans()
)
rows = st.tuples(
    printable, st.integers(1, 4096), positive, st.floats(0, 1e12), positive, st.none() | positive, launches
)


def a_table(drawn, **columns):
    names, gpus, steps, arrivals, weights, slos, starts = zip(*drawn, strict=True)
    return table(
        profile_names=names,
        gpus=gpus,
        total_steps=steps,
        submitted=sorted(arrivals),
        weight=weights,
        slo=[np.nan if s is None else s for s in slos],
        launch=starts,
        **columns,
    )


@settings(deadline=None)
@given(st.lists(rows, min_size=1, max_size=6))
def test_ten_columns_written_exactly_read_back_the_same(tmp_path_factory, drawn):
    jobs = a_table(drawn)
    path = tmp_path_factory.mktemp("t") / "x.trace.gz"

    write_trace(jobs, path, "gavel", exact=True)

    assert as_rows(read_trace(path)) == as_rows(jobs)


@settings(deadline=None)
@given(st.lists(st.tuples(rows, positive, printable), min_size=1, max_size=6))
def test_csv_reads_back_the_same_with_durations_and_tenants(tmp_path_factory, drawn):
    jobs = a_table([r for r, _, _ in drawn], duration=[d for _, d, _ in drawn], tenant_names=[t for _, _, t in drawn])
    path = tmp_path_factory.mktemp("t") / "x.csv"

    write_trace(jobs, path, "csv")
    found = read_trace(path)

    assert as_rows(found) == as_rows(jobs)
    assert np.array_equal(found.deadline, jobs.deadline)


@settings(deadline=None)
@given(st.lists(st.tuples(printable, st.integers(1, 99), positive, st.floats(0, 1e12)), min_size=1, max_size=6))
def test_seven_columns_written_exactly_read_back_the_same(tmp_path_factory, drawn):
    names, gpus, steps, arrivals = zip(*drawn, strict=True)
    start = Launch("python3 main.py", "rl", "-n", needs_data_dir=True)
    jobs = table(
        profile_names=names, gpus=gpus, total_steps=steps, submitted=sorted(arrivals), launch=[start] * len(names)
    )
    path = tmp_path_factory.mktemp("t") / "x.trace"

    write_trace(jobs, path, "gavel-legacy", exact=True)

    assert as_rows(read_trace(path)) == as_rows(jobs)


def test_the_known_formats_are_listed():
    assert formats.names() == [
        "columns", "csv", "elasticflow", "gavel", "gavel-legacy", "helios", "openb", "parquet", "philly-csv",
        "philly-json", "sacct", "sia", "swf", "synergy",
    ]  # fmt: skip


@pytest.mark.parametrize("name", ["a.trace", "a.trace.gz"])
def test_ten_columns_become_a_table(tmp_path, name):
    lines = [a_line(), a_line(total_steps="7.25", SLO="2.0", priority_weight="5", arrival_time="3.5")]

    jobs = read_trace(a_trace(tmp_path, *lines, name=name))

    assert jobs.profiles == ("LM",)
    assert jobs.total_steps.tolist() == [100.0, 7.25]
    assert jobs.gpus.tolist() == [2, 2]
    assert jobs.weight.tolist() == [1.0, 5.0]
    assert jobs.submitted.tolist() == [0.0, 3.5]
    assert np.isnan(jobs.slo[0])
    assert jobs.slo[1] == 2.0
    assert np.isnan(jobs.duration).all()
    assert jobs.launches == (Launch("python main.py %s", "lm", "--steps", needs_data_dir=True),)


def test_line_ends_of_windows_and_blank_lines_are_accepted(tmp_path):
    path = tmp_path / "a.trace"
    path.write_bytes(f"{a_line()}\r\n\r\n{a_line()}\r\n\n".encode())

    assert len(read_trace(path)) == 2


def test_the_seven_columns_keep_the_directory_apart_from_the_command(tmp_path):
    line = "LM\tcd %s/gpusched/workloads/pytorch/lm && python main.py %s/data\t--steps\t1\t10\t6.000000\t4"

    jobs = read_trace(a_trace(tmp_path, line))

    assert jobs.launches[0].working_directory == "lm"
    assert jobs.launches[0].command == "python main.py %s/data"
    assert (jobs.submitted[0], jobs.gpus[0], jobs.weight[0]) == (6.0, 4, 1.0)


def test_a_csv_with_only_the_needed_columns_and_extra_ones_is_enough(tmp_path):
    text = ["profile,arrival_s,gpus,duration_s,colour", "LM,0,1,60,red", '"a, b",5.5,2,30,blue']

    jobs = read_trace(a_trace(tmp_path, *text, name="a.csv"))

    assert jobs.profiles == ("LM", "a, b")
    assert jobs.duration.tolist() == [60.0, 30.0]
    assert np.isnan(jobs.total_steps).all()
    assert jobs.weight.tolist() == [1.0, 1.0]
    assert jobs.tenants == ("default",)


def test_empty_cells_of_a_csv_mean_the_default(tmp_path):
    text = ["profile,arrival_s,gpus,steps,duration_s,weight,slo,tenant", "LM,0,1,5,,,,", "LM,0,1,,9,2,1.5,ml"]

    jobs = read_trace(a_trace(tmp_path, *text, name="a.csv"))

    assert jobs.weight.tolist() == [1.0, 2.0]
    assert jobs.deadline.tolist() == [np.inf, 13.5]
    assert jobs.tenants == ("default", "ml")
    assert np.isnan([jobs.duration[0], jobs.total_steps[1]]).all()


@pytest.mark.parametrize(
    ("column", "value", "message"),
    [
        ("total_steps", "0", "'0' is not a number of steps; give a number > 0"),
        ("total_steps", "-5", "'-5' is not a number of steps"),
        ("total_steps", "many", "'many'"),
        ("total_steps", "nan", "'nan'"),
        ("total_steps", "1e999", "'1e999'"),
        ("scale_factor", "0", "'0' is not a number of GPUs; give a whole number >= 1"),
        ("scale_factor", "1.5", "'1.5'"),
        ("scale_factor", "-1", "'-1'"),
        ("scale_factor", "99999999999999999999", "'99999999999999999999'"),
        ("arrival_time", "-1", "'-1' is not an arrival; give seconds >= 0"),
        ("arrival_time", "noon", "'noon'"),
        ("arrival_time", "nan", "'nan'"),
        ("arrival_time", "inf", "'inf'"),
        ("priority_weight", "0", "'0' is not a weight"),
        ("SLO", "0", "'0' is not a deadline"),
        ("SLO", "nan", "'nan' is not a deadline"),
        ("needs_data_dir", "yes", "'yes' is not 0 or 1"),
        ("job_type", " ", "' ' is not a name"),
    ],
)
def test_a_bad_cell_is_named_with_file_line_column_and_value(tmp_path, column, value, message):
    path = a_trace(tmp_path, a_line(), a_line(), a_line(**{column: value}))

    with pytest.raises(TraceError) as raised:
        read_trace(path)

    assert str(raised.value).startswith(f"{path}:3, column {column}: ")
    assert message in str(raised.value)
    assert (raised.value.line, raised.value.column) == (3, column)


def test_arrivals_that_go_back_are_sorted_and_told(tmp_path):
    path = a_trace(tmp_path, a_line(arrival_time="5"), "", a_line(arrival_time="4"))
    problems = Problems(str(path))

    jobs = read_trace(path, problems=problems)

    assert jobs.submitted.tolist() == [4.0, 5.0]
    assert jobs.names.tolist() == ["1", "0"]
    assert [(r.line, r.message) for r in problems.remarks] == [
        (3, "1 of 2 lines arrive before the line above them; jobs are taken in order of arrival")
    ]


def test_a_line_with_another_number_of_columns_is_refused(tmp_path):
    path = a_trace(tmp_path, a_line(), LINE.rsplit("\t", 1)[0])

    with pytest.raises(TraceError, match=r"a\.trace:2: 9 tab-separated columns instead of 10; needed are job_type"):
        read_trace(path)


@pytest.mark.parametrize("form", [None, "gavel", "gavel-legacy", "csv"])
def test_an_empty_trace_is_refused(tmp_path, form):
    with pytest.raises(TraceError, match=r"a\.trace:1: the trace (has no jobs|is empty)"):
        read_trace(a_trace(tmp_path, "", "  "), form)


def test_a_text_in_no_known_format_is_refused_with_what_to_do(tmp_path):
    with pytest.raises(
        TraceError, match=r"'hello, world' is the first line of no known format \(columns, csv, elasticflow"
    ):
        read_trace(a_trace(tmp_path, "hello, world"))


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (["profile,arrival_s,gpu,steps", "a,0,1,1"], "1: the header has no column 'gpus'; is it 'gpu'?"),
        (["profile,arrival_s,gpus", "a,0,1"], "1: the header has neither 'steps' nor 'duration_s'"),
        (["profile,arrival_s,gpus,steps"], "1: the trace has a header but no jobs"),
        (["profile,arrival_s,gpus,steps,steps", "a,0,1,1,1"], "column 'steps' stands twice"),
        (["profile,arrival_s,gpus,steps", "a,0,1"], "2: 3 cells, but the header names 4 columns"),
        (["profile,arrival_s,gpus,steps", "a,0,1,"], "2: neither steps nor duration_s is given"),
        (["profile,arrival_s,gpus,duration_s", "a,0,1,-3"], "2, column duration_s: '-3' is not a duration"),
        (["job_id,profile,arrival_s,gpus,steps", "7,a,0,1,1", "7,a,0,1,1"], "3, column job_id: '7' is also on line 2"),
    ],
)
def test_a_csv_with_something_wrong_is_refused(tmp_path, lines, message):
    with pytest.raises(TraceError) as raised:
        read_trace(a_trace(tmp_path, *lines, name="a.csv"))

    assert message in str(raised.value)


def test_files_that_cannot_be_read_are_reported(tmp_path):
    broken = tmp_path / "broken.gz"
    broken.write_bytes(gzip.compress(b"x" * 100)[:20])

    for path in (tmp_path / "nowhere.trace", tmp_path, broken):
        with pytest.raises(ConfigError, match="cannot read trace"):
            read_trace(path)


def test_an_unknown_format_is_answered_with_the_nearest(tmp_path):
    with pytest.raises(UnknownName, match="did you mean 'gavel'"):
        read_trace(a_trace(tmp_path, a_line()), "gavle")


def some_jobs(**columns):
    return table(**{"profile_names": ["LM"], "gpus": [1], "total_steps": [10.75], "submitted": [0.5]} | columns)


def test_steps_are_truncated_unless_exactness_is_asked_for(tmp_path):
    write_trace(some_jobs(), tmp_path / "short.trace", "gavel")
    write_trace(some_jobs(), tmp_path / "exact.trace", "gavel", exact=True)

    assert (tmp_path / "short.trace").read_text() == "LM\t\t\t\t0\t10\t1\t1\t-1.000000\t0.5\n"
    assert (tmp_path / "exact.trace").read_text() == "LM\t\t\t\t0\t10.75\t1\t1\t-1.000000\t0.5\n"


def test_the_same_jobs_give_the_same_compressed_bytes(tmp_path):
    for name in ("a.gz", "b.gz"):
        write_trace(some_jobs(), tmp_path / name, "gavel")

    assert (tmp_path / "a.gz").read_bytes() == (tmp_path / "b.gz").read_bytes()


@pytest.mark.parametrize(
    ("jobs", "form", "message"),
    [
        (some_jobs(weight=[0.5]), "gavel", "weight 0.5 would be truncated to 0; write with exact=True"),
        (some_jobs(total_steps=[np.nan]), "gavel", "steps is unknown"),
        (some_jobs(profile_names=["a\tb"]), "gavel", r"contains '\\t'"),
        (some_jobs(profile_names=["a\nb"]), "csv", r"contains '\\n'"),
        (some_jobs(weight=[5.0]), "gavel-legacy", "cannot hold weights or deadlines"),
    ],
)
def test_what_a_format_cannot_hold_is_refused_and_nothing_is_left_behind(tmp_path, jobs, form, message):
    with pytest.raises(OutputError, match=message):
        write_trace(jobs, tmp_path / "a.trace", form)

    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_does_not_exist_is_reported(tmp_path):
    with pytest.raises(OutputError, match="cannot write trace"):
        write_trace(some_jobs(), tmp_path / "no" / "a.trace", "gavel")


def test_a_failed_write_leaves_the_old_file_and_no_other(tmp_path):
    (tmp_path / "a.trace").mkdir()

    with pytest.raises(OutputError, match="cannot write trace"):
        write_trace(some_jobs(), tmp_path / "a.trace", "gavel")

    assert [p.name for p in tmp_path.iterdir()] == ["a.trace"]


def test_the_table_of_formats_keeps_its_name_after_the_formats_are_imported():
    formats.names()

    assert importlib.import_module("rota.workloads").formats is formats
