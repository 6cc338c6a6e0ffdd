"""Formats of other systems, each with a small file made by hand after its public description."""

import gzip
import sys

import numpy as np
import pytest

from rota.core.errors import ConfigError, OutputError, TraceError, UnknownName
from rota.core.jobs import Launch, requests, table
from rota.profiles import load
from rota.workloads import format_of, formats, read_trace, write_trace
from rota.workloads.problems import Problems

ELASTICFLOW = """job_id,submission_time,num_iteration,model_name,deadline,batch_size,num_gpu,duration
b-1,1000,3249,deepspeech2,1693,32,1,1075
b-2,3065,48266,inception3,5920,64,8,3604
b-3,3065,10,unheard-of,,64,1,60
b-4,4000,10,resnet50,4100,64,1,0
"""
SIA = """name,time,application,num_replicas,batch_size
cifar10-0,107,cifar10,6,2048
bert-1,110,bert,4,384
"""
OPENB = """name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,deletion_time,scheduled_time
p0,12000,16384,1,1000,,LS,Running,500,1500,510
p1,6000,12288,1,460,V100M16|V100M32,BE,Failed,600,700,650
p2,6000,12288,0,0,,BE,Running,600,700,650
p3,0,0,8,1000,,LS,Pending,700,800,
p4,8000,2048,2,1000,,Burstable,Succeeded,0,100,0
"""
HELIOS = """job_id,user,vc,gpu_num,cpu_num,node_num,state,submit_time,start_time,end_time,duration,queue
7,u1,vcA,8,32,1,COMPLETED,2020-04-01 00:00:10,2020-04-01 00:00:20,2020-04-01 00:10:20,600,10
8,u2,vcB,0,4,1,COMPLETED,2020-04-01 00:00:00,2020-04-01 00:00:00,2020-04-01 00:00:05,5,0
9,u2,vcB,1,4,1,FAILED,2020-04-01 00:00:05,2020-04-01 00:00:06,2020-04-01 00:01:06,60,1
10,u1,vcA,1,4,1,CANCELLED,2020-04-01 00:00:07,None,None,0,3
"""
SACCT = """JobID|User|Account|Partition|Submit|Start|End|State|AllocTRES|ReqTRES
100|ann|vision|gpu|2026-01-05T08:00:00|2026-01-05T08:10:00|2026-01-05T10:10:00|COMPLETED|billing=8,cpu=8,gres/gpu=2,mem=64G,node=1|cpu=8
100.batch||vision||2026-01-05T08:10:00|2026-01-05T08:10:00|2026-01-05T10:10:00|COMPLETED|cpu=8,gres/gpu=2|
101|bob|speech|gpu|2026-01-05T07:00:00|2026-01-05T07:00:00|2026-01-05T07:30:00|CANCELLED by 1001|cpu=4,gres/gpu:a100=3,gres/gpu:b=1,mem=512000M|
102|bob|speech|cpu|2026-01-05T07:00:00|2026-01-05T07:00:00|2026-01-05T07:30:00|COMPLETED|cpu=4,mem=4G|
103|eve||gpu|2026-01-05T07:00:00|Unknown|Unknown|PENDING||cpu=4,gres/gpu=1
104_3|eve||gpu|2026-01-05T09:00:00|2026-01-05T09:00:00|2026-01-05T09:00:30|TIMEOUT||cpu=4,gres/gpu=1
"""  # noqa: E501
SWF = """; Version: 2.2
; Computer: made by hand

 1 0 10 100 4 -1 -1 4 200 1048576 1 3 1 1 1 1 -1 -1
 2 5 -1 60 -1 -1 -1 9 200 -1 0 3 1 2 1 1 -1 -1
 3 6 -1 0 4 -1 -1 4 200 -1 5 4 1 2 1 1 -1 -1
 4 7 -1 30 1 -1 -1 1 200 -1 2 4 1 2 1 1 -1 -1
 5 8.5 -1 30 1 -1 -1 1 200 -1 5 -1 1 2 2 1 -1 -1
"""
FILES = {
    "elasticflow": ELASTICFLOW, "sia": SIA, "openb": OPENB, "helios": HELIOS, "sacct": SACCT, "swf": SWF,
    "csv": "arrival_s,profile,gpus,steps\n0,LM,1,5\n", "philly-csv": "timestamp,duration,num_gpus\n",
    "gavel": "LM\tpython\tlm\t-n\t1\t100\t2\t1\t-1.000000\t0\n", "gavel-legacy": "LM\tpython\t-n\t1\t100\t6.0\t2\n",
    "synergy": "0,res50,0,100,1\n", "philly-json": "[{}]",
}  # fmt: skip


