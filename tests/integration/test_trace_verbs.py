"""The verbs of `rota trace` as a user types them."""

import gzip
import json

import pytest

from rota.cli.main import main

LOG = """job_id,user,vc,gpu_num,cpu_num,node_num,state,submit_time,start_time,end_time,duration,queue
1,ann,vcA,8,32,1,COMPLETED,2020-04-01 00:00:10,2020-04-01 00:00:20,2020-04-01 00:10:20,600,10
2,bob,vcB,0,4,1,COMPLETED,2020-04-01 00:00:00,2020-04-01 00:00:00,2020-04-01 00:00:05,5,0
3,bob,vcB,1,4,1,FAILED,2020-04-01 02:00:05,2020-04-01 02:00:06,2020-04-01 02:01:06,60,1
4,bob,vcB,1,4,1,FAILED,2020-04-03 02:00:05,2020-04-03 02:00:06,2020-04-03 02:01:06,60,1
"""


@pytest.fixture
def log(tmp_path):
    path = tmp_path / "log.csv"
    path.write_text(LOG)
    return path


def run(*arguments, code=0):
    assert main([str(a) for a in arguments]) == code


def test_info_shows_numbers_and_bars(log, capsys):
    run("trace", "info", log)

    out, err = capsys.readouterr()
    for said in ("Jobs", "Arrivals per 3 hours", "Durations", "10-30 min", "GPUs per job", "Jobs by tenant", "vcA"):
        assert said in out
    assert "66.7 %" in out
    assert max(map(len, out.splitlines())) <= 80
    assert "1 of 4 lines ask for no GPU and are left out" in err


def test_info_as_json_has_the_same_numbers(log, capsys):
    run("trace", "info", log, "--json", "--set-trace", "tenant=user", "--set-trace", "assign=res50")

    facts = json.loads(capsys.readouterr().out)
    assert (facts["jobs"], facts["tenants"]) == (3, 2)
    assert facts["gpu_hours"] == pytest.approx((8 * 600 + 120) / 3600)
    assert facts["jobs_by_profile"] == {"res50": 3}
    assert facts["histograms"]["gpus"] == {"labels": ["1", "8"], "counts": [2, 1]}


@pytest.mark.parametrize("form", ["png", "pdf", "svg"])
def test_info_draws_a_figure(log, tmp_path, form):
    pytest.importorskip("matplotlib")

    run("trace", "info", log, "--plot", tmp_path / f"a.{form}")

    assert (tmp_path / f"a.{form}").stat().st_size > 1000


def test_a_figure_of_another_kind_is_refused_before_any_work(log, tmp_path, capsys):
    run("trace", "info", log, "--plot", tmp_path / "a.bmp", code=2)

    assert ".png, .pdf, .svg" in capsys.readouterr().err


def test_lint_lists_all_errors_and_exits_with_two(tmp_path, capsys):
    path = tmp_path / "bad.csv"
    path.write_text("arrival_s,profile,gpus,steps\n0,LM,0,1\n0,LM,1,x\n0,LM,2,1,9\n")

    run("trace", "lint", path, code=2)
    out = capsys.readouterr().out
    assert f"{path}:2, column gpus: '0' is not a number of GPUs; give a whole number >= 1" in out
    assert f"{path}:3, column steps: 'x'" in out
    assert f"{path}:4: 5 cells" in out
    assert "3 errors" in out

    run("trace", "lint", path, "--json", "--max", 1, code=2)
    found = json.loads(capsys.readouterr().out)
    assert (found["error_count"], len(found["errors"]), found["jobs"]) == (3, 1, None)


def test_lint_of_a_good_trace_exits_with_zero(log, capsys):
    run("trace", "lint", log)

    out = capsys.readouterr().out
    assert "1 of 4 lines ask for no GPU and are left out" in out
    assert "3 jobs (helios), no errors, 1 remarks" in out


