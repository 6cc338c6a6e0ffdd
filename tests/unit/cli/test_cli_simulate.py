import json
import os

import pytest

from rota.cli.main import main
from rota.core.errors import ConfigError, SolveError, UnknownName

BASE = ["simulate", "--workload", "gavel-continuous", "--cluster", "v100=4", "--policy", "fifo"]


def test_options_reach_the_simulator_under_their_own_names(api):
    code = main(
        [
            *("simulate", "--workload", "gavel-continuous", "--set", "interarrival_s=4500", "--set", "jobs=10"),
            *("--cluster", "v100=36,k80=4", "--policy", "allox", "--set-policy", "alpha=0.5", "--mechanism", "strided"),
            *("--set-mechanism", "a=b", "--profiles", "gavel", "--round", "180", "--rules", "gavel-artifact"),
            *("--set-rules", "restart_s=20", "--seed", "42", "--measure", "4000:5000", "--until", "1e6", "--json"),
        ]
    )

    assert code == 0
    call = {k: v for k, v in api.calls[0].items() if v not in (None, {})}
    assert call == {
        "workload": "gavel-continuous",
        "settings": {"interarrival_s": "4500", "jobs": "10"},
        "cluster": "v100=36,k80=4",
        "policy": "allox",
        "policy_settings": {"alpha": "0.5"},
        "mechanism": "strided",
        "mechanism_settings": {"a": "b"},
        "profiles": "gavel",
        "round_s": 180.0,
        "rules": "gavel-artifact",
        "rule_settings": {"restart_s": "20"},
        "seed": 42,
        "measure": (4000, 5000),
        "until": 1e6,
    }


def test_json_is_one_object_that_every_parser_accepts(api, capsys):
    main([*BASE, "--json"])

    shown = json.loads(capsys.readouterr().out, parse_constant=pytest.fail)
    assert shown["mean_jct_s"] == 59770.441018
    assert shown["cost"] is None
    assert shown["rounds"] == 7
    assert shown["config"] == {"policy": "fifo"}


def test_the_table_fits_eighty_columns(api, capsys):
    main(BASE)

    shown = capsys.readouterr().out
    assert "59,770.4 s  (16.6 h)" in shown
    assert "12.13 %" in shown
    assert "1 of 3" in shown
    assert max(map(len, shown.splitlines())) <= 80


def test_remarks_go_to_standard_error(api, capsys, result):
    api.behave = lambda **_: result(notes=["job 3 asks for 64 GPUs of one type"])

    main([*BASE, "--json"])

    captured = capsys.readouterr()
    assert captured.err == "rota: note: job 3 asks for 64 GPUs of one type\n"
    assert json.loads(captured.out)["notes"]


def test_ctrl_c_gives_what_was_done_so_far_and_130(api, capsys, result, tmp_path):
    api.behave = lambda **_: result(interrupted=True)

    code = main([*BASE, "--jobs-csv", str(tmp_path / "jobs.csv")])

    assert code == 130
    assert "interrupted" in capsys.readouterr().out
    assert (tmp_path / "jobs.csv").exists()


def test_ctrl_c_outside_a_run_is_short(api, capsys):
    def interrupt(**_):
        raise KeyboardInterrupt

    api.behave = interrupt

    assert main(BASE) == 130
    assert capsys.readouterr().err.strip() == "rota: interrupted"


@pytest.mark.parametrize(
    ("error", "code"),
    [(UnknownName("policy", "fif", ["fifo"]), 2), (ConfigError("no"), 2), (SolveError("the solver gave up"), 1)],
)
def test_known_errors_are_one_message_without_a_traceback(api, capsys, error, code):
    def fail(**_):
        raise error

    api.behave = fail

    assert main(BASE) == code
    captured = capsys.readouterr()
    assert captured.err == f"rota: error: {error}\n"
    assert captured.out == ""


def test_a_bug_says_how_to_report_it_and_shows_more_on_demand(api, capsys, monkeypatch):
    def fail(**_):
        raise ZeroDivisionError("oops")

    api.behave = fail

    assert main(BASE) == 1
    assert "Traceback" not in capsys.readouterr().err
    assert main([*BASE, "--traceback"]) == 1
    assert "Traceback" in capsys.readouterr().err
    monkeypatch.setenv("ROTA_DEBUG", "1")
    assert main(BASE) == 1
    shown = capsys.readouterr().err
    assert "Traceback" in shown
    assert "internal error: ZeroDivisionError: oops" in shown


@pytest.mark.parametrize(
    "extra",
    [
        ("--trace", "x.trace"),
        ("--measure", "5"),
        ("--measure", "5:5"),
        ("--measure", "-1:5"),
        ("--round", "0"),
        ("--round", "nan"),
        ("--until", "-3"),
        ("--set", "novalue"),
        ("--set", "=3"),
        ("--set", "a=1", "--set", "a=2"),
        ("--checkpoint-every", "5"),
        ("--trace-format", "gavel"),
        ("--nonsense",),
        ("--seed", "x"),
    ],
)
def test_wrong_usage_is_refused_before_anything_runs(api, capsys, extra):
    assert main([*BASE, *extra]) == 2
    assert api.calls == []
    assert capsys.readouterr().err.startswith("rota: error: ")


def test_settings_of_a_workload_need_a_workload(api, capsys):
    args = ["simulate", "--trace", "t", "--cluster", "v100=4", "--policy", "fifo"]

    assert main([*args, "--set", "a=1"]) == 2
    said = capsys.readouterr().err
    assert "--set-policy" in said
    assert "--set-trace" in said
    assert main(["simulate", "--cluster", "v100=4", "--policy", "fifo"]) == 2
    assert "--trace FILE or --workload NAME" in capsys.readouterr().err


@pytest.mark.parametrize("flag", ["--jobs-csv", "--events", "--checkpoint"])
def test_an_output_that_cannot_be_written_is_refused_before_the_run(api, capsys, tmp_path, flag):
    assert main([*BASE, flag, str(tmp_path / "missing" / "file")]) == 2
    assert main([*BASE, flag, str(tmp_path)]) == 2
    assert api.calls == []
    assert "cannot write" in capsys.readouterr().err


def test_two_outputs_or_an_input_and_an_output_must_differ(api, capsys, tmp_path):
    same = str(tmp_path / "same")

    assert main([*BASE, "--jobs-csv", same, "--events", same]) == 2
    assert main(["simulate", "--trace", same, "--cluster", "x", "--policy", "y", "--jobs-csv", same]) == 2
    assert api.calls == []
    assert "the same file" in capsys.readouterr().err


def test_the_event_log_appears_only_when_the_run_ends_well(api, tmp_path):
    log = tmp_path / "run.jsonl.gz"

    def write_and_fail(events, **_):
        events.write_text("half")
        assert events.suffix == ".gz"
        raise SolveError("no")

    api.behave = write_and_fail
    assert main([*BASE, "--events", str(log)]) == 1
    assert os.listdir(tmp_path) == []  # noqa: PTH208


def test_replay_shows_the_same_table(api, capsys, tmp_path):
    main(BASE)
    expected = capsys.readouterr().out

    assert main(["replay", "run.jsonl", "--jobs-csv", str(tmp_path / "jobs.csv")]) == 0
    assert capsys.readouterr().out == expected
    assert api.calls[-1] == {"path": "run.jsonl"}
    assert (tmp_path / "jobs.csv").read_text().startswith("job_id")
