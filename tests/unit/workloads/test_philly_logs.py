"""The Philly log in both of its forms; the JSON is made by hand after the description of the published log."""

import json

import numpy as np
import pytest

from rota.core.errors import OutputError, TraceError
from rota.workloads import read_trace, write_trace
from rota.workloads.synergy_models import step_seconds

CSV = """timestamp,duration,num_gpus,gpu_time,cluster
2017-10-09 07:01:55,66.0,1,66.0,b
2017-10-09 06:13:03,2951.0,8,23608.0,a
2017-10-09 06:13:03,860662.0,24,1.0,b
2017-10-08 23:59:59,0.0,1,0.0,c
2017-10-09 06:13:36,5.0,0,0.0,c
"""


def attempt(start, end, *gpus):
    """An attempt on machines with so many GPUs each."""
    detail = [{"ip": f"m{n}", "gpus": [f"gpu{g}" for g in range(count)]} for n, count in enumerate(gpus)]
    times = (None if t is None else t if t == "None" else f"2017-10-09 {t}" for t in (start, end))
    return dict(zip(("start_time", "end_time"), times, strict=True)) | {"detail": detail}


def a_job(submitted="06:00:00", *attempts, **fields):
    job = {
        "status": "Pass",
        "vc": "a",
        "jobid": "application_1",
        "user": "u",
        "submitted_time": f"2017-10-09 {submitted}",
    }
    return job | {"attempts": list(attempts)} | fields


def saved(folder, jobs, indent=None):
    path = folder / "cluster_job_log"
    path.write_text(jobs if isinstance(jobs, str) else json.dumps(jobs, indent=indent))
    return path


def csv_file(folder, text):
    path = folder / "philly.csv"
    path.write_text(text)
    return path


def test_a_csv_is_sorted_and_its_clusters_are_tenants(tmp_path):
    jobs = read_trace(csv_file(tmp_path, CSV))

    assert jobs.submitted.tolist() == [0.0, 0.0, 2932.0]
    assert jobs.duration.tolist() == [2951.0, 860662.0, 66.0]
    assert jobs.gpus.tolist() == [8, 24, 1]
    assert [jobs.tenants[t] for t in jobs.tenant] == ["a", "b", "b"]
    assert [jobs.profiles[p] for p in jobs.profile] == ["alexnet", "gnmt", "transformer"]
    assert jobs.total_steps[0] == 2951.0 / step_seconds("synergy", "alexnet")
    assert np.isinf(jobs.deadline).all()


def test_the_cluster_column_may_be_missing_and_columns_may_stand_anywhere(tmp_path):
    jobs = read_trace(csv_file(tmp_path, "num_gpus,duration,timestamp\n2,7,2017-10-09 07:01:55\n"))

    assert jobs.tenants == ("default",)
    assert (jobs.gpus[0], jobs.duration[0], jobs.submitted[0]) == (2, 7.0, 0.0)


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ("yesterday,5,1,5,a", "philly.csv:7, column timestamp: 'yesterday' is not a time"),
        ("2017-13-09 07:01:55,5,1,5,a", "column timestamp"),
        ("2017-10-09T07:01:55+01:00,5,1,5,a", "column timestamp"),
        ("2017-10-09 07:01:55,-5,1,5,a", "column duration: '-5'"),
        ("2017-10-09 07:01:55,5,1.5,5,a", "column num_gpus: '1.5'"),
        ("2017-10-09 07:01:55,5,1", "3 cells, but the header names 5"),
    ],
)
def test_a_bad_row_of_a_csv_is_named(tmp_path, row, said):
    with pytest.raises(TraceError) as caught:
        read_trace(csv_file(tmp_path, f"{CSV}{row}\n"))
    assert said in str(caught.value)


@pytest.mark.parametrize("text", [CSV.splitlines()[0], "\n".join(CSV.splitlines()[::4])])
def test_a_csv_without_jobs_that_ran_is_refused(tmp_path, text):
    with pytest.raises(TraceError, match="give at least one"):
        read_trace(csv_file(tmp_path, text))