def test_a_log_becomes_a_csv_and_its_run_uses_it(log, tmp_path, capsys):
    run("trace", "convert", log, tmp_path / "jobs.csv.gz")
    assert gzip.decompress((tmp_path / "jobs.csv.gz").read_bytes()).startswith(b"job_id,arrival_s,profile,gpus,steps")

    results = []
    for path in (log, tmp_path / "jobs.csv.gz"):
        capsys.readouterr()
        run("simulate", "--trace", path, "--cluster", "v100=8", "--policy", "fifo", "--json")
        results.append(json.loads(capsys.readouterr().out))
    assert results[0]["jobs_finished"] == 3
    assert results[0]["mean_jct_s"] == results[1]["mean_jct_s"]


def test_settings_of_a_trace_reach_a_run_and_its_record(log, capsys):
    given = ("--trace", log, "--cluster", "v100=8", "--policy", "fifo", "--json")

    run("simulate", *given, "--set-trace", "failed=drop")

    result = json.loads(capsys.readouterr().out)
    assert result["jobs_submitted"] == 1
    assert result["config"]["trace_settings"] == {"failed": "drop"}
    run("simulate", "--workload", "gavel-static", *given[2:], "--set-trace", "failed=drop", code=2)
    assert "--set-trace needs --trace" in capsys.readouterr().err


def test_what_a_format_cannot_hold_is_said(log, tmp_path, capsys):
    run("trace", "convert", log, tmp_path / "a.trace")

    assert "gavel has no place for durations, tenants, CPU and memory requests" in capsys.readouterr().err


def test_convert_fills_in_durations_from_a_catalogue(tmp_path, capsys):
    (tmp_path / "a.csv").write_text("arrival_s,profile,gpus,steps\n0,res50,1,100\n")

    run("trace", "convert", tmp_path / "a.csv", tmp_path / "b.swf", code=2)
    assert "needs durations; give --profiles" in capsys.readouterr().err
    run("trace", "convert", tmp_path / "a.csv", tmp_path / "b.swf", "--profiles", "synergy")
    assert "78" in (tmp_path / "b.swf").read_text()


def test_a_long_trace_from_a_short_one_without_names(log, tmp_path, capsys):
    run("trace", "sample", log, tmp_path / "some.csv", "--fraction", 0.7, "--seed", 1)
    run("trace", "synthesize", tmp_path / "some.csv", tmp_path / "long.csv", "--jobs", 500, "--seed", 4)
    run("trace", "synthesize", tmp_path / "some.csv", tmp_path / "again.csv", "--jobs", 500, "--seed", 4)
    run("trace", "anonymize", tmp_path / "long.csv", tmp_path / "public.csv", "--round", 60, "--key", "secret")

    assert (tmp_path / "long.csv").read_bytes() == (tmp_path / "again.csv").read_bytes()
    public = (tmp_path / "public.csv").read_text()
    assert public.count("\n") == 501
    assert "vcA" not in public
    assert "tenant-" in public
    assert "2 jobs written" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("sample", "{log}", "{out}", "--jobs", "99"), "cannot be drawn"),
        (("synthesize", "{log}", "{out}"), "give either --jobs N or --hours H"),
        (("convert", "{log}", "{out}", "--set-trace", "assign=res51"), "neither a rule"),
        (("convert", "{log}", "{out}", "--to", "sacct"), "sacct is only read"),
        (("convert", "{log}", "{out}", "--from", "sia"), "the header has no column 'time'"),
    ],
)
def test_what_cannot_be_done_is_one_message_and_leaves_nothing(log, tmp_path, capsys, arguments, message):
    out = tmp_path / "out.csv"

    run("trace", *(a.format(log=log, out=out) for a in arguments), code=2)

    assert message in capsys.readouterr().err
    assert [p.name for p in tmp_path.iterdir()] == ["log.csv"]


def test_a_format_is_explained_with_its_settings(capsys):
    run("trace", "formats", "sacct")

    out = capsys.readouterr().out
    assert "AllocTRES" in out
    assert "assign_seed" in out
