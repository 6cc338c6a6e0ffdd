import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rota.core.errors import OutputError, TraceError
from rota.core.jobs import table
from rota.workloads import formats, read_trace, write_trace

TEXT = "0,alexnet,.123,3349,4\n1,gnmt,8,26435,1\n7,res50,9.5,13451,16\n"


def a_trace(folder, text, name="a.csv"):
    path = folder / name
    path.write_text(text)
    return path


def some_jobs(**columns):
    given = {"profile_names": ["m5", "lstm"], "gpus": [1, 2], "total_steps": [10.0, 20.0], "submitted": [3.0, 4.0]}
    return table(**(given | columns))


def written(jobs, folder, **how):
    write_trace(jobs, folder / "out.csv", "synergy", **how)
    return (folder / "out.csv").read_text()


def test_five_columns_are_recognised_and_jobs_are_numbered_by_order(tmp_path):
    jobs = read_trace(a_trace(tmp_path, TEXT))

    assert jobs.profiles == ("alexnet", "gnmt", "res50")
    assert jobs.submitted.tolist() == [0.123, 8.0, 9.5]
    assert jobs.total_steps.tolist() == [3349.0, 26435.0, 13451.0]
    assert jobs.gpus.tolist() == [4, 1, 16]
    assert np.isnan(jobs.duration).all()
    assert [line.split(",")[0] for line in written(jobs, tmp_path).splitlines()] == ["0", "1", "2"]


@pytest.mark.parametrize(
    "line",
    ["name,time,application,replicas,batch", "0,a,1,2", "0,a,1,2,3,4", "0\ta,b,c,d,1", "-1,a,1,2,3", "timestamp,,,,"],
)
def test_other_first_lines_are_not_synergy(line):
    assert not formats.create("synergy").recognises(line)


@pytest.mark.parametrize(
    ("submitted", "cells"),
    [([0.0, 9.0], ["0", "9"]), ([0.0, 0.001], ["0.0", "0.001"]), ([0.999, 1.0], ["0.999", "1.0"])],
)
def test_arrivals_are_written_as_the_artifact_does(tmp_path, submitted, cells):
    lines = written(some_jobs(submitted=submitted), tmp_path).splitlines()

    assert [line.split(",")[2] for line in lines] == cells


def test_steps_are_truncated_unless_exact(tmp_path):
    jobs = some_jobs(total_steps=[10.75, 20.0])

    assert written(jobs, tmp_path).splitlines()[0] == "0,m5,3,10,1"
    assert written(jobs, tmp_path, exact=True).splitlines()[0] == "0,m5,3,10.75,1"


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["m5", "ResNet 50 (x)"]), st.integers(1, 99), st.integers(1, 10**12), st.floats(0, 1e12)
        ),
        min_size=1,
        max_size=6,
    )
)
def test_what_is_written_reads_back_the_same(tmp_path_factory, drawn):
    names, gpus, steps, arrivals = zip(*drawn, strict=True)
    jobs = table(profile_names=names, gpus=gpus, total_steps=steps, submitted=sorted(arrivals))
    path = tmp_path_factory.mktemp("t") / "x.csv.gz"

    write_trace(jobs, path, "synergy")
    again = read_trace(path)

    assert again.profiles == jobs.profiles
    for column in ("profile", "gpus", "total_steps", "submitted"):
        assert getattr(again, column).tolist() == getattr(jobs, column).tolist()


@pytest.mark.parametrize("columns", [{"weight": [1.0, 2.0]}, {"slo": [np.nan, 2.0], "duration": [1.0, 1.0]}])
def test_weights_and_deadlines_are_refused(tmp_path, columns):
    with pytest.raises(OutputError, match="cannot hold weights or deadlines"):
        written(some_jobs(**columns), tmp_path)
    assert not (tmp_path / "out.csv").exists()


def test_a_name_with_a_comma_is_refused(tmp_path):
    with pytest.raises(OutputError, match="contains ','"):
        written(some_jobs(profile_names=["a,b", "c"]), tmp_path)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("1,gnmt,2,3", "a.csv:2: 4 comma-separated columns instead of 5"),
        ("x,gnmt,9,3,1", "a.csv:2, column job_id: 'x' is not a job number"),
        ("1,,9,3,1", "column model"),
        ("1,gnmt,late,3,1", "column arrival: 'late'"),
        ("1,gnmt,9,0,1", "column iterations: '0'"),
        ("1,gnmt,9,3,1.5", "column gpus: '1.5'"),
    ],
)
def test_what_is_wrong_is_said_with_its_place(tmp_path, line, said):
    with pytest.raises(TraceError) as caught:
        read_trace(a_trace(tmp_path, f"0,alexnet,8,3349,4\n{line}\n"))
    assert said in str(caught.value)
