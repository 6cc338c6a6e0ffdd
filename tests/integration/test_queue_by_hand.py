"""Priorities and jobs after others, worked out by hand on a few jobs; the name of a type changes nothing."""

import csv

import pytest

from builders import command

PRIORITIES = "arrival_s,gpus,duration_s,priority\n0,1,360,0\n0,1,720,0\n0,1,360,5\n"
CHAIN = "arrival_s,gpus,duration_s,job_id,after\n0,1,360,a,\n0,1,720,b,a\n0,1,360,c,b\n"


@pytest.mark.parametrize("gpu_type", ["v100", "zz"])
@pytest.mark.parametrize(
    ("trace", "gpus", "finish_s"), [(PRIORITIES, 1, [720, 1440, 360]), (CHAIN, 4, [360, 1080, 1440])]
)
def test_jobs_end_when_a_sheet_of_paper_says(tmp_path, trace, gpus, finish_s, gpu_type):
    (tmp_path / "t.csv").write_text(trace, encoding="utf-8")
    cluster = f"{gpu_type}={gpus}"

    done = command(
        "simulate", "--trace", "t.csv", "--cluster", cluster, "--policy", "fifo", "--jobs-csv", "j.csv", cwd=tmp_path
    )

    assert done.returncode == 0, done.stderr
    with (tmp_path / "j.csv").open(encoding="utf-8", newline="") as file:
        assert [float(row["finish_s"]) for row in csv.DictReader(file)] == finish_s