def a_file(folder, form, text=None, name="a.log"):
    path = folder / name
    path.write_text(FILES[form] if text is None else text)
    return path


def models_of(jobs):
    return [jobs.profiles[p] for p in jobs.profile]


def tenants_of(jobs):
    return [jobs.tenants[t] for t in jobs.tenant]


def filled(jobs):
    """Steps as they have to be: those that take the duration at the speed of the profile."""
    speeds = [load("synergy").rate(m, int(g), "v100") for m, g in zip(models_of(jobs), jobs.gpus, strict=True)]
    return jobs.duration * np.array(speeds)


@pytest.mark.parametrize("form", FILES)
def test_a_first_line_is_recognised_by_one_format_and_no_other(form):
    first = next(line for line in FILES[form].split("\n") if line.strip())

    assert [name for name in formats.names() if formats.create(name).recognises(first)] == [form]


def test_elasticflow_keeps_deadlines_and_puts_stand_ins_for_its_models(tmp_path):
    jobs = read_trace(a_file(tmp_path, "elasticflow"))

    assert jobs.submitted.tolist() == [0.0, 2065.0, 2065.0]
    assert jobs.gpus.tolist() == [1, 8, 1]
    assert jobs.deadline.tolist() == [693.0, 4920.0, np.inf]
    assert jobs.slo[0] == 693 / 1075
    assert models_of(jobs)[:2] == ["deepspeech", "res50"]
    assert models_of(jobs)[2] in load("synergy").names
    assert jobs.total_steps == pytest.approx(filled(jobs))


def test_elasticflow_can_keep_its_models_and_iterations(tmp_path):
    jobs = read_trace(a_file(tmp_path, "elasticflow"), settings={"assign": "keep"})

    assert models_of(jobs) == ["deepspeech2", "inception3", "unheard-of"]
    assert jobs.total_steps.tolist() == [3249.0, 48266.0, 10.0]


def test_a_raw_elasticflow_trace_gets_models_from_the_mix(tmp_path):
    text = "job_id,submission_time,duration,num_gpu\na,10,60,64\nb,12,30,1\n"

    jobs = read_trace(a_file(tmp_path, "elasticflow", text))

    assert models_of(jobs) == ["alexnet", "gnmt"]
    assert np.isinf(jobs.deadline).all()


def test_elasticflow_reads_back_what_it_wrote(tmp_path):
    jobs = read_trace(a_file(tmp_path, "elasticflow"), settings={"assign": "keep"})

    write_trace(jobs, tmp_path / "b.csv", "elasticflow", exact=True)
    again = read_trace(tmp_path / "b.csv", settings={"assign": "keep"})

    for column in ("submitted", "gpus", "total_steps", "duration", "deadline"):
        assert getattr(again, column).tolist() == getattr(jobs, column).tolist(), column
    assert models_of(again) == models_of(jobs)


def test_sia_jobs_take_the_gpu_hours_of_their_class(tmp_path):
    jobs = read_trace(a_file(tmp_path, "sia"))

    assert jobs.submitted.tolist() == [107.0, 110.0]
    assert models_of(jobs) == ["res18", "bert"]
    assert (jobs.duration * jobs.gpus / 3600).tolist() == pytest.approx([0.1**0.5, 10**0.5])
    assert jobs.requests.max_gpus.tolist() == [6.0, 4.0]
    assert jobs.requests.min_gpus.tolist() == [1.0, 1.0]


def test_lengths_of_sia_jobs_can_be_set(tmp_path):
    jobs = read_trace(a_file(tmp_path, "sia"), settings={"gpu_hours": "cifar10:3, bert:2"})

    assert jobs.duration.tolist() == [1800.0, 1800.0]
    with pytest.raises(ConfigError, match="gpu_hours: 'cifar10' is not application:hours"):
        read_trace(a_file(tmp_path, "sia"), settings={"gpu_hours": "cifar10"})


def test_an_application_without_a_length_is_refused_with_the_way_out(tmp_path):
    with pytest.raises(TraceError, match=r":2, column application: 'vit' is not one of .*gpu_hours=vit:HOURS"):
        read_trace(a_file(tmp_path, "sia", "name,time,application,num_replicas,batch_size\nvit-0,1,vit,1,1\n"))