@pytest.mark.parametrize("indent", [None, 2])
def test_attempts_of_a_json_log_are_added_up(tmp_path, indent):
    log = [
        a_job("06:10:00", attempt("06:11:00", "06:12:00", 2), attempt("07:00:00", "07:00:30", 4, 4), vc="b"),
        a_job("06:00:00", attempt("06:00:00", "06:00:05", 1)),
    ]

    jobs = read_trace(saved(tmp_path, log, indent))

    assert jobs.submitted.tolist() == [0.0, 600.0]
    assert jobs.duration.tolist() == [5.0, 90.0]
    assert jobs.gpus.tolist() == [1, 8]
    assert [jobs.tenants[t] for t in jobs.tenant] == ["a", "b"]


def test_attempts_that_do_not_count_are_left_out_and_jobs_without_others_too(tmp_path):
    log = [
        a_job("05:00:00"),
        a_job("05:00:00", attempt("None", "None", 1)),
        a_job("05:00:00", attempt("06:00:00", None, 1)),
        a_job("05:00:00", attempt("06:00:00", "06:00:00", 1)),
        a_job("05:00:00", attempt("06:00:00", "06:00:09")),
        a_job("06:00:00", attempt("06:00:00", "06:00:09", 3), attempt("06:01:00", "None", 5)),
    ]

    jobs = read_trace(saved(tmp_path, log))

    assert (jobs.submitted.tolist(), jobs.duration.tolist(), jobs.gpus.tolist()) == ([0.0], [9.0], [3])


@pytest.mark.parametrize(("fields", "tenant"), [({"vc": None}, "u"), ({"vc": "", "user": None}, "default")])
def test_the_user_is_the_tenant_where_there_is_no_virtual_cluster(tmp_path, fields, tenant):
    jobs = read_trace(saved(tmp_path, [a_job("06:00:00", attempt("06:00:00", "06:00:05", 1), **fields)]))

    assert jobs.tenants == (tenant,)


def test_a_log_on_one_very_long_line_is_recognised(tmp_path):
    log = [a_job("06:00:00", attempt("06:00:00", "06:00:05", 1), jobid="x" * 300)] * 1000

    assert len(read_trace(saved(tmp_path, log))) == 1000


@pytest.mark.parametrize(
    ("bad", "said"),
    [
        (a_job("late", attempt("06:00:00", "06:00:05", 1)), "submitted_time = '2017-10-09 late' is not a time"),
        (a_job("06:00:00", attempt("06:00:00", "soon", 1)), "end_time = '2017-10-09 soon'"),
        (a_job("06:00:00", attempts="many"), "attempts = 'many' is not a list"),
        (a_job("06:00:00", attempts=[3]), "attempt 3 is not an object"),
        (a_job("06:00:00", attempt("06:00:00", "06:00:05", 1) | {"detail": [4]}), "detail 4"),
        (a_job("06:00:00", attempt("06:00:00", "06:00:05", 1) | {"detail": [{}]}), "gpus = None is not a list"),
        (17, "17 is not an object"),
    ],
)
def test_a_bad_job_of_a_json_log_is_named_with_its_line(tmp_path, bad, said):
    good = a_job("06:00:00", attempt("06:00:00", "06:00:05", 1))
    text = "[\n" + ",\n".join(json.dumps(job) for job in (good, good, bad)) + "\n]"

    with pytest.raises(TraceError) as caught:
        read_trace(saved(tmp_path, text))

    assert f"cluster_job_log:4: job 2 of the list: {said}" in str(caught.value)


@pytest.mark.parametrize(
    ("text", "said"), [('[{"a": 1},\n{"b"', "log:2: not JSON"), ("[]", "no job of the log has run")]
)
def test_a_broken_or_empty_json_log_is_refused(tmp_path, text, said):
    with pytest.raises(TraceError, match=said):
        read_trace(saved(tmp_path, text), "philly-json")


@pytest.mark.parametrize("name", ["philly-csv", "philly-json"])
def test_logs_are_only_read(tmp_path, name):
    jobs = read_trace(csv_file(tmp_path, CSV))

    with pytest.raises(OutputError, match="only read"):
        write_trace(jobs, tmp_path / "out", name)


@pytest.mark.parametrize("to", ["csv", "synergy", "gavel"])
def test_a_log_can_become_a_trace(tmp_path, to):
    jobs = read_trace(csv_file(tmp_path, CSV))

    write_trace(jobs, tmp_path / "out", to, exact=True)
    again = read_trace(tmp_path / "out")

    assert again.total_steps.tolist() == jobs.total_steps.tolist()
    assert again.gpus.tolist() == jobs.gpus.tolist()
