"""What logs say about types of GPU, kept as where a job may run and as what its duration is about."""

import pytest

from rota.core.errors import ConfigError, TraceError
from rota.core.jobs import table
from rota.workloads import read_trace, write_trace
from rota.workloads.anonymity import anonymize
from rota.workloads.facts import trace_facts
from rota.workloads.losses import lost
from rota.workloads.problems import Problems

SACCT = (
    "JobID|Partition|Submit|Start|End|ReqTRES|AllocTRES\n"
    "1|big|5|5|65|gres/gpu:a100=2|gres/gpu=2,gres/gpu:a100=2\n"
    "2|big|6|6|66|gres/gpu=1|gres/gpu=1,gres/gpu:v100=1\n"
    "3|old|7|7|67|gres/gpu=1|gres/gpu=1\n"
    "4|big|8|8|68|gres/gpu=2|gres/gpu:a100=1,gres/gpu:v100=1\n"
)
OPENB = (
    "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,deletion_time,scheduled_time\n"
    "p0,1000,1024,1,1000,T4,LS,Running,0,10,0\n"
    "p1,1000,1024,1,1000,V100M32|V100M16,LS,Running,1,10,1\n"
    "p2,1000,1024,1,1000,,LS,Running,2,10,2\n"
)
HELIOS = (
    "job_id,user,vc,gpu_num,state,submit_time,duration\n"
    "h1,u,vcA,8,COMPLETED,2020-04-01 00:00:00,60\n"
    "h2,u,vcB,1,COMPLETED,2020-04-01 00:00:01,60\n"
)


def read(folder, text, problems=None, **settings):
    path = folder / "log.txt"
    path.write_text(text)
    return read_trace(path, settings=settings, problems=problems)


def where(jobs):
    if jobs.gpu_types is None:
        return None
    return list(zip(jobs.gpu_types.allowed_sets(), jobs.gpu_types.recorded_names(), strict=True))


A, V, BOTH = ("a100",), ("v100",), ("a100", "v100")


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({}, [(A, "a100"), (V, "v100"), ((), ""), (BOTH, "")]),
        ({"elsewhere": "same"}, [(A, "a100"), ((), "v100"), ((), ""), (BOTH, "")]),
        ({"types": "ignore"}, None),
        ({"reference": "v100", "elsewhere": "same"}, [(A, "v100"), ((), "v100"), ((), "v100"), (BOTH, "v100")]),
        ({"partitions": "old:k80"}, [(A, "a100"), (V, "v100"), (("k80",), "k80"), (BOTH, "")]),
        ({"partitions": "as-types"}, [(A, "a100"), (V, "v100"), (("old",), "old"), (BOTH, "")]),
        (
            {"rename": "a100:big,v100:small"},
            [(("big",), "big"), (("small",), "small"), ((), ""), (("big", "small"), "")],
        ),
    ],
)
def test_accounting_says_where_jobs_ran_and_may_run(tmp_path, settings, expected):
    assert where(read(tmp_path, SACCT, **settings)) == expected


def test_jobs_with_several_types_at_once_and_misspelt_partitions_are_told(tmp_path):
    problems = Problems("log.txt")

    jobs = read(tmp_path, SACCT, problems, partitions="bgi:a100")

    assert jobs.names.tolist() == ["1", "2", "3", "4"]
    assert [r.message for r in problems.remarks] == [
        "1 jobs held GPUs of several types at once; here each runs on one of these types",
        "no job of the log is in the partition 'bgi' of the setting partitions; did you mean 'big'?",
    ]


def test_pods_run_where_their_spec_says(tmp_path):
    jobs = read(tmp_path, OPENB)

    assert where(jobs) == [(("T4",), "T4"), (("V100M16", "V100M32"), ""), ((), "")]
    assert jobs.names.tolist() == ["p0", "p1", "p2"]


def test_virtual_clusters_stand_for_types(tmp_path):
    assert where(read(tmp_path, HELIOS)) is None
    assert where(read(tmp_path, HELIOS, partitions="as-types")) == [(("vcA",), "vcA"), (("vcB",), "vcB")]
    assert where(read(tmp_path, HELIOS, partitions="vcA:v100")) == [(V, "v100"), ((), "")]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"partitions": "big"}, "partitions: 'big' is not NAME:VALUE; give e.g. partitions=gpu-a100:a100"),
        ({"rename": "a:b,a:c"}, "rename: 'a' is given twice; keep one"),
        ({"elsewhere": "maybe"}, "elsewhere = 'maybe' is not one of never, same"),
        ({"types": "yes"}, "types = 'yes' is not one of keep, ignore"),
    ],
)
def test_settings_about_types_that_cannot_be_used(tmp_path, settings, message):
    with pytest.raises(ConfigError, match=message):
        read(tmp_path, SACCT, **settings)


@pytest.mark.parametrize("name", ["a.csv", "a.parquet"])
def test_types_and_names_survive_our_own_formats(tmp_path, name):
    if name.endswith("parquet"):
        pytest.importorskip("pyarrow")
    jobs = table(
        profile_names=["res50", "recorded"], gpus=[1, 2], total_steps=[5, 6], submitted=[0, 1], duration=[5, 6],
        allowed_types=[["b", "a"], ["a"]], recorded_on=["", "a"], names=["x", "7"],
    )  # fmt: skip

    write_trace(jobs, tmp_path / name)
    back = read_trace(tmp_path / name)

    assert where(back) == [(("a", "b"), ""), (("a",), "a")]
    assert back.names.tolist() == ["x", "7"]


def test_a_job_without_a_profile_is_replayed_as_recorded(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("arrival_s,gpus,duration_s,recorded_on\n0,1,60,a100\n5,1,30,\n")

    jobs = read_trace(path)

    assert jobs.profiles == ("recorded",)
    assert where(jobs) == [(A, "a100"), ((), "")]
    assert where(read_trace(path, settings={"elsewhere": "same"})) == [((), "a100"), ((), "")]


def test_what_is_published_has_no_names(tmp_path):
    assert anonymize(read(tmp_path, SACCT)).names is None


def test_a_trace_is_described_with_its_types(tmp_path):
    facts = trace_facts(read(tmp_path, SACCT))

    assert facts.jobs_by_types == {"any": 1, "a100": 1, "a100|v100": 1, "v100": 1}
    assert facts.jobs_by_recorded == {"not said": 2, "a100": 1, "v100": 1}


def test_formats_without_a_place_for_types_and_names_say_so(tmp_path):
    jobs = read(tmp_path, OPENB)

    assert lost(jobs, "csv") == []
    assert lost(jobs, "gavel")[-2:] == ["types of GPU", "names of jobs"]


def test_a_listing_is_read_in_the_encoding_of_another_system(tmp_path):
    path = tmp_path / "log.txt"
    path.write_bytes(SACCT.replace("\n", "\r\n").encode("utf-16"))

    assert len(read_trace(path)) == 4


@pytest.mark.parametrize("text", [SACCT.replace("|", ","), "  JobID      Submit \n------- --------\n"])
def test_a_listing_in_another_form_is_told_how_to_ask_for_ours(tmp_path, text):
    with pytest.raises(
        TraceError, match=r"looks like a listing of sacct in a form that is not read; run sacct with -P"
    ):
        read(tmp_path, text)


def test_a_text_in_an_unknown_encoding_is_told_how_to_save_it(tmp_path):
    path = tmp_path / "log.txt"
    path.write_bytes(SACCT.encode() + b"5|\xe9|\n")

    with pytest.raises(ConfigError, match="save it as UTF-8"):
        read_trace(path)