def test_pods_are_jobs_from_their_start_to_their_end(tmp_path):
    problems = Problems("a")

    jobs = read_trace(a_file(tmp_path, "openb"), problems=problems)

    assert jobs.submitted.tolist() == [0.0, 500.0, 600.0]
    assert jobs.duration.tolist() == [100.0, 990.0, 50.0]
    assert jobs.gpus.tolist() == [2, 1, 1]
    assert tenants_of(jobs) == ["Burstable", "LS", "BE"]
    assert jobs.requests.cpus.tolist() == [8.0, 12.0, 6.0]
    assert jobs.requests.memory_gb.tolist() == [2.0, 16.0, 12.0]
    assert [r.what for r in problems.remarks] == [
        "1 of 5 lines ask for no GPU and are left out",
        "1 of 5 lines were never scheduled and are left out",
        "1 pods ask for a part of a GPU, and each counts as a whole one",
    ]


def test_parts_of_gpus_and_failed_pods_can_be_left_out(tmp_path):
    path = a_file(tmp_path, "openb")

    assert read_trace(path, settings={"fractions": "drop"}).gpus.tolist() == [2, 1]
    assert tenants_of(read_trace(path, settings={"failed": "drop"})) == ["Burstable", "LS"]


def test_helios_jobs_with_gpus_are_kept_whatever_became_of_them(tmp_path):
    jobs = read_trace(a_file(tmp_path, "helios"))

    assert jobs.submitted.tolist() == [0.0, 5.0]
    assert jobs.duration.tolist() == [60.0, 600.0]
    assert jobs.gpus.tolist() == [1, 8]
    assert tenants_of(jobs) == ["vcB", "vcA"]
    assert jobs.requests.cpus.tolist() == [4.0, 32.0]


def test_failed_helios_jobs_and_virtual_clusters_can_be_put_aside(tmp_path):
    jobs = read_trace(a_file(tmp_path, "helios"), settings={"failed": "drop", "tenant": "user"})

    assert tenants_of(jobs) == ["u1"]


def test_accounting_gives_gpus_cpus_and_memory_of_jobs_that_ran(tmp_path):
    jobs = read_trace(a_file(tmp_path, "sacct"))

    assert jobs.submitted.tolist() == [0.0, 3600.0, 7200.0]
    assert jobs.duration.tolist() == [1800.0, 7200.0, 30.0]
    assert jobs.gpus.tolist() == [4, 2, 1]
    assert tenants_of(jobs) == ["speech", "vision", "default"]
    assert jobs.requests.cpus.tolist() == [4.0, 8.0, 4.0]
    assert jobs.requests.memory_gb.tolist()[:2] == [500.0, 64.0]


@pytest.mark.parametrize(
    ("settings", "tenants"),
    [({"failed": "drop"}, ["vision"]), ({"tenant": "user"}, ["bob", "ann", "eve"])],
)
def test_accounting_can_be_cut_to_completed_jobs_and_told_whose_they_are(tmp_path, settings, tenants):
    assert tenants_of(read_trace(a_file(tmp_path, "sacct"), settings=settings)) == tenants


@pytest.mark.parametrize(
    ("header", "row"),
    [
        ("JobID|Submit|ElapsedRaw|AllocTRES", "1|2026-01-05T08:00:00|93784|gres/gpu=1"),
        ("JobIDRaw|Submit|Elapsed|AllocTRES", "1|2026-01-05T08:00:00|1-02:03:04|gres/gpu=1"),
        ("JobID|Submit|Start|End|AllocGRES", "1|1767600000|1767600000|1767693784|gpu:v100:1"),
        ("JobID|Submit|Elapsed|ReqGRES|", "1|2026-01-05T08:00:00|26:03:04|gpu:1|"),
    ],
)
def test_accounting_is_read_however_sacct_was_asked(tmp_path, header, row):
    jobs = read_trace(a_file(tmp_path, "sacct", f"{header}\n{row}\n"))

    assert (jobs.duration.tolist(), jobs.gpus.tolist()) == ([93784.0], [1])


@pytest.mark.parametrize(
    ("amount", "gb"), [("1.5T", 1536.0), ("64Gn", 64.0), ("1.2.3G", np.nan), (".", np.nan), ("0", np.nan)]
)
def test_an_amount_of_memory_that_is_none_is_not_known(tmp_path, amount, gb):
    row = f"1|2026-01-05T08:00:00|01:00:00|gres/gpu=1,mem={amount}"

    jobs = read_trace(a_file(tmp_path, "sacct", f"JobID|Submit|Elapsed|AllocTRES\n{row}\n"))

    np.testing.assert_equal(jobs.requests.memory_gb, [gb])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("JobID|Submit|Start|End\n1|2026-01-05T08:00:00|x|y\n", "no column AllocTRES"),
        ("JobID|Submit|AllocTRES\n1|2026-01-05T08:00:00|gres/gpu=1\n", "neither Start and End nor Elapsed"),
        ("JobID|Submit|Start|End|AllocTRES\n1.0|||\n", "5 columns"),
        ("JobID|Submit|Start|End|AllocTRES\n1.0|2026-01-05T08:00:00|||gres/gpu=1\n", "only job steps"),
        ("JobID|Submit|Start|End|AllocTRES\n1|soon|||gres/gpu=1\n", ":2, column Submit: 'soon' is not a time"),
        ("JobID|Submit|Elapsed|AllocTRES\n1|2026-01-05T08:00:00|long|gres/gpu=1\n", "column Elapsed: 'long'"),
    ],
)
def test_a_listing_that_says_too_little_is_refused_with_what_to_ask_for(tmp_path, text, message):
    with pytest.raises(TraceError, match=message):
        read_trace(a_file(tmp_path, "sacct", text))


