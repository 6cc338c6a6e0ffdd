"""Notes about speeds that nobody measured."""

import pytest

from builders import a_cluster, some_jobs
from rota.analysis import unmeasured
from rota.analysis.job_table import JobTable
from rota.profiles import Catalogue

SPEEDS = Catalogue(
    "c",
    {
        ("m", 1, "a", False): 1.0,
        ("m", 1, "b", False): 1.0,
        ("m", 2, "a", False): 1.0,
        ("n", 1, "b", False): 1.0,
    },
    origins={("n", 1, "b", False): "derived"},
)


def notes(rows, speeds=SPEEDS, **gpus):
    jobs = JobTable()
    jobs.add(0, some_jobs(len(rows), profiles=[name for name, _ in rows], gpus=[count for _, count in rows]))
    return unmeasured.remarks(jobs, a_cluster(**(gpus or {"a": 4, "b": 4})), speeds)


def test_nothing_is_said_where_all_was_measured():
    assert notes([("m", 1), ("m", 1)]) == []


def test_a_hole_is_named_with_profile_gpus_type_and_jobs():
    (note,) = notes([("m", 2), ("m", 1), ("m", 2)])

    assert "these jobs did not use the type: 'm' with 2 GPUs on b (2 jobs)." in note
    assert "--set-profiles scaling=" in note


def test_a_type_that_could_not_hold_the_job_is_no_hole():
    assert notes([("m", 2)], a=4, b=1) == []


def test_jobs_that_miss_every_type_were_refused_and_are_not_said_again():
    assert notes([("m", 4)]) == []


def test_derived_rates_are_told_by_type():
    hole, derived = notes([("n", 1)])

    assert "'n' with 1 GPU on a (1 job)" in hole
    assert derived == "speeds of the catalogue on b (of 1 job) are derived, not measured"


def test_estimates_are_named():
    (note,) = notes([("m", 4), ("m", 4)], SPEEDS.scaled("constant"))

    assert note == "estimated, not measured, is the speed of 'm' with 4 GPUs on a, b (2 jobs)"


def test_many_kinds_are_cut_and_counted():
    rows = [(f"p{n}", 1) for n in range(9)]
    speeds = Catalogue("c", {(f"p{n}", 1, "a", False): 1.0 for n in range(9)} | {("x", 1, "b", False): 1.0})

    (note,) = notes(rows, speeds)

    assert "and 3 more" in note


@pytest.mark.parametrize("speeds", [None, SPEEDS])
def test_no_jobs_no_notes(speeds):
    assert unmeasured.remarks(JobTable(), a_cluster(a=1), speeds) == []
