"""Everything that is wrong with a trace, at once."""

import json

import pytest

from rota.core.errors import ConfigError, TraceError
from rota.workloads import read_trace
from rota.workloads.lint import lint

CSV = "job_id,arrival_s,profile,gpus,steps,weigth\n"
BROKEN = {
    "csv": CSV + "0,5,LM,1,10,1\n1,4,,0,x,1\n1,nan,LM,1\n0,6,LM,two,,1\n",
    "gavel": "LM\tc\td\t-n\t1\t0\t2\t1\t-1\t0\nLM\tc\td\t-n\t2\t5\t-2\t0\t0\t-1\nshort\n",
    "gavel-legacy": "LM\tc\t-n\t1\t5\tx\t2\nLM\tc\t-n\tx\t5\t5\t0\n",
    "synergy": "0,res50,0,1,1\nx,,-5,0,0\n1,2\n",
    "philly-csv": "timestamp,duration,num_gpus\nnever,-1,x\n2017-10-09 06:13:03,x,1\n",
    "philly-json": json.dumps([{"attempts": 5}, 7, {"attempts": [], "vc": "a"}], indent=0),
    "elasticflow": "job_id,submission_time,num_gpu,duration,deadline\na,-1,1,5,\nb,5,x,5,4\nc,5,1,5,4\n",
    "sia": "name,time,application,num_replicas,batch_size\na,-1,vit,0,1\nb,x,bert,1,1\n",
    "openb": "num_gpu,gpu_milli,creation_time,deletion_time,scheduled_time\n-1,2000,x,y,z\n1,1000,5,9\n",
    "helios": "gpu_num,submit_time,duration\nx,now,-1\n1,2020-04-01 00:00:10,x\n",
    "sacct": "JobID|Submit|Start|End|AllocTRES\n1|now|then|later|gres/gpu=1\n2|x\n",
    "swf": "; c\n1 x -1 y 1 -1 -1 1 -1 -1 1 1 1 1 1 1 -1 -1\n1 2 3\n",
}
ERRORS = {
    "csv": 7, "gavel": 7, "gavel-legacy": 3, "synergy": 6, "philly-csv": 4, "philly-json": 2, "elasticflow": 4,
    "sia": 4, "openb": 6, "helios": 4, "sacct": 4, "swf": 3,
}  # fmt: skip


def a_file(folder, text, name="a.txt"):
    path = folder / name
    path.write_text(text)
    return path


@pytest.mark.parametrize("form", BROKEN)
def test_every_format_reports_all_that_is_wrong_and_reading_stops_at_the_first(tmp_path, form):
    path = a_file(tmp_path, BROKEN[form])

    found = lint(path)

    assert found.format == form
    assert found.error_count == len(found.errors) == ERRORS[form], "\n".join(map(str, found.errors))
    assert found.jobs is None
    assert all(str(p).startswith(f"{path}:{p.line}") and p.what for p in found.errors)
    with pytest.raises(TraceError):
        read_trace(path)


def test_an_error_names_line_column_value_and_what_to_do(tmp_path):
    found = lint(a_file(tmp_path, BROKEN["csv"]))

    assert sorted((p.line, p.column or "", p.value) for p in found.errors) == [
        (3, "gpus", "0"),
        (3, "profile", ""),
        (3, "steps", "x"),
        (4, "", None),
        (5, "", None),
        (5, "gpus", "two"),
        (5, "job_id", "0"),
    ]
    bad = next(p for p in found.errors if p.column == "gpus")
    assert (bad.line, bad.value, bad.what, bad.fix) == (
        3,
        "0",
        "'0' is not a number of GPUs",
        "give a whole number >= 1",
    )


def test_beyond_a_number_errors_are_only_counted(tmp_path):
    rows = "".join(f"{n},0,LM,0,5,1\n" for n in range(250))

    found = lint(a_file(tmp_path, CSV + rows), most=10)

    assert (len(found.errors), found.error_count) == (10, 250)


def test_a_header_that_cannot_be_used_is_an_error_like_others(tmp_path):
    found = lint(a_file(tmp_path, "arrival_s,profile,gpu,steps\n0,a,1,1\n"))

    assert [p.what for p in found.errors] == ["the header has no column 'gpus'"]
    assert found.errors[0].fix.startswith("is it 'gpu'?")


def test_a_file_in_no_format_is_an_error_and_one_that_is_not_there_is_raised(tmp_path):
    found = lint(a_file(tmp_path, "hello\n"))

    assert (found.format, found.error_count) == (None, 1)
    with pytest.raises(ConfigError, match="cannot read trace"):
        lint(tmp_path / "nowhere")


def test_a_good_trace_has_remarks_at_most(tmp_path):
    text = (
        "arrival_s,profile,gpus,steps,duration_s,slo,weigth\n100000,res50,1,5,10,0.5,1\n100000,nobody-knows,1,5,10,,1\n"
    )

    found = lint(a_file(tmp_path, text))

    assert (found.error_count, found.jobs) == (0, 2)
    said = "\n".join(map(str, found.remarks))
    assert "column 'weigth' is not read; did you mean 'weight'?" in said
    assert "1 of 2 models are in no built-in catalogue (nobody-knows)" in said
    assert "the first job arrives only after 1.2 days" in said
    assert "1 jobs have a deadline shorter than their duration" in said


def test_gpus_that_were_never_measured_are_worth_a_remark(tmp_path):
    text = "arrival_s,profile,gpus,steps\n0,ResNet-50 (batch size 64),3,5\n0,ResNet-50 (batch size 64),1,5\n"

    assert "1 jobs ask for numbers of GPUs" in str(lint(a_file(tmp_path, text)).remarks[0])
