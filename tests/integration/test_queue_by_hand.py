"""Priorities and jobs after others, worked out by hand on a few jobs; the name of a type changes nothing."""

import csv

import pytest

import rota
from builders import command
from recomputation import recomputed
from rota.analysis.jobs_csv import write_jobs_csv
from rota.core.events import JobsSubmitted
from rota.engine.log import read_events

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


LIMITED = "job_id,arrival_s,gpus,duration_s,time_limit_s,after\na,0,1,1000,,\nb,0,1,9000,{limit},\nc,7000,1,100,,b\n"


@pytest.mark.parametrize(("limit_s", "makespan_s", "utilization"), [(5000, 5000, 0.6), (500, 1000, 0.75)])
def test_a_job_that_is_dropped_counts_until_it_lets_go_of_its_gpus(tmp_path, limit_s, makespan_s, utilization):
    (tmp_path / "t.csv").write_text(LIMITED.format(limit=limit_s), encoding="utf-8")

    result = rota.simulate(
        trace=str(tmp_path / "t.csv"), cluster="v100=2/2", policy="fifo", events=str(tmp_path / "e.jsonl")
    )

    write_jobs_csv(str(tmp_path / "j.csv"), result.jobs)
    again = recomputed(tmp_path / "j.csv", tmp_path / "e.jsonl")
    for summary in (result.summary, again):
        assert summary["makespan_s"] == pytest.approx(makespan_s)
        assert summary["utilization"] == pytest.approx(utilization)
        assert (summary["jobs_submitted"], summary["jobs_dropped"]) == (3, 2)


def test_jobs_that_are_kept_back_are_not_submitted_yet(tmp_path):
    (tmp_path / "t.csv").write_text("job_id,arrival_s,gpus,duration_s,after\na,0,1,1000,\nb,0,1,9,a\nc,0,1,900,\n")

    result = rota.simulate(
        trace=str(tmp_path / "t.csv"), cluster="v100=2/2", policy="fifo", until=500.0, events=str(tmp_path / "e.jsonl")
    )

    logged = sum(len(event.jobs) for event in read_events(tmp_path / "e.jsonl") if isinstance(event, JobsSubmitted))
    assert result.summary["jobs_submitted"] == logged == 2
    assert result.jobs["name"].tolist() == ["a", "c"]
    assert list(result.summary["by_weight"]) == ["1"]
