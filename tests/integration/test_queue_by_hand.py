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


ELSEWHERE = """job_id,arrival_s,gpus,duration_s,gpu_types,array,array_limit
long,0,1,10000,v100,,
m0,0,1,100,v100,A,1
m1,0,1,100,p100,A,1
"""
LOWEST = """job_id,arrival_s,gpus,duration_s,after,array,array_limit
x,0,1,500,,,
y,0,1,500,,,
m0,0,1,1000,x,A,1
m1,0,1,1000,,A,1
"""


def ends_of(tmp_path, trace, **parts):
    (tmp_path / "t.csv").write_text(trace, encoding="utf-8")
    result = rota.simulate(trace=str(tmp_path / "t.csv"), trace_settings={"elsewhere": "same"}, **parts)
    return dict(zip(result.jobs["name"].tolist(), result.jobs["finish_s"].tolist(), strict=True))


@pytest.mark.parametrize("policy", ["fifo", "las", "max-min-fairness-perf", "isolated"])
@pytest.mark.parametrize("restart_s", [0.0, 30.0])
def test_an_array_limit_counts_jobs_that_run_and_keeps_no_gpus(tmp_path, policy, restart_s):
    ends = ends_of(
        tmp_path, ELSEWHERE, cluster="v100=1/1,p100=1/1", policy=policy, rule_settings={"restart_s": restart_s}
    )

    assert ends["m1"] == pytest.approx(100.0 + restart_s)


def test_a_lower_number_of_an_array_comes_before_one_that_was_let_in_and_does_not_run(tmp_path):
    ends = ends_of(tmp_path, LOWEST, cluster="v100=2/2", policy="fifo")

    assert ends == {"x": 500.0, "y": 500.0, "m0": 1500.0, "m1": 2500.0}


def test_the_oldest_job_of_a_tenant_with_max_running_comes_first_too(tmp_path):
    trace = LOWEST.replace("array,array_limit", "tenant").replace("A,1", "a").replace(",,,", ",,b").replace("x,,", "x,")
    (tmp_path / "n.toml").write_text("[tenants.a]\nmax_running = 1\n", encoding="utf-8")

    ends = ends_of(tmp_path, trace, cluster="v100=2/2", policy="fifo", tenants=str(tmp_path / "n.toml"))

    assert ends == {"x": 500.0, "y": 500.0, "m0": 1500.0, "m1": 2500.0}


def test_a_cluster_with_an_array_may_be_empty_for_a_while(tmp_path):
    trace = "job_id,arrival_s,gpus,duration_s,array,array_limit\nm0,0,1,100,A,1\nm1,1000,1,100,A,1\n"

    ends = ends_of(tmp_path, trace, cluster="v100=2/2", policy="fifo")

    assert ends == {"m0": 100.0, "m1": 1100.0}