def test_a_standard_workload_file_takes_processors_for_gpus(tmp_path):
    jobs = read_trace(a_file(tmp_path, "swf"))

    assert jobs.submitted.tolist() == [0.0, 5.0, 8.5]
    assert jobs.duration.tolist() == [100.0, 60.0, 30.0]
    assert jobs.gpus.tolist() == [4, 9, 1]
    assert tenants_of(jobs) == ["user-3", "user-3", "default"]
    assert jobs.requests.memory_gb.tolist()[0] == 4.0


@pytest.mark.parametrize(
    ("settings", "gpus", "tenants"),
    [
        ({"processors_per_gpu": "4"}, [1, 3, 1], ["user-3", "user-3", "default"]),
        ({"failed": "drop"}, [4], ["user-3"]),
        ({"tenant": "queue"}, [4, 9, 1], ["queue-1", "queue-1", "queue-2"]),
    ],
)
def test_settings_of_a_standard_workload_file(tmp_path, settings, gpus, tenants):
    jobs = read_trace(a_file(tmp_path, "swf"), settings=settings)

    assert (jobs.gpus.tolist(), tenants_of(jobs)) == (gpus, tenants)


def test_a_standard_workload_file_reads_back_with_models_and_tenants(tmp_path):
    jobs = read_trace(a_file(tmp_path, "helios"))

    write_trace(jobs, tmp_path / "b.swf.gz")
    again = read_trace(tmp_path / "b.swf.gz")

    assert gzip.decompress((tmp_path / "b.swf.gz").read_bytes()).startswith(b"; Version: 2.2\n")
    for column in ("submitted", "gpus", "total_steps", "duration"):
        assert getattr(again, column).tolist() == getattr(jobs, column).tolist(), column
    assert (models_of(again), tenants_of(again)) == (models_of(jobs), tenants_of(jobs))


@pytest.mark.parametrize("form", ["elasticflow", "swf"])
def test_a_format_that_needs_durations_says_how_to_get_them(tmp_path, form):
    jobs = table(profile_names=["LM"], gpus=[1], total_steps=[5], submitted=[0])

    with pytest.raises(OutputError, match=f"the {form} format needs durations; give --profiles"):
        write_trace(jobs, tmp_path / "a", form)


@pytest.mark.parametrize("column", ["Elapsed", "ElapsedRaw"])
@pytest.mark.parametrize("state", ["RUNNING", "SUSPENDED", "REQUEUED", "PENDING"])
def test_jobs_of_slurm_that_have_not_ended_are_left_out_without_end_too(tmp_path, column, state):
    took = {"Elapsed": ("01:00:00", "00:10:00"), "ElapsedRaw": ("3600", "600")}[column]
    start = "2026-10-01T08:00:00|2026-10-01T08:00:00"
    lines = [
        f"JobID|Submit|Start|State|{column}|AllocTRES",
        f"1|{start}|COMPLETED|{took[0]}|gres/gpu=1",
        f"2|{start}|{state}|{took[1]}|gres/gpu=1",
        f"3|{start}|CANCELLED by 7|{took[1]}|gres/gpu=1",
    ]

    jobs = read_trace(a_file(tmp_path, "sacct", "\n".join(lines) + "\n"))

    assert jobs.names.tolist() == ["1", "3"]
    assert jobs.duration.tolist() == [3600.0, 600.0]


@pytest.mark.parametrize("form", ["sia", "openb", "helios", "sacct", "philly-csv", "philly-json"])
def test_a_log_cannot_be_written(tmp_path, form):
    with pytest.raises(OutputError, match=f"{form} is only read"):
        write_trace(table(profile_names=["LM"], gpus=[1], total_steps=[5], submitted=[0]), tmp_path / "a", form)

    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("form", ["openb", "helios", "sacct", "swf"])
