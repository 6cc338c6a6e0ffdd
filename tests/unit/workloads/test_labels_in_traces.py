"""Types that a job excludes and labels that it asks for, in traces, cluster files and simulations."""

import numpy as np
import pytest

import rota
from rota import clusters, profiles, workloads
from rota.core.cluster import cluster_from
from rota.core.errors import ConfigError, TraceError
from rota.core.events import JobsRejected, Planned, RunStarted
from rota.engine.log import read_events
from rota.workloads.registry import formats

HEADER = "arrival_s,profile,gpus,steps,gpu_types,labels,memory_gb\n"
LM = "LM (batch size 20)"
CLUSTER = """
[[server]]
type = "v100"
gpus = 2
memory_gb = 64
labels = ["zone=a"]
[[server]]
type = "p100"
gpus = 2
memory_gb = 128
labels = ["zone=b", "disk=ssd"]
[[server]]
type = "k80"
gpus = 2
memory_gb = 64
"""


def a_trace(tmp_path, *lines):
    path = tmp_path / "jobs.csv"
    path.write_text(HEADER + "".join(f"{line}\n" for line in lines))
    return path


def test_a_trace_with_labels_and_types_is_written_as_it_was_read(tmp_path):
    path = a_trace(tmp_path, f"0,{LM},1,1000,!k80,zone=a|disk=ssd,", f"1,{LM},1,1000,p100|v100,,40")

    jobs = workloads.read_trace(str(path))
    (tmp_path / "again.csv").write_text("".join(formats.create("csv").write(jobs, exact=True)))
    again = workloads.read_trace(str(tmp_path / "again.csv"))

    assert list(jobs.allowed_types()) == list(again.allowed_types()) == [("!k80",), ("p100", "v100")]
    assert [needs.labels for needs in again.needs()] == [("disk=ssd", "zone=a"), ()]
    assert [needs.memory_gb for needs in again.needs()] == [0.0, 40.0]


@pytest.mark.parametrize(("types", "where"), [("!v100", ""), ("!v100|k80", "k80"), ("k80", "k80"), ("k80|p100", "")])
def test_a_duration_is_about_the_only_type_that_a_job_names_never_about_one_that_it_excludes(tmp_path, types, where):
    path = tmp_path / "jobs.csv"
    path.write_text(f"arrival_s,profile,gpus,duration_s,gpu_types\n0,{LM},1,600,{types}\n0,,1,600,{types}\n")

    jobs = workloads.read_trace(str(path))

    assert jobs.gpu_types.recorded_names() == [where, where]
    assert next(iter(jobs.allowed_types())) == tuple(sorted(types.split("|")))
    known = workloads.with_durations(jobs, profiles.load("gavel"))
    assert known.total_steps[0] == pytest.approx(600 * profiles.load("gavel").rate(LM, 1, where or "v100"))


@pytest.mark.parametrize("label", ["zone", "zone=a b", "=x"])
def test_a_label_that_cannot_be_is_refused_with_its_line(tmp_path, label):
    path = a_trace(tmp_path, f"0,{LM},1,1000,,,", f"1,{LM},1,1000,,{label},")

    with pytest.raises(TraceError, match=r"jobs\.csv:3.*is not NAME=VALUE"):
        workloads.read_trace(str(path))


def test_simulated_jobs_run_only_where_they_may(tmp_path):
    path = a_trace(
        tmp_path,
        *(f"{n},{LM},1,20000,!v100,," for n in range(3)),
        *(f"{n},{LM},1,20000,,zone=b," for n in range(3, 6)),
        *(f"{n},{LM},1,20000,,," for n in range(6, 9)),
        f"9,{LM},1,1000,,zone=c,",
    )
    (tmp_path / "cluster.toml").write_text(CLUSTER)

    rota.simulate(trace=path, cluster=tmp_path / "cluster.toml", policy="las", seed=0, events=tmp_path / "run.jsonl")
    events = list(read_events(tmp_path / "run.jsonl"))

    cluster = next(cluster_from(event.config["cluster"]) for event in events if isinstance(event, RunStarted))
    seen = set()
    for event in events:
        if isinstance(event, Planned):
            placement = event.plan.placement
            pairs = zip(placement.first[placement.task_of_slot].tolist(), placement.slot_server.tolist(), strict=True)
            seen |= {(job, cluster.ordered[server].type) for job, server in pairs}
    assert {job for job, _ in seen} == set(range(9))
    assert not {("v100") for job, gpu_type in seen if job < 3 and gpu_type == "v100"}
    assert {gpu_type for job, gpu_type in seen if 3 <= job < 6} == {"p100"}
    (refused,) = [event for event in events if isinstance(event, JobsRejected)]
    assert "on servers with zone=c; no such server is there" in refused.reason


@pytest.mark.parametrize("labels", ['"zone=a"', '["zone"]', "[1]", '["a=b c"]'])
def test_a_cluster_file_with_labels_that_cannot_be_is_refused(tmp_path, labels):
    (tmp_path / "cluster.toml").write_text(f'[[server]]\ntype = "v100"\ngpus = 2\nlabels = {labels}\n')

    with pytest.raises(ConfigError, match=r"cluster\.toml, \[\[server\]\] number 1"):
        clusters.load(tmp_path / "cluster.toml")


def test_an_anonymous_trace_has_no_labels(tmp_path):
    from rota.workloads.anonymity import anonymize

    jobs = workloads.read_trace(str(a_trace(tmp_path, f"0,{LM},1,1000,,zone=secret,")))

    assert anonymize(jobs).labels is None
    assert np.isnan(jobs.requests.cpus).all()


def test_priorities_of_a_trace_are_read_and_written(tmp_path):
    path = tmp_path / "jobs.csv"
    path.write_text(f"arrival_s,profile,gpus,steps,priority\n0,{LM},1,1000,5\n1,{LM},1,1000,\n2,{LM},1,1000,-2\n")

    jobs = workloads.read_trace(str(path))
    (tmp_path / "again.csv").write_text("".join(formats.create("csv").write(jobs, exact=True)))

    assert jobs.priority.tolist() == [5, 0, -2]
    assert workloads.read_trace(str(tmp_path / "again.csv")).priority.tolist() == [5, 0, -2]


@pytest.mark.parametrize("text", ["high", "1.5", "1001", "-1001", "9" * 30, "nan", "--5"])
def test_a_priority_that_cannot_be_is_refused_with_its_line(tmp_path, text):
    path = tmp_path / "jobs.csv"
    path.write_text(f"arrival_s,profile,gpus,steps,priority\n0,{LM},1,1000,5\n1,{LM},1,1000,{text}\n")

    with pytest.raises(TraceError, match=r"jobs\.csv:3.*is not a priority"):
        workloads.read_trace(str(path))