def test_a_setting_with_an_unknown_word_is_refused(tmp_path, form):
    with pytest.raises(ConfigError, match="failed = 'maybe' is not one of keep, drop"):
        read_trace(a_file(tmp_path, form), settings={"failed": "maybe"})
    with pytest.raises(UnknownName, match="did you mean 'failed'"):
        read_trace(a_file(tmp_path, form), settings={"faild": "keep"})


def test_requests_survive_our_own_csv(tmp_path):
    asked = requests(2, cpus=np.array([4.0, np.nan]), max_gpus=np.array([8.0, 2.0]))
    jobs = table(profile_names=["a", "b"], gpus=[1, 1], total_steps=[1, 1], submitted=[0, 1], requests=asked)

    write_trace(jobs, tmp_path / "a.csv")
    again = read_trace(tmp_path / "a.csv")

    assert (tmp_path / "a.csv").read_text().splitlines()[0].endswith("weight,cpus,max_gpus")
    assert again.requests.cpus[0] == 4.0
    assert np.isnan(again.requests.cpus[1])
    assert np.isnan(again.requests.memory_gb).all()
    assert again.requests.max_gpus.tolist() == [8.0, 2.0]
    assert again.rows(1, 2).requests.max_gpus.tolist() == [2.0]


def test_an_elastic_range_must_not_be_upside_down(tmp_path):
    text = "arrival_s,profile,gpus,steps,min_gpus,max_gpus\n0,LM,1,5,4,2\n"

    with pytest.raises(TraceError, match=r":2, column min_gpus: min_gpus 4 is above max_gpus 2; exchange the two"):
        read_trace(a_file(tmp_path, "csv", text))


def test_the_name_of_a_file_stands_for_a_format():
    names = ["a.csv", "a.csv.gz", "a.PARQUET", "a.swf", "a.trace.gz", "a", "a.gz"]

    assert [format_of(n) for n in names] == ["csv", "csv", "parquet", "swf", "gavel", "gavel", "gavel"]


def a_full_table():
    return table(
        profile_names=["LM", "res50"],
        gpus=[1, 4],
        total_steps=[10.25, np.nan],
        submitted=[0.1, 7.0],
        weight=[1.0, 2.5],
        duration=[np.nan, 60.0],
        slo=[np.nan, 1.5],
        tenant_names=["a, b", "c"],
        launch=[Launch("python x", "lm", "-n", needs_data_dir=True), Launch()],
        requests=requests(2, memory_gb=np.array([np.nan, 1.5])),
    )


@pytest.mark.parametrize("name", ["a.parquet", "a.parquet.gz", "a.csv"])
def test_our_own_formats_keep_everything(tmp_path, name):
    if "parquet" in name:
        pytest.importorskip("pyarrow")
    jobs = a_full_table()

    write_trace(jobs, tmp_path / name)
    again = read_trace(tmp_path / name)

    for column in ("submitted", "gpus", "total_steps", "duration", "weight", "slo", "deadline"):
        assert np.array_equal(getattr(again, column), getattr(jobs, column), equal_nan=True), column
    assert (models_of(again), tenants_of(again)) == (models_of(jobs), tenants_of(jobs))
    assert [again.launches[i] for i in again.launch] == [jobs.launches[i] for i in jobs.launch]
    assert np.array_equal(again.requests.memory_gb, jobs.requests.memory_gb, equal_nan=True)


def test_a_parquet_file_with_something_wrong_names_the_row(tmp_path):
    arrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    good = {"arrival_s": [0.0, 1.0], "profile": ["a", "b"], "gpus": [1, 0], "steps": [5.0, 5.0]}

    parquet.write_table(arrow.table(good), tmp_path / "a.parquet")
    with pytest.raises(TraceError, match=r"a\.parquet:2, column gpus: '0' is not a number of GPUs"):
        read_trace(tmp_path / "a.parquet")

    parquet.write_table(arrow.table({"profile": ["a"]}), tmp_path / "b.parquet")
    with pytest.raises(TraceError, match="there is no column 'arrival_s'"):
        read_trace(tmp_path / "b.parquet")

    (tmp_path / "c.parquet").write_bytes((tmp_path / "a.parquet").read_bytes()[:40])
    with pytest.raises(TraceError, match="not a Parquet file"):
        read_trace(tmp_path / "c.parquet")


def test_parquet_without_pyarrow_says_how_to_get_it(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)

    with pytest.raises(ConfigError, match=r"pip install '.\[parquet\]'"):
        write_trace(a_full_table(), tmp_path / "a.parquet")

    assert list(tmp_path.iterdir()) == []
